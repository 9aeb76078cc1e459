"""A proof that a lab carries packets: who gets another trial, and who does not."""

from pathlib import Path

import pytest

from mrc_testbed.errors import AgentError, FabricError, TestbedError
from mrc_testbed.fabric import readiness
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1))


def prove(monkeypatch: pytest.MonkeyPatch, *outcomes: TestbedError | None) -> int:
    """Let trials end so, in that order; returns how many hosts have proved their planes."""
    left = iter(outcomes)

    def perform(_paths: LabPaths, _trial: object) -> None:
        if error := next(left):
            raise error

    monkeypatch.setattr(readiness, "_perform", perform)
    proved: list[int] = []
    readiness.prove_planes(LabPaths(Path("unused"), "lab"), CLOS, proved.append)
    assert list(left) == []
    return len(proved)


def test_a_packet_that_is_late_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    late = FabricError("plane 1 does not carry packets")
    assert prove(monkeypatch, late, None, late, late, None) == 2


def test_a_plane_that_stays_silent_is_named_with_its_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_TRIAL_SPAN_NS", 0)
    with pytest.raises(FabricError, match="h1 does not reach h0: plane 1 does not carry packets"):
        prove(monkeypatch, None, FabricError("plane 1 does not carry packets"))


def test_an_agent_that_is_lost_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AgentError, match="the NIC agent of h1 is lost"):
        prove(monkeypatch, None, AgentError("the NIC agent of h1 is lost"))
