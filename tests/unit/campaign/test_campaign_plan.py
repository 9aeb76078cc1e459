"""From a Campaign file to its runs."""

from itertools import takewhile
from pathlib import Path

import pytest

from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.errors import UsageError
from mrc_testbed.transport.congestion import CongestionControl

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide" / "campaigns.md"
READY = sorted((ROOT / "scenarios" / "campaigns").glob("*.yaml"))


def edited(files, old, new):
    path = files / "both.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_every_combination_is_a_run(files):
    plan = plan_campaign(files / "both.yaml")
    assert [run.key for run in plan.runs] == [
        "flap transport.window=16 seed=1",
        "flap transport.window=16 seed=2",
        "flap transport.window=64 seed=1",
        "flap transport.window=64 seed=2",
        "plain transport.window=16 workloads.main.size=4KiB seed=9",
        "plain transport.window=16 workloads.main.size=64KiB seed=9",
        "plain transport.window=64 workloads.main.size=4KiB seed=9",
        "plain transport.window=64 workloads.main.size=64KiB seed=9",
    ]
    chosen = [run.plan.transport.congestion for run in plan.runs[:4]]
    windows = [each.window_packets for each in chosen if isinstance(each, CongestionControl)]
    assert windows == [16, 16, 64, 64]
    assert [run.plan.workloads[0].size_bytes for run in plan.runs[4:6]] == [4 << 10, 64 << 10]
    assert plan.runs[0].metadata.claim == "Goodput holds."


def test_repeated_or_compared_cells_want_six_seeds_and_single_runs_none(files):
    assert plan_campaign(files / "both.yaml").too_few_seeds.startswith("2 seeds in a cell: intervals, comp")
    assert plan_campaign(files / "both.yaml", seed=7).too_few_seeds == ""
    path = edited(files, "seeds: [1, 2]", "seeds: {from: 1, count: 6}")
    assert plan_campaign(path).too_few_seeds == ""
    path.write_text(path.read_text() + "  baseline: {transport.window: 16}\n")
    assert plan_campaign(path).too_few_seeds.startswith("1 seed in a cell: ")


def test_one_seed_replaces_all(files):
    assert {run.plan.seed for run in plan_campaign(files / "both.yaml", seed=77).runs} == {77}


def test_a_scenario_keeps_its_seed_when_nothing_gives_one(files):
    path = edited(files, "  seeds: [1, 2]\n", "")
    assert [run.plan.seed for run in plan_campaign(path).runs[:2]] == [5, 5]


def test_faults_and_topologies_are_varied_by_dotted_key(files):
    path = edited(files, "transport.window: [16, 64]", "topology.planes: [2, 4]")
    plan = plan_campaign(path)
    assert [run.plan.topology.planes for run in plan.runs] == [2, 2, 2, 2, 4, 4, 4, 4]
    assert [run.index for run in plan.runs] == [1, 2, 5, 6, 3, 4, 7, 8]  # grouped by topology
    path = edited(files, "topology.planes: [2, 4]", "transport.window: [16]")
    path = edited(
        files, "    - flap.yaml\n", "    - {path: flap.yaml, matrix: {faults.flap1.down: [50ms, 90ms]}}\n"
    )
    downs = [run.plan.faults[0].periods[0] for run in plan_campaign(path).runs[:4]]
    assert [end and end - start for start, end in downs] == [50_000_000, 50_000_000, 90_000_000, 90_000_000]


def test_the_files_are_left_as_they_are(files):
    before = (files / "flap.yaml").read_text()
    plan = plan_campaign(files / "both.yaml")
    assert plan.runs[0].source == before == (files / "flap.yaml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("flap.yaml", "flop.yaml", r"both.yaml:6: spec.scenarios\[0\]: .*flop.yaml: cannot be read"),
        (
            "transport.window: [16, 64]",
            "faults.flap2.down: [1ms]",
            r"both.yaml:6: spec.scenarios\[0\]: with faults.flap2.down=1ms: .* has no fault 'flap2'; did you "
            r"mean 'flap1'",
        ),
        (
            "transport.window: [16, 64]",
            "transport.windw: [16]",
            r"with transport.windw=16: .*flap.yaml:4: spec.transport.windw: unknown key; did you mean",
        ),
        (
            "transport.window: [16, 64]",
            "transport.window: [16, 16]",
            r"two runs are 'flap transport.window=16",
        ),
        (
            "transport.window: [16, 64]",
            "transport.window: []",
            r"spec.matrix.transport.window: has 0 entries",
        ),
        ("transport.window: [16, 64]", "transprt.window: [16]", r"did you mean 'transport'"),
        (
            "transport.window: [16, 64]",
            "faults.flap1: [16]",
            r"names no field; write it like faults.flap1.down",
        ),
        (
            "workloads.main.size: [4KiB, 64KiB]",
            "workloads.main.size: [4]",
            r"'4' is not a size: it has no unit",
        ),
        ("  seeds: [1, 2]\n", "  seed: [1, 2]\n", r"both.yaml:10: spec.seed: unknown key"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(files, old, new, message):
    with pytest.raises(UsageError, match=message):
        plan_campaign(edited(files, old, new))


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_ready_campaign_is_planned_says_what_it_shows_and_is_listed(path):
    plan = plan_campaign(path)
    assert plan.name == path.stem
    assert len(plan.runs) > 1
    heading = list(takewhile(lambda line: line.startswith("#"), path.read_text().splitlines()))
    assert len(heading) >= 3
    assert any("campaign run" in line for line in heading)
    assert f"](../../scenarios/campaigns/{path.name})" in GUIDE.read_text()


def test_the_campaign_of_the_paper_runs_every_result_in_the_order_of_the_document():
    plan = plan_campaign(ROOT / "scenarios" / "paper" / "all.yaml")
    rows = (
        (ROOT / "docs/explanation/paper.md").read_text().partition("## What each result is")[2].splitlines()
    )
    named = [row.split(" | ")[0].removeprefix("| ") for row in rows if row.startswith("| ")][2:21]
    runs = sorted(plan.runs, key=lambda run: run.index)
    assert list(dict.fromkeys(run.scenario for run in runs)) == named
    files = {path.stem for path in (ROOT / "scenarios" / "paper").glob("*.yaml")}
    assert files == {*named, "all"}
