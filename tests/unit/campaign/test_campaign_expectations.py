"""Expectations of a campaign: what they say, in which cells they hold, and where runs are too few to tell."""

import contextlib
import json
from xml.etree import ElementTree as ET

import pytest
from document_text import document
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.campaign.cell_expectation import CampaignExpectation, Quota, parse_campaign_expectation
from mrc_testbed.campaign.cells import MeasuredRun
from mrc_testbed.campaign.execution import execute_campaign, exit_code
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.judge import judge_cells
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.cli.app import run as mrc_testbed
from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.histogram import Histogram

HELD = document("""\
Campaign {name: held}
  scenarios: [flap.yaml]
  matrix: {transport.window: [16, 64]}
  seeds: {from: 1, count: 20}
  baseline: {transport.window: 16}
  order: file
  expect: [goodput(main) >= 1Mbit]
""")
WINDOW = "transport.window"
BASELINE = {WINDOW: "16"}


@pytest.fixture
def path(files):
    path = files / "held.yaml"
    path.write_text(HELD)
    return path


@pytest.fixture
def planned(path):
    """The forty runs of HELD: twenty of window 16, then twenty of window 64."""
    return plan_campaign(path).runs


def measured(run, goodput, status="passed", times=()):
    manifest = {
        "provenance": {"runtime": "virtual"},
        "workloads": [
            {"name": "main", "goodput_bps": goodput, "fairness": None, "collective": None, "wrong_bytes": 0}
        ],
        "measures": [{"quantity": "p50(packet_rtt)", "value": 1e6}],
    }
    return MeasuredRun(run, status, manifest, {"times(packet_rtt)": Histogram.of_times(list(times))})


def judged(text, runs, **cells):
    return judge_cells([CampaignExpectation(text, cells)], runs, BASELINE)


def outcome(text, runs):
    (found,) = judged(text, runs)
    return found.outcome, found.reason


def values(planned, *goodputs):
    """Runs of the first cell with these goodputs, in Mbit/s; None: UNTRUSTED."""
    return [
        measured(run, 100e6, "untrusted") if value is None else measured(run, value * 1e6)
        for run, value in zip(planned, goodputs, strict=False)
    ]


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("goodput(main) > 1Mbit", None),
        ("goodput(main) > 1Mbit for all seeds", Quota(1, 1)),
        ("goodput(main) > 1Mbit  in 19 of 20 runs ", Quota(19, 20)),
        ("goodput(main) > 90% of goodput(main) in baseline in 3 of 3 runs", Quota(3, 3)),
    ],
)
def test_what_is_expected_of_how_many_runs(text, quota):
    assert parse_campaign_expectation(text).quota == quota


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("goodput(main) > 1Mbit in 21 of 20 runs", "column 26: 21 of 20 runs is no share of them"),
        ("goodput(main) > 1Mbit in 0 of 20 runs", "0 of 20 runs is no share"),
        ("goodput(main) > 1Mbit in 19 runs", "column"),
        ("goodput(main) > 1Mbit for all", "expected the end of the expectation, found 'for'"),
        ("for all seeds", "column"),
        ("goodput(main) in mrc > 1Mbit", "names a variant; a campaign compares with 'in baseline'"),
        ("goodput(main) > 1ms for all seeds", "a rate cannot be compared with a time"),
        ("1 > 0 for all seeds", "nothing measured"),
        ("goodput(main) > 1Mbit in 99999 of 99999 runs", "column"),
    ],
)
def test_what_is_not_in_the_language_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse_campaign_expectation(text)


@given(st.text(alphabet="goduput(main) <>=1Mbit19of20runsforallseedsin%\n\x00é", max_size=60))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(UsageError):
        assert parse_campaign_expectation(text).that.text in text


def test_medians_are_what_an_expectation_without_a_quota_is_of(planned):
    assert outcome("goodput(main) >= 100Mbit", values(planned, 1, 100, 101))[0] == "held"
    said = outcome("goodput(main) >= 100Mbit", values(planned, 1, 99, 101))
    assert said[0] == "failed"
    assert said[1] == "goodput(main) was 99 Mbit/s, at least 100 Mbit/s was expected; goodput: median of runs"


def test_a_percentile_is_that_of_all_times_together(planned):
    runs = [measured(planned[0], 1, times=[10] * 9900), measured(planned[1], 1, times=[9000] * 100)]
    held = outcome("p50(packet_rtt) < 1us", runs)
    assert held == ("held", f"{held[1].partition(';')[0]}; p50: times of all runs together")
    assert outcome("p99.5(packet_rtt) > 5us", runs)[0] == "held"
    assert outcome("p50(packet_rtt) < 1us for all seeds", runs)[0] == "failed"  # that of the runs themselves


