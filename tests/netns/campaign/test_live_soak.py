"""`campaign soak --live`: rounds on a real lab, and the parts of a lab that a round left behind."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_documents import check_document
from own_lab import lab_up, own_state_dir

from mrc_testbed.cli.app import run
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.link import set_port_up
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.faults.map_target import write_routes
from mrc_testbed.scenario.run.signal_clock import NO_DESCRIPTOR, SignalClock
from mrc_testbed.soak import live_soak
from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=1, t1=1, hosts_per_t0=2)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with own_state_dir():
        yield tmp_path


def no_lab_is_left() -> bool:
    return not [name for name in namespace_names() if name.startswith(f"mrc-soak-{os.getpid()}-")]


@pytest.mark.slow("two rounds of ten seconds")
@pytest.mark.ci
def test_two_rounds_leave_no_lab(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["campaign", "soak", "--live", "--runtime", "netns", "--universes", "2", "-o", "json"]
    status = run(arguments)
    found = json.loads(capsys.readouterr().out)
    check_document("Soak", found)
    assert status == (7 if found["untrusted"] == 2 else 0)
    assert (found["universes"], found["bad"], found["violations"]) == (2, 0, [])
    assert 0 <= found["untrusted"] <= 2  # the machine may be busy
    assert no_lab_is_left()


@pytest.mark.slow("a lab and a part of a round")
def test_a_signal_ends_a_round_and_removes_the_lab(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    look = live_soak.look

    def look_and_interrupt(seen: Lab) -> live_soak.State:
        signal.raise_signal(signal.SIGINT)
        return look(seen)

    monkeypatch.setattr("mrc_testbed.soak.live_soak.look", look_and_interrupt)
    assert run(["campaign", "soak", "--live", "--runtime", "netns", "-o", "json"]) == 130
    found = json.loads(capsys.readouterr().out)
    assert (found["universes"], found["is_interrupted"]) == (0, True)
    assert no_lab_is_left()


def test_what_is_left_behind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_soak, "SETTLE_NS", 0)
    clock = SignalClock(NO_DESCRIPTOR)
    with lab_up(SPEC, f"s{os.getpid()}") as name, lab.attach(name) as seen:
        before = live_soak.look(seen)
        assert live_soak.left_behind(seen, before, clock) == []
        port = seen.clos.port(0)
        set_port_up(name, port, is_up=False)
        seen.port_table[3].is_faulted = 1
        seen.port_table[4].rate_bps = 1
        write_routes(seen.paths, seen.clos, seen.clos.node("p0-t1-0"), is_present=False)
        seen.set_icrc(is_on=True)
        seen.agent("h1").call("deny_path", plane=0, uplink=None, peer_host=None)
        text = "\n".join(live_soak.left_behind(seen, before, clock))
        assert f"port {port.name} is down" in text
        for part in (f"health of port {seen.clos.port(3).name}", "routes of p0-t1-0", "iCRC of h0"):
            assert f"{part} is " in text
        assert f"rate_bps of port {seen.clos.port(4).name} is 1, it was 0" in text
        assert "denied paths of h1 is [{" in text
