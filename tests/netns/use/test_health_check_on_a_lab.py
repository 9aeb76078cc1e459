"""check on a live lab; how fast a busy machine is, no test says."""

import json
from collections.abc import Callable

import pytest
from golden_documents import check_document
from shared_lab import SPEC

from mrc_testbed.cli.app import run
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults, parse_fault

FASTER = ("--size", "4KiB", "--repetitions", "4")


def test_all_pairs_and_paths_of_a_lab_are_measured(live: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "-n", live.name, *FASTER, "-o", "json"]) in {0, 4}
    found = json.loads(capsys.readouterr().out)
    check_document("HealthCheck", found)
    hosts = SPEC.t0 * SPEC.hosts_per_t0
    assert len(found["pairs"]) == found["pair_count"] == hosts * (hosts - 1)
    assert len(found["paths"]) == found["path_count"]
    assert found["all_reduce"]["ranks"] == hosts
    assert not [each for each in found["findings"] if each["kind"] == "wrong"]


def test_a_switch_that_forwards_nothing_is_named(
    live: Lab, faults: Callable[[], LabFaults], capsys: pytest.CaptureFixture[str]
) -> None:
    fault = parse_fault("blackhole", "p1-t1-0", {"id": "f", "until": "cleared"}, ())
    faults().add(fault, seed=1)
    assert run(["check", "-n", live.name, *FASTER, "-o", "json"]) == 4
    found = json.loads(capsys.readouterr().out)
    suspects = [each["names"] for each in found["findings"] if each["kind"] == "suspect"]
    assert any("p1-t1-0" in names for names in suspects)
    dead = {each["over"] for each in found["paths"] if each["state"] == "dead"}
    assert "p1-t1-0" in dead


@pytest.mark.parametrize("words", [("h0,h9",), ("-t", "file.yaml")])
def test_bad_input_is_refused(words: tuple[str, ...], live: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "-n", live.name, *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")
