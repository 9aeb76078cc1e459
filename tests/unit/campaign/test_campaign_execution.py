"""Campaigns on labs in virtual time: order, journal, resume, interruption, summary."""

import json
from xml.etree import ElementTree as ET

import pytest

from mrc_testbed.campaign.execution import execute_campaign, exit_code
from mrc_testbed.campaign.folder import CampaignFolder, all_campaigns, find_campaign
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.run_figures import compare_runs
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.errors import AgentError, CleanupError, FabricError, UsageError


@pytest.fixture
def folder(files):
    return CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))


def carry_out(folder, stage, **options):
    return execute_campaign(folder, stage, progress=lambda _: None, **options)


def test_runs_of_one_topology_share_a_lab(folder, stage):
    carry_out(folder, stage)
    assert stage.events == ["up 2", *(run.key for run in folder.plan.runs), "down 2"]


def test_the_exit_code_is_that_of_the_worst_run(folder, stage):
    assert carry_out(folder, stage) == 4
    assert {folder.entry(run).status for run in folder.plan.runs[:4]} == {"passed"}
    assert {folder.entry(run).status for run in folder.plan.runs[4:]} == {"failed"}


def test_finished_runs_are_skipped_by_a_resume_even_with_the_files_gone(folder, stage, files):
    def interrupt(run, lab):
        if run.index == 3:
            lab.clock.interrupt_at_ns = 10**9

    stage.before_run = interrupt
    assert carry_out(folder, stage) == 130
    assert [folder.entry(run).status if folder.entry(run) else None for run in folder.plan.runs[:4]] == [
        "passed",
        "passed",
        "interrupted",
        None,
    ]
    for name in ("flap.yaml", "plain.yaml", "lab.yaml", "both.yaml"):
        (files / name).unlink()
    again = CampaignFolder.open(find_campaign(files / "campaigns", "both"))
    assert again.plan.runs == folder.plan.runs
    stage.before_run = lambda *_: None
    stage.events.clear()
    assert carry_out(again, stage) == 4
    assert stage.events == ["up 2", *(run.key for run in folder.plan.runs[2:]), "down 2"]
    assert not again.pending()
    assert len(again.pending(frozenset({"failed"}))) == 4


def test_ctrl_c_between_runs_keeps_what_was_measured(folder, stage):
    def stop(run, lab):
        if run.index == 2:
            raise KeyboardInterrupt

    stage.before_run = stop
    assert carry_out(folder, stage) == 130
    assert stage.events[-1] == "down 2"
    assert "8 runs: 7 not run, 1 passed" in (folder.path / "summary.md").read_text()


def test_a_campaign_out_of_time_begins_no_other_run(folder, stage):
    assert carry_out(folder, stage, is_out_of_time=lambda: len(stage.events) > 3) == 130
    assert stage.events == ["up 2", *(run.key for run in folder.plan.runs[:3]), "down 2"]
    assert len(folder.pending()) == 5


def test_a_run_that_breaks_gets_the_next_a_lab_of_its_own(folder, stage):
    def break_down(run, lab):
        if run.index == 2:
            raise AgentError("the NIC agent of h1 died")

    stage.before_run = break_down
    assert carry_out(folder, stage) == 1
    assert stage.events[:6] == [
        "up 2",
        folder.plan.runs[0].key,
        folder.plan.runs[1].key,
        "down 2",
        "up 2",
        folder.plan.runs[2].key,
    ]
    entry = folder.entry(folder.plan.runs[1])
    assert (entry.status, entry.reason, entry.folder) == ("error", "the NIC agent of h1 died", None)
    assert folder.pending() == [folder.plan.runs[1]]


def test_a_lab_that_does_not_come_up_costs_only_the_runs_it_was_for(folder, files):
    def stage(topology):
        raise FabricError("no room for it")

    assert carry_out(folder, stage) == 1
    assert {folder.entry(run).reason for run in folder.plan.runs} == {"no room for it"}


def test_something_left_on_the_machine_ends_the_campaign(folder, stage):
    def failing(topology):
        raise CleanupError("a namespace is left")

    with pytest.raises(CleanupError):
        carry_out(folder, failing)
    assert (folder.path / "summary.md").is_file()


