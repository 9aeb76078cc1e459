"""Further runs of uncertain cells: which is chosen, when it is enough, budget, resume, the journal."""

import json
from itertools import pairwise

import pytest

from mrc_testbed.campaign.cells import cells_of
from mrc_testbed.campaign.execution import execute_campaign
from mrc_testbed.campaign.expectation import CellId
from mrc_testbed.campaign.folder import CampaignFolder, RunEntry
from mrc_testbed.campaign.plan import Repeat, plan_campaign
from mrc_testbed.campaign.run_queue import CellRuns, RunQueue, choose
from mrc_testbed.campaign.statistics import INTERVAL_RUNS_MIN
from mrc_testbed.cli.app import run as mrc_testbed
from mrc_testbed.errors import FabricError, UsageError

REPEATED = """\
apiVersion: mrc-testbed/v1
kind: Campaign
metadata: {name: repeated}
spec:
  scenarios: [flap.yaml]
  matrix: {transport.window: [16, 64]}
  seeds: [3, 4]
  repeat: {until: 5%, at_most: 8}
"""
NAME = "goodput(main)"
REPEAT = Repeat(until=0.05, at_most=20)


@pytest.fixture
def path(files):
    path = files / "repeated.yaml"
    path.write_text(REPEATED)
    return path


@pytest.fixture
def folder(files, path):
    return CampaignFolder.create(files / "campaigns", plan_campaign(path))


def carry_out(folder, stage, **options):
    return execute_campaign(folder, stage, progress=lambda _: None, **options)


def journal(folder):
    return [json.loads(line) for line in (folder.path / "journal.jsonl").read_text().splitlines()]


def cell(values, extras=("next",)):
    """A cell with runs that may still be done; names stand for them."""
    return CellRuns((NAME,), {NAME: list(values)}, len(values), list(extras))


def chosen(**cells):
    return choose({CellId(name, ()): each for name, each in cells.items()}, REPEAT)


def spread(width, count=8):
    return [100 + width * (index / (count - 1) - 0.5) for index in range(count)]


def test_the_cell_with_the_widest_interval_is_next():
    choice = chosen(narrow=cell(spread(20)), wide=cell(spread(40), ["seed 9"]), sure=cell(spread(1)))
    assert choice.run == "seed 9"
    assert choice.why.startswith(f"the widest interval: {NAME}, ")
    assert choice.why.endswith("% of the median; run 9 of at most 20 of the cell")


def test_a_cell_without_an_interval_comes_before_any_with_one():
    few, fewer = cell([100.0] * 4, ["few"]), cell([1.0] * 3, ["fewer"])
    choice = chosen(wide=cell(spread(90)), few=few, fewer=fewer)
    assert choice.run == "fewer"
    assert choice.why.startswith(f"3 of the 6 runs that an interval of {NAME} needs")


def test_it_is_enough_when_every_interval_is_narrow_or_no_run_is_left():
    assert chosen(a=cell(spread(1)), b=cell(spread(2))) is None
    assert chosen(a=cell(spread(90), []), b=cell(spread(2))) is None
    assert chosen() is None


def test_the_widest_of_several_figures_counts():
    both = cell(spread(1))
    both.names += ("p99(packet_rtt)",)
    both.values["p99(packet_rtt)"] = spread(50)
    assert "p99(packet_rtt)" in chosen(a=both).why


def test_a_figure_around_zero_is_as_uncertain_as_can_be():
    around = cell([-1.0, 1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 2.0, -2.0], ["next"])
    assert chosen(wide=cell(spread(90), ["wide"]), zero=around).run == "next"
    assert chosen(zero=cell([0.0] * 8)) is None


def test_cells_are_repeated_until_they_have_an_interval(folder, stage):
    assert carry_out(folder, stage) == 0
    assert len(folder.wanted) == 2 * INTERVAL_RUNS_MIN
    assert [found.counted for found in cells_of(folder)] == [INTERVAL_RUNS_MIN] * 2
    lines = journal(folder)
    assert [line["why"] for line in lines[:4]] == [""] * 4
    assert all("that an interval of goodput(main) needs" in line["why"] for line in lines[4:])
    assert {line["key"].rpartition("=")[2] for line in lines} == {"3", "4", "5", "6", "7", "8"}
    summary = json.loads((folder.path / "summary.json").read_text())
    assert summary["counts"] == {"passed": 2 * INTERVAL_RUNS_MIN}


def test_resume_goes_on_with_what_the_repetition_would_have_asked_for(folder, stage):
    def stop(run, lab):
        if len(stage.events) == 8:
            raise KeyboardInterrupt

    stage.before_run = stop
    assert carry_out(folder, stage) == 130
    done = len(journal(folder))
    assert 4 < done < 2 * INTERVAL_RUNS_MIN
    stage.before_run = lambda *_: None
    again = CampaignFolder.open(folder.path)
    assert again.plan == folder.plan
    assert carry_out(again, stage) == 0
    assert len(journal(folder)) == 2 * INTERVAL_RUNS_MIN
    assert carry_out(CampaignFolder.open(folder.path), stage) == 0
    assert len(journal(folder)) == 2 * INTERVAL_RUNS_MIN


def test_runs_that_do_not_count_are_made_up_for_as_long_as_there_are_seeds(folder, stage):
    def stand_still(run, lab):
        if run.varied["transport.window"] == "16":
            lab.clock.pause_at_ns, lab.clock.pause_ns = lab.clock.now_ns() + 900_000_000, 800_000_000

    stage.before_run = stand_still
    assert carry_out(folder, stage) == 7
    assert [found.statuses for found in cells_of(folder)] == [
        {"untrusted": 8},
        {"passed": INTERVAL_RUNS_MIN},
    ]


