"""Asynchronous events of programs: the port, CQs that overrun, shared receives, the agent's end."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rdma_program import NOBODY, TESTBED, Started, build, finish, kill_program, next_line, start
from shared_lab import ports_down
from waiting import poll_until

from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults, parse_fault


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("verbs_events.c")
    return build(source, tmp_path_factory.mktemp("events"), "-libverbs", "-pthread")


@contextmanager
def running(live: Lab, *command: str | Path) -> Iterator[Started]:
    started = start(live, "h0", *NOBODY, *command)
    try:
        yield started
    finally:
        kill_program(started)
        finish(started)


def await_no_carrier(live: Lab, port: str) -> None:
    poll_until(lambda: port in ports_down(live), what=f"{port} without carrier")


def test_port_is_down_only_without_all_planes(
    live: Lab, program: Path, faults: Callable[[], LabFaults]
) -> None:
    injected = faults()
    with running(live, program, "port") as started:
        assert next_line(started) == "active"
        for plane in range(live.spec.planes):
            fault = {"id": f"f{plane}", "until": "cleared"}
            injected.add(parse_fault("nic-port-down", f"h0:{plane}", fault, ()), seed=1)
            await_no_carrier(live, f"h0:{plane}")
        assert [next_line(started), next_line(started)] == ["port error", "down"]
        injected.clear("f1")
        assert [next_line(started), next_line(started)] == ["port active", "active"]
        assert finish(started) == (0, "", "")


def test_end_of_the_agent_is_fatal(live: Lab, program: Path) -> None:
    with running(live, program, "fatal") as started:
        assert next_line(started) == "active"
        subprocess.run([TESTBED, "-n", live.name, "restart", "h0"], check=True, capture_output=True)
        assert finish(started)[:2] == (0, "local catastrophic error\n")


@pytest.mark.parametrize(
    ("case", "events", "complaint"),
    [
        ("overrun", ["CQ error"], "a completion queue of 4 has overrun, and its QPs are in ERROR"),
        ("low", ["SRQ limit reached", "last WQE reached"], ""),
    ],
)
def test_events_of_objects(live: Lab, program: Path, case: str, events: list[str], complaint: str) -> None:
    status, said, complained = finish(start(live, "h0", *NOBODY, program, case))
    assert (status, said.splitlines()) == (0, events), complained
    assert complained == (f"mrc-testbed: {complaint}\n" if complaint else "")