def test_all_seeds_are_all_of_them(planned):
    text = "goodput(main) >= 100Mbit for all seeds"
    assert outcome(text, values(planned, 100, 120, 140))[0] == "held"
    said = outcome(text, values(planned, 100, 99, 140))
    assert said[0] == "failed"
    assert said[1].startswith("held in 2 of 3 runs; seed 2: goodput(main) was 99 Mbit/s")


def test_a_run_that_does_not_count_leaves_all_seeds_open_unless_one_failed(planned):
    text = "goodput(main) >= 100Mbit for all seeds"
    assert outcome(text, values(planned, 100, None)) == (
        "cannot tell",
        "held in 1 of 1 runs; only 1 of 2 runs count",
    )
    assert outcome(text, values(planned, 99, None))[0] == "failed"
    assert outcome(text, values(planned, None))[0] == "cannot tell"


@pytest.mark.parametrize(
    ("good", "bad", "untrusted", "expected"),
    [
        (19, 1, 0, "held"),
        (20, 0, 0, "held"),
        (18, 2, 0, "failed"),
        (10, 2, 8, "failed"),
        (18, 1, 1, "cannot tell"),
        (19, 0, 1, "cannot tell"),
        (0, 0, 20, "cannot tell"),
    ],
)
def test_nineteen_of_twenty(planned, good, bad, untrusted, expected):
    runs = values(planned, *[120] * good, *[80] * bad, *[None] * untrusted)
    assert outcome("goodput(main) >= 100Mbit in 19 of 20 runs", runs)[0] == expected


def test_more_runs_than_named_are_held_to_the_same_share(planned):
    text = "goodput(main) >= 100Mbit in 3 of 4 runs"
    assert outcome(text, values(planned, *[120] * 6, *[80] * 2))[0] == "held"
    assert outcome(text, values(planned, *[120] * 5, *[80] * 3))[0] == "failed"


def test_the_baseline_is_the_same_seed_of_its_cell(planned):
    base = [measured(run, value) for run, value in zip(planned[:3], (100e6, 200e6, 300e6), strict=True)]
    other = [measured(run, value) for run, value in zip(planned[20:23], (95e6, 190e6, 285e6), strict=True)]
    text = "goodput(main) >= 95% of goodput(main) in baseline"
    (found,) = judged(f"{text} for all seeds", [*base, *other])
    assert (found.cell, found.outcome) == ("flap transport.window=64", "held")
    (found,) = judged(f"{text} for all seeds", [*base, *other[::-1][:2], measured(planned[20], 94e6)])
    assert found.outcome == "failed"
    (found,) = judged(text, [*base, *other])
    assert found.outcome == "held"
    (found,) = judged(f"{text} for all seeds", [*base[:2], measured(planned[2], 1, "untrusted"), *other])
    assert found.outcome == "cannot tell"
    (found,) = judged(text, [*(measured(run, 1, "untrusted") for run in planned[:3]), *other])
    assert (found.outcome, found.reason) == ("cannot tell", "no run of flap transport.window=16 counts")


