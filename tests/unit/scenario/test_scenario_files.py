"""Files that are refused beside the exact text a user sees, and the ready scenarios that are not."""

from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.scenario.load import load_scenario
from testbed.scenario.resolve import resolve

FOLDER = Path(__file__).parent / "refused"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
READY = sorted((Path(__file__).parents[3] / "scenarios").rglob("*.yaml"))
DEMO_NS_MAX = 15 * 10**9


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
    assert plan.end_ns is not None
    assert plan.end_ns - plan.start_ns < DEMO_NS_MAX
    assert plan.expect
    assert scenario.metadata.name == path.stem


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
