"""Programs written for libmrc on a lab: ours, and the examples of the guide."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rdma_program import (
    LIBMRC,
    LIBMRC_EXAMPLES,
    NOBODY,
    TESTBED,
    Started,
    build,
    finish,
    kill_program,
    next_line,
    start,
)
from typed_command import Command
from waiting import poll_until

from mrc_agents.abi import NicCounter
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.metrics.take_reading import take_reading

PROFILE, PORT, PLANE = "3", "1", 0
NAMED = ("env", f"MRC_QP_EV_PROFILE_ID={PROFILE}")

Programs = dict[str, Path]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    folder = tmp_path_factory.mktemp("libmrc")
    sources = (Path(__file__).with_name("libmrc_calls.c"), *LIBMRC_EXAMPLES.glob("*.c"))
    return {source.stem: build(source, folder, *LIBMRC) for source in sources}


@pytest.fixture
def profile(live: Lab, programs: Programs) -> Iterator[Callable[..., str]]:
    """A command of the controller on both hosts about PROFILE, which is ONLINE meanwhile."""

    def controlled(*command: str) -> str:
        said = [finish(start(live, host, programs["drain"], PROFILE, *command)) for host in ("h0", "h3")]
        assert [status for status, _, _ in said] == [0, 0], said
        return said[0][1]

    controlled("set-up")
    yield controlled
    controlled("release")


@pytest.fixture
def traffic(live: Lab, programs: Programs) -> Iterator[Started]:
    """A ping-pong of QPs that have PROFILE, from h0 to h3, until it is killed."""
    server = start(live, "h3", *NAMED, programs["ping_pong"])
    client = None
    try:
        assert next_line(server) == "listening"
        client = start(live, "h0", *NAMED, programs["ping_pong"], "-t", "600", "h3")
        assert next_line(client) == "running"
        yield client
        assert client.poll() is None
    finally:
        for started in filter(None, (client, server)):
            kill_program(started)
            finish(started)


@pytest.mark.parametrize("case", ["versions", "refusals", "transfers", "failure", "control"])
def test_calls(live: Lab, programs: Programs, case: str) -> None:
    command = (*(() if case == "control" else NOBODY), str(programs["libmrc_calls"]), case)
    plain = subprocess.run(
        [TESTBED, "-n", live.name, "exec", "h0", "--", *command], capture_output=True, text=True, check=False
    )
    preloaded = finish(start(live, "h0", *command))
    assert (plain.returncode, plain.stdout) == preloaded[:2] == (0, "ok\n"), plain.stderr + preloaded[2]


def test_bytes_are_right_through_loss(live: Lab, programs: Programs, faults: Callable[[], LabFaults]) -> None:
    fault = {"id": "lossy", "until": "cleared", "ratio": "2%"}
    faults().add(parse_fault("loss", "p0-t1-*:*", fault, ()), seed=1)
    server = start(live, "h3", *NOBODY, programs["ping_pong"], "-s", "60000")
    try:
        assert next_line(server) == "listening"
        line = (*NOBODY, programs["ping_pong"], "-n", "200", "-s", "60000", "h3")
        status, said, complained = finish(start(live, "h0", *line))
        assert (status, said.startswith("running\n200 rounds of 60000 bytes")) == (0, True), complained
        assert finish(server)[0] == 0
    finally:
        kill_program(server)


def test_a_drained_plane_loses_nothing(
    live: Lab,
    profile: Callable[..., str],
    traffic: Started,
    command: Command,
    faults: Callable[[], LabFaults],
) -> None:
    faults()
    assert f"profile {PROFILE}" in command("ev", "list", "h0", "h3")
    assert profile("deny", PORT) == "16 EVs of port 1 are denied\n"
    with closing(open_reader(live.name)) as reader:
        nic = reader.nics["h0"]
        lost = take_reading(reader).port_drops
        command("fault", "add", "plane-down", "--plane", str(PLANE), "--until", "cleared", "--id", "work")
        until = nic.counters()[NicCounter.TX_DATA] + 100
        poll_until(lambda: nic.counters()[NicCounter.TX_DATA] >= until, what="100 rounds")
        assert take_reading(reader).port_drops == lost
    command("fault", "clear", "work")
    assert profile("allow", PORT) == "16 EVs of port 1 are allowed\n"


def test_ev_events_are_followed(
    live: Lab,
    programs: Programs,
    profile: Callable[..., str],
    traffic: Started,
    faults: Callable[[], LabFaults],
) -> None:
    follower = start(live, "h0", programs["events"], "1")
    try:
        assert next_line(follower) == "following"
        fault = {"id": "dead", "until": "cleared"}
        faults().add(parse_fault("link-down", f"h3:{PLANE}", fault, ()), seed=1)
        status, said, complained = finish(follower)
        assert status == 0, complained
        assert said.startswith("profile 3: EV 0")
        assert "of port 1 is assumed bad" in said
    finally:
        kill_program(follower)


def test_nobody_may_control(live: Lab, programs: Programs) -> None:
    status, said, complained = finish(start(live, "h0", *NOBODY, programs["drain"], PROFILE, "set-up"))
    assert (status, said) == (1, "")
    assert "Operation not permitted" in complained