def test_a_lab_that_does_not_come_up_is_asked_for_no_more_than_planned(folder):
    def stage(topology):
        raise FabricError("no room for it")

    assert carry_out(folder, stage) == 1
    assert len(journal(folder)) == 4


def test_a_repeated_untrusted_run_stays_marked(folder, stage):
    attempts = []

    def stand_still(run, lab):
        attempts.append(run.key)
        if len(attempts) < 3:
            lab.clock.pause_at_ns, lab.clock.pause_ns = lab.clock.now_ns() + 900_000_000, 800_000_000

    stage.before_run = stand_still
    carry_out(folder, stage, retries=5)
    lines = journal(folder)
    assert len({line["folder"] for line in lines}) == len(lines)
    statuses = [line["status"] for line in lines if line["key"] == attempts[0]]
    assert statuses == ["untrusted", "untrusted", "passed"]
    assert [line["why"] for line in lines[:4]] == [
        "",
        "it was UNTRUSTED before, 1 of 5 times",
        "it was UNTRUSTED before, 2 of 5 times",
        "",
    ]
    summary = json.loads((folder.path / "summary.json").read_text())
    marked = [row for row in summary["runs"] if row["key"] == attempts[0]]
    assert (marked[0]["fidelity"], marked[0]["untrusted_before"]) == ("trusted, after 2 UNTRUSTED", 2)


class Clock:
    def __init__(self):
        self.time_ns = 0

    def __call__(self):
        return self.time_ns


def done_one_by_one(folder, budget_ns, run_ns):
    """Runs that are begun when each takes *run_ns*."""
    clock = Clock()
    queue = RunQueue(folder, budget_ns=budget_ns, now_ns=clock)
    said = []
    while (choice := queue.next()) is not None:
        said.append(queue.begin(choice))
        clock.time_ns += run_ns
        queue.note(choice.run, entry_of(choice))
        queue.end(choice.run)
    return said, queue


def entry_of(choice):
    return RunEntry(choice.run.key, "passed", 0, "", None, "", choice.why)


def test_no_run_is_begun_that_would_go_over_the_budget(folder):
    said, queue = done_one_by_one(folder, budget_ns=59_000_000_000, run_ns=10_000_000_000)
    assert len(said) == 5
    assert not queue.has_pending
    assert said[0].startswith("run 1 of 4 or more: flap transport.window=")
    assert said[1].startswith("run 2 of 4 or more, 49 s left: ")
    assert said[4].startswith("run 5 of 5 or more, 19 s left: ")


def test_a_budget_that_ends_before_the_planned_runs_leaves_them_to_resume(folder):
    _, queue = done_one_by_one(folder, budget_ns=25_000_000_000, run_ns=10_000_000_000)
    assert queue.has_pending
    assert len(folder.pending()) == 2


def test_what_is_left_is_estimated_from_what_has_run(files):
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))
    said, _ = done_one_by_one(folder, budget_ns=None, run_ns=90_000_000_000)
    assert said[0].startswith("run 1 of 8: ")
    assert said[1].startswith("run 2 of 8, 10 min left: ")
    assert len(said) == 8


def test_order_is_shuffled_by_its_seed_unless_it_is_that_of_the_file(path):
    text = path.read_text().replace("seeds: [3, 4]", "seeds: {from: 1, count: 8}")

    def keys(order):
        path.write_text(text + order)
        return [run.key for run in plan_campaign(path).first_runs]

    in_file = keys("  order: file\n")
    assert in_file == [f"flap transport.window={w} seed={s}" for w in (16, 64) for s in range(1, 9)]
    default, other = keys(""), keys("  order: {shuffle: 5}\n")
    assert default == keys("  order: {shuffle: 0}\n") == keys("")
    assert sorted(default) == sorted(other) == sorted(in_file)
    assert len({tuple(default), tuple(other), tuple(in_file)}) == 3


def test_topologies_stay_together_in_a_shuffled_order(files):
    path = files / "both.yaml"
    text = path.read_text().replace("  order: file\n", "")
    path.write_text(text.replace("transport.window: [16, 64]", "topology.planes: [2, 4]"))
    planes = [run.plan.topology.planes for run in plan_campaign(path).runs]
    assert sum(before != after for before, after in pairwise(planes)) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("until: 5%", "until: 5", "spec.repeat.until"),
        ("until: 5%", "until: 500%", "spec.repeat.until: 500% is out of range"),
        ("at_most: 8", "at_most: 1", "spec.repeat.at_most"),
        ("at_most: 8", "at_most: 501", "makes more than 1000 runs of the campaign: 1002"),
        ("at_most: 8", "at_most: 8, of: [goodput(]", r"spec.repeat.of\[0\]: column"),
        ("at_most: 8", "at_most: 8, of: [goodput(mian)]", "flap has no workload 'mian'; did you mean 'main'"),
        ("  repeat:", "  order: random\n  repeat:", "spec.order"),
        ("  repeat:", "  order: {shuffle: -1}\n  repeat:", "spec.order.shuffle"),
    ],
)
def test_what_is_wrong_is_reported(path, old, new, message):
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=message):
        plan_campaign(path)


def test_the_plan_says_what_may_follow(path, capsys):
    assert mrc_testbed(["campaign", "run", str(path), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "4 runs on 1 lab" in shown
    assert (
        "up to 12 more where intervals are wider than 5% of their medians, at most 8 runs of a cell" in shown
    )