def test_a_run_noted_after_a_torn_line_is_not_lost_with_it(folder, stage):
    carry_out(folder, stage)
    journal = folder.path / "journal.jsonl"
    journal.write_text(journal.read_text()[:-20])
    again = CampaignFolder.open(folder.path)
    assert again.pending() == [folder.plan.runs[-1]]
    assert exit_code(again) == 130
    stage.events.clear()
    assert carry_out(again, stage) == exit_code(folder)
    assert stage.events[1:-1] == [folder.plan.runs[-1].key]
    assert CampaignFolder.open(folder.path).pending() == []


def test_a_line_torn_within_a_character_is_passed_over(folder, stage):
    carry_out(folder, stage)
    journal = folder.path / "journal.jsonl"
    with journal.open("ab") as stream:
        stream.write('{"key": "é'.encode()[:-1])
    assert CampaignFolder.open(folder.path).pending() == []


def test_the_summary_names_figure_claim_and_numbers(folder, stage):
    carry_out(folder, stage)
    markdown = (folder.path / "summary.md").read_text()
    assert "8 runs: 4 passed, 4 failed." in markdown
    assert (
        "| scenario | transport.window | workloads.main.size | seed | figure | claim | measured |" in markdown
    )
    assert "| flap | 16 |  | 1 | Fig. 9d | Goodput holds. | goodput(main) > 1Mbit: " in markdown
    found = json.loads((folder.path / "summary.json").read_text())
    assert found["counts"] == {"passed": 4, "failed": 4}
    assert found["runs"][0]["expectations"][0]["passed"] is True
    page = (folder.path / "report.html").read_text()
    assert f'<a href="{found["runs"][0]["folder"]}/report.html">flap</a>' in page
    assert (folder.path / found["runs"][0]["folder"] / "report.html").is_file()


def test_junit_has_a_suite_per_run_and_a_case_per_expectation(folder, stage):
    def stop(run, lab):
        if run.index == 6:
            raise KeyboardInterrupt

    stage.before_run = stop
    carry_out(folder, stage)
    suites = ET.fromstring((folder.path / "junit.xml").read_text())  # noqa: S314 - we wrote it
    assert [suite.get("name") for suite in suites] == [row.key for row in summarize_campaign(folder).rows]
    assert [suite.get("failures") for suite in suites] == ["0"] * 4 + ["1"] + ["0"] * 3
    assert [suite.get("skipped") for suite in suites] == ["0"] * 5 + ["1"] * 3
    assert [case.get("name") for case in suites[0]] == ["run", "goodput(main) > 1Mbit", "wrong_bytes == 0"]


def test_campaigns_are_found_by_name_and_listed(folder, files):
    second = CampaignFolder.create(files / "campaigns", folder.plan)
    assert find_campaign(files / "campaigns", "both").resolve() == second.path.resolve()
    assert sorted(all_campaigns(files / "campaigns")) == sorted([folder.path, second.path])
    with pytest.raises(UsageError, match="there is no campaign at"):
        CampaignFolder.open(find_campaign(files / "campaigns", "none"))


def test_two_runs_are_compared_figure_by_figure(folder, stage):
    carry_out(folder, stage)
    first, other = (folder.manifest(folder.plan.runs[index]) for index in (0, 4))
    figures = {figure.name: figure for figure in compare_runs(first, other)}
    goodput = figures["goodput(main)"]
    assert goodput.before is not None
    assert goodput.after is not None
    assert goodput.ratio == pytest.approx(goodput.after / goodput.before)
    assert goodput.after > 1.3 * goodput.before  # both hosts send
    assert figures["detect(flap1)"].after is None
    assert figures["wrong_bytes(main)"].shown(0) == "0"


def test_an_untrusted_run_is_skipped_in_junit(folder, stage):
    def stand_still(run, lab):
        if run.index == 5:
            lab.clock.pause_at_ns, lab.clock.pause_ns = 900_000_000, 800_000_000

    stage.before_run = stand_still
    carry_out(folder, stage)
    suites = ET.fromstring((folder.path / "junit.xml").read_text())  # noqa: S314 - we wrote it
    untrusted = suites[4]
    assert (untrusted.get("failures"), untrusted.get("errors")) == ("0", "0")
    assert untrusted.get("skipped") == untrusted.get("tests") == "2"
    messages = [skipped.get("message", "") for skipped in untrusted.iterfind("testcase/skipped")]
    assert [message.startswith("UNTRUSTED: ") for message in messages] == [True, True]
