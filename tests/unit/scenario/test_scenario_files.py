"""Files that are refused beside the exact text a user sees, and the ready scenarios that are not."""

from itertools import takewhile
from pathlib import Path

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.load import load_scenario, scenario_variants
from mrc_testbed.scenario.spec.resolve import resolve

FOLDER = Path(__file__).parent / "refused"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
FOLDERS = Path(__file__).parents[3] / "scenarios"
READY = sorted(
    path
    for path in FOLDERS.rglob("*.yaml")
    if path.parent.name not in ("campaigns", "paper") and path.stem != "all"
)
PAPER = sorted(path for path in (FOLDERS / "paper").glob("*.yaml") if path.stem != "all")
PAPER_PAGE = FOLDERS.parent / "docs/explanation/paper.md"
GUIDE = FOLDERS.parent / "docs" / "guide" / "scenarios.md"
PAPER_NS_MAX = 80 * 10**9
"""Sending time over all variants: with labs and comparison of memory a scenario stays below 90 s."""
DEMO_NS_MAX = 15 * 10**9
DRILL_NS_MAX = 300 * 10**9


def message_for(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        resolve(load_scenario(path))
    return caught.value.message.replace(f"{path.parent}/", "")


@pytest.mark.parametrize("case", CASES)
def test_file_is_refused_with_this_text(case: str) -> None:
    expected = (FOLDER / f"{case}.txt").read_text()
    assert message_for(FOLDER / f"{case}.yaml") + "\n" == expected


def test_every_expected_text_has_its_file() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == CASES


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_ready_scenario_resolves_and_is_short(path: Path) -> None:
    scenario = load_scenario(path)
    plan = resolve(scenario)
    if plan.end_ns is None:  # it ends by iterations; a test of its own runs it
        assert all(workload.timeout_ns for workload in plan.workloads)
    else:
        longest_ns = DRILL_NS_MAX if path.parent.name == "drills" else DEMO_NS_MAX
        assert plan.end_ns - plan.start_ns < longest_ns
    assert plan.expect
    assert scenario.metadata.name == path.stem


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_ready_scenario_says_what_it_shows_and_is_listed(path: Path) -> None:
    heading = list(takewhile(lambda line: line.startswith("#"), path.read_text().splitlines()))
    assert len(heading) >= 4, "a paragraph at the head says what it shows"
    assert load_scenario(path).metadata.description
    assert f"](../../scenarios/{path.relative_to(FOLDERS)})" in GUIDE.read_text()


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_scenario_of_the_paper_says_what_it_reproduces_and_is_short(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.metadata.name == path.stem
    header, _, _ = path.read_text().partition("\napiVersion:")
    assert "paper" in header, "what the paper did and found"
    assert "# Here:" in header, "what is scaled, and by how much"
    assert f"| {path.stem} |" in PAPER_PAGE.read_text()
    assert scenario.metadata.paper
    assert scenario.metadata.claim
    assert scenario.spec.expect
    assert scenario.spec.figure
    plans = [resolve(each) for each in scenario_variants(scenario) or (scenario,)]
    assert sum((plan.end_ns or PAPER_NS_MAX) - plan.start_ns for plan in plans) < PAPER_NS_MAX


def test_the_demo_scenario_is_among_the_ready_ones() -> None:
    assert "t0-t1-flap" in {path.stem for path in READY}


def test_a_topology_file_is_read_relative_to_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(
        "apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {name: lab}\nspec: {planes: 2, t0: 3}\n"
    )
    (tmp_path / "scenario.yaml").write_text(
        "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: s}\nspec:\n  topology: lab.yaml\n"
        "  workloads: [{name: main, kind: sendrecv, size: 1MiB, duration: 1s}]\n"
    )
    scenario = load_scenario(tmp_path / "scenario.yaml")
    assert (scenario.topology.planes, scenario.topology.t0) == (2, 3)
    assert resolve(scenario).topology == scenario.topology


def test_a_wrong_topology_file_is_named_with_the_place_that_named_it(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(
        "apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {name: lab}\nspec: {plane: 2}\n"
    )
    (tmp_path / "scenario.yaml").write_text(
        "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: s}\nspec:\n  topology: lab.yaml\n"
        "  workloads: [{name: main, kind: sendrecv, size: 1MiB, duration: 1s}]\n"
    )
    with pytest.raises(UsageError) as caught:
        load_scenario(tmp_path / "scenario.yaml")
    assert caught.value.message == (
        f"{tmp_path}/lab.yaml:4: spec.plane: unknown key; did you mean 'planes'?\n"
        f"{tmp_path}/scenario.yaml: this topology was named here"
    )


def test_text_has_no_folder_for_a_topology_file() -> None:
    text = (
        "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: s}\nspec:\n  topology: lab.yaml\n"
        "  workloads: [{name: main, kind: sendrecv, size: 1MiB, duration: 1s}]\n"
    )
    with pytest.raises(UsageError) as caught:
        load_scenario(text)
    assert caught.value.message == (
        "<text>:5: spec.topology: a path needs a file to be relative to; write the topology itself"
    )


def test_what_no_fabric_can_be_is_refused_where_it_is_written() -> None:
    text = (
        "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: lossless}\nspec:\n"
        "  topology:\n    flow_control: pfc\n  workloads:\n  - {kind: write-bw, pair: [h0, h1]}\n"
    )
    with pytest.raises(UsageError, match=r"^<text>:6: spec.topology.flow_control: .* no effect"):
        load_scenario(text)