def test_cells_are_chosen_by_value(planned):
    runs = [measured(planned[0], 50e6), measured(planned[20], 150e6)]
    assert [each.outcome for each in judged("goodput(main) > 100Mbit", runs)] == ["failed", "held"]
    (found,) = judged("goodput(main) > 100Mbit", runs, **{WINDOW: "64"})
    assert found.outcome == "held"
    assert not judged("goodput(main) > 100Mbit", runs, scenario="other")


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("[goodput(mian) > 1Mbit]", r"flap has no workload 'mian'; did you mean 'main'"),
        ("[detect(flap2) < 1s]", r"flap has no fault 'flap2'; did you mean 'flap1'"),
        ("[busbw(main) > 1Mbit]", "main is write-bw, which has no operations"),
        ("[{that: goodput(main) > 1Mbit, cells: {transport.evs: 3}}]", "is not varied by this campaign"),
        (
            "[{that: goodput(main) > 1Mbit, cells: {transport.window: 3}}]",
            r"held.yaml:\d+: spec.expect\[0\].transport.window: '3' is none of its values: 16, 64",
        ),
        ("[{that: goodput(main) > 1Mbit}]", r"spec.expect\[0\].*cells"),
        ("[{that: goodput(main) > 1Mbit, cells: {}, x: 1}]", "unknown key"),
        ("goodput(main) > 1Mbit", "spec.expect"),
        ("[7]", r"spec.expect\[0\]"),
        ("[goodput(main)]", r"spec.expect\[0\].*: column 14: expected a comparison"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(path, expect, message):
    path.write_text(path.read_text().replace("[goodput(main) >= 1Mbit]", expect))
    with pytest.raises(UsageError, match=message):
        plan_campaign(path)


def test_a_baseline_is_needed_where_one_is_spoken_of(path):
    text = path.read_text().replace("  baseline: {transport.window: 16}\n", "")
    path.write_text(text.replace("1Mbit]", "goodput(main) in baseline]"))
    with pytest.raises(UsageError, match=r"spec.expect\[0\]: speaks of a baseline, and"):
        plan_campaign(path)


@pytest.fixture
def folder(files, path):
    """Two cells of two runs; in virtual labs of arithmetic each has the same goodput."""
    expect = (
        "[goodput(main) > 1Mbit for all seeds, interruption(main) < 100ms,"
        " {that: goodput(main) > 2 * goodput(main) in baseline in 2 of 2 runs,"
        " cells: {transport.window: 64}},"
        " goodput(main) > 1Mbit in 3 of 3 runs]"
    )
    text = path.read_text().replace("count: 20", "count: 2").replace("[goodput(main) >= 1Mbit]", expect)
    path.write_text(text)
    return CampaignFolder.create(files / "campaigns", plan_campaign(path))


def test_a_campaign_is_held_to_what_it_expects(folder, stage, capsys):
    assert execute_campaign(folder, stage, progress=lambda _: None) == 4
    again = CampaignFolder.open(folder.path)
    assert again.plan == folder.plan
    assert exit_code(again) == 4
    summary = json.loads((folder.path / "summary.json").read_text())
    assert summary["counts"] == {"passed": 4}
    assert {row.measured.partition(":")[0] for row in summarize_campaign(again).rows} == {"goodput(main)"}
    assert [each["outcome"] for each in summary["expectations"]] == [
        *["held"] * 4,
        "failed",
        *["cannot tell"] * 2,
    ]
    suite = ET.fromstring((folder.path / "junit.xml").read_text())[-1]  # noqa: S314 - we wrote it
    assert [suite.get(key) for key in ("name", "tests", "failures", "skipped")] == ["held", "7", "1", "2"]
    written = (folder.path / "summary.md").read_text().partition("## Expectations of cells\n\n")[2]
    [failed] = [line.split(" | ") for line in written.splitlines() if "**failed**" in line]
    assert failed[2] == summary["expectations"][4]["cell"]
    assert "only 2 of 3 runs count" in (folder.path / "report.html").read_text()
    capsys.readouterr()
    assert mrc_testbed(["campaign", "check", str(folder.path), "-o", "json"]) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["exit_code"], len(found["expectations"]), found["findings"]) == (4, 7, [])


def test_too_few_runs_are_neither_a_pass_nor_a_failure(path, files, stage):
    text = path.read_text().replace("count: 20", "count: 1").replace("1Mbit]", "1Mbit in 2 of 2 runs]")
    path.write_text(text)
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(path))
    assert execute_campaign(folder, stage, progress=lambda _: None) == 7
    assert mrc_testbed(["campaign", "check", str(folder.path)]) == 7


def test_the_verdict_names_its_execution_and_none_is_of_an_older_one(path, files, stage, capsys):
    path.write_text(path.read_text().replace("count: 20", "count: 6"))
    campaigns = files / "campaigns"
    wanted = ["--campaigns", str(campaigns)]
    folder = CampaignFolder.create(campaigns, plan_campaign(path))
    execute_campaign(folder, stage, progress=lambda _: None)
    assert mrc_testbed(["campaign", "check", "held", *wanted, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["folder"], found["begun_utc"]) == (str(campaigns / "held/latest"), folder.path.name[:16])
    path.write_text(path.read_text().replace("seeds", "sides"))
    assert mrc_testbed(["campaign", "run", str(path), *wanted, "--virtual"]) == 2
    capsys.readouterr()
    assert mrc_testbed(["campaign", "check", "held", *wanted]) == 2
    said = capsys.readouterr().err.replace("\n", " ")
    assert "the newest execution of held did not begin: 20" in said
    assert "sides" in said
    assert mrc_testbed(["campaign", "check", str(folder.path), *wanted]) == 0
    assert f"held, begun {folder.path.name[:16]}" in capsys.readouterr().out
    path.write_text(path.read_text().replace("sides", "seeds"))
    CampaignFolder.create(campaigns, plan_campaign(path))
    assert mrc_testbed(["campaign", "check", "held", *wanted]) == 2
    assert "none of its runs has a result" in capsys.readouterr().err.replace("\n", " ")


def test_nothing_to_check_is_said(path, files, stage, capsys):
    path.write_text(
        path.read_text().replace("count: 20", "count: 1").replace("[goodput(main) >= 1Mbit]", "[]")
    )
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(path))
    execute_campaign(folder, stage, progress=lambda _: None)
    assert mrc_testbed(["campaign", "check", str(folder.path)]) == 2
    assert "nothing to hold 'held' against" in capsys.readouterr().err
