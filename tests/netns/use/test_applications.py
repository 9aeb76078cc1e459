"""Unmodified programs use the NIC of a host by libibverbs: perftest, ibv_devinfo, one of our own.

What concerns the data path is done over QPs of every transport.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdma_program import (
    NOBODY,
    TESTBED,
    Started,
    build,
    finish,
    kill_program,
    next_line,
    program_pids,
    said_by_both,
    start,
)
from shared_lab import agent_of
from waiting import poll_until

from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import freeze, is_stopped, observe_process
from mrc_testbed.fabric.rdma import TRANSPORT_VARIABLE, RdmaTransport, rdma_environment

SOURCES = [Path(__file__).with_name(name) for name in ("verbs_pair.c", "verbs_memory.c", "verbs_limits.c")]
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "applications.md"
TRANSPORTS = [each.value for each in RdmaTransport]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with our own programs and the guide's `hello`, which everybody may run."""
    folder = tmp_path_factory.mktemp("programs")
    (example,) = re.findall(r"```c\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (folder / "hello.c").write_text(example)
    for source in (*SOURCES, folder / "hello.c"):
        build(source, folder, "-libverbs")
    return folder


@pytest.fixture
def server(live: Lab, programs: Path, request: pytest.FixtureRequest) -> Iterator[Started]:
    """`verbs_pair` on h2, that waits for a peer; its transport may be a parameter."""
    transport = getattr(request, "param", "mrc")
    started = start(live, "h2", *NOBODY, programs / "verbs_pair", transport=transport)
    assert next_line(started) == "listening", finish(started)
    yield started
    kill_program(started)
    finish(started)
    poll_until(lambda: not live.agent("h2").list_qps(), what="the end of its QP")


def test_devices_of_a_host(live: Lab) -> None:
    status, said, _ = finish(start(live, "h0", "ibv_devices"))
    assert status == 0
    assert "mrc0" in said
    status, said, _ = finish(start(live, "h0", "ibv_devinfo", "-v"))
    assert status == 0
    assert "PORT_ACTIVE" in said
    assert "RoCE v2" in said


@pytest.mark.parametrize(("server", "transport"), [(each, each) for each in TRANSPORTS], indirect=["server"])
def test_bytes_immediate_and_event_arrive_for_nobody(
    live: Lab, programs: Path, server: Started, transport: str
) -> None:
    before = live.agent("h2").counters()
    client = start(live, "h0", *NOBODY, programs / "verbs_pair", "h2", "good", transport=transport)
    status, said, complained = finish(client)
    assert (status, said.splitlines()[-1]) == (0, "success"), complained
    assert next_line(server) == "connected"
    assert next_line(server) == "success, 1048576 bytes, immediate 0x1234abcd, wr_id 42, 0 wrong"
    answers = {
        name: live.agent("h2").counters()[name] - before[name] for name in ("rx_data", "tx_sack", "tx_ack")
    }
    # MRC answers data by SACKs, and whole messages by ACKs; a reliable connection all by ACKs.
    assert answers["rx_data"] >= 512
    assert (answers["tx_sack"] == 0) == (transport == "rocev2")
    if transport == "rocev2":
        assert answers["tx_ack"] >= 512


@pytest.mark.parametrize(("server", "transport"), [(each, each) for each in TRANSPORTS], indirect=["server"])
def test_a_program_is_woken_without_its_agent(
    live: Lab, programs: Path, server: Started, transport: str
) -> None:
    client = start(live, "h0", *NOBODY, programs / "verbs_pair", "h2", "paused", transport=transport)
    assert next_line(client) == "connected"
    assert next_line(server) == "connected"
    [writer] = [observe_process(pid) for pid in program_pids(client)]
    assert writer is not None
    poll_until(lambda: is_stopped(writer), what="the writer's stop")
    agent = agent_of(live, "h2")
    freeze(agent)
    try:
        os.kill(writer.pid, signal.SIGCONT)
        assert next_line(server).startswith("success")
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    assert finish(client)[0] == 0


@pytest.mark.parametrize("server", ["rocev2"], indirect=True)
def test_qps_of_rocev2_have_one_path_and_end_with_the_program(
    live: Lab, programs: Path, server: Started
) -> None:
    client = start(live, "h0", programs / "verbs_pair", "h2", "endless", transport="rocev2")
    assert next_line(client) == "connected"
    agent = live.agent("h0")
    (qp,) = agent.list_qps()
    assert (qp["active_evs"], "cwnd_bytes" in qp) == (1, False)
    assert agent.query_qp(qp["qpn"])["peer_host"] == live.clos.node("h2").index
    poll_until(lambda: next(iter(agent.list_qps()))["next_psn"] != qp["next_psn"], what="a WRITE")
    kill_program(client)
    finish(client)
    poll_until(lambda: not agent.list_qps(), what="the end of its QP")


@pytest.mark.parametrize("case", ["wrong-key", "out-of-bounds"])
def test_write_that_the_peer_refuses(live: Lab, programs: Path, server: Started, case: str) -> None:
    status, said, _ = finish(start(live, "h0", programs / "verbs_pair", "h2", case))
    assert (status, said.splitlines()[-1]) == (1, "remote access error")
    assert server.poll() is None


def test_memory_is_the_program_s_and_a_readable_channel_has_an_event(live: Lab, programs: Path) -> None:
    """Memory that it unmaps, replaces, moves, frees and deregisters while it is registered."""
    status, said, complained = finish(start(live, "h0", *NOBODY, programs / "verbs_memory"))
    assert status == 0, said
    assert complained.splitlines() == [
        f"mrc-testbed: {name} cannot be posted: over MRC there are RDMA WRITE and SEND"
        for name in ("RDMA READ", "atomic fetch and add")
    ]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        ("late-receives", "success, written"),  # more of them than the NIC has places for, too
        ("no-receive", "RNR retry counter exceeded, untouched"),
        ("peer-gone", "in time: transport retry counter exceeded, untouched"),
        ("qp-access", "remote access error, untouched"),
        ("other-pd", "remote access error, untouched"),
        ("high-half", "remote access error, untouched"),
    ],
)
def test_what_a_program_bounds_and_forbids_the_nic_does(
    live: Lab, programs: Path, case: str, outcome: str, transport: str
) -> None:
    program = start(live, "h0", programs / "verbs_limits", case, transport=transport)
    status, said, complained = finish(program)
    assert (status, said.strip()) == (0, outcome), complained


def test_killed_program_leaves_nothing(live: Lab, programs: Path, server: Started) -> None:
    client = start(live, "h0", programs / "verbs_pair", "h2", "endless")
    assert next_line(client) == "connected"
    agent = live.agent("h0")
    (qp,) = agent.list_qps()
    poll_until(lambda: next(iter(agent.list_qps()))["next_psn"] != qp["next_psn"], what="a WRITE")
    kill_program(client)
    assert finish(client)[0] != 0
    poll_until(lambda: not agent.list_qps(), what="the end of its QP")


@pytest.mark.parametrize(("server", "transport"), [(each, each) for each in TRANSPORTS], indirect=["server"])
def test_death_of_the_agent_ends_a_program(
    live: Lab, programs: Path, server: Started, transport: str
) -> None:
    client = start(live, "h0", programs / "verbs_pair", "h2", "endless", transport=transport)
    assert next_line(client) == "connected"
    subprocess.run([TESTBED, "-n", live.name, "restart", "h0"], check=True, capture_output=True)
    status, said, complained = finish(client)
    assert (status, said.splitlines()[-1]) == (1, "Work Request Flushed Error")
    assert "the NIC agent is gone" in complained


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "test",
    [
        ("ib_write_bw", "-n", "200"),
        ("ib_write_lat", "-n", "200"),
        ("ib_write_bw", "-q", "4", "-b", "-n", "50"),
    ],
)
def test_perftest(live: Lab, test: tuple[str, ...], transport: str) -> None:
    assert "#bytes" in said_by_both(live, *test, "-d", "mrc0", transport=transport)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_hello_of_the_guide(live: Lab, programs: Path, transport: str) -> None:
    hello = start(live, "h1", *NOBODY, programs / "hello", transport=transport)
    status, said, complained = finish(hello)
    assert (status, said) == (0, "success: hello over MRC\n"), complained


@pytest.mark.parametrize("harm", ["delete doorbell", "set doorbell down", "set doorbell xdp off"])
def test_a_program_goes_on_without_its_doorbell(live: Lab, programs: Path, harm: str) -> None:
    """It makes live runs; the agent sends what a doorbell takes and does not pass on."""
    status, said, complained = finish(
        start(live, "h1", "sh", "-c", f"ip link {harm} && exec {programs / 'hello'}")
    )
    assert (status, said) == (0, "success: hello over MRC\n"), complained


def test_what_is_refused(live: Lab) -> None:
    status, _, complained = finish(start(live, "p0-t0-0", "ibv_devices"))
    assert status == 2
    assert "p0-t0-0 is a switch: --rdma needs a host" in complained
    status, _, complained = finish(start(live, "h0", "ib_write_bw", "-d", "mrc9"))
    assert status == 1
    assert "mrc9" in complained
    _, _, complained = finish(start(live, "h0", "ib_write_bw", "-d", "mrc0", "-R"))
    assert complained.startswith("mrc-testbed: there is no rdma_cm: let the program exchange addresses ")
    status, said, complained = finish(start(live, "h0", "env", f"{TRANSPORT_VARIABLE}=tcp", "ibv_devices"))
    assert "mrc0" not in said
    assert complained == "mrc-testbed: MRC_TESTBED_TRANSPORT is 'tcp': mrc and rocev2 are accepted\n"


@pytest.mark.parametrize(
    "command",
    [
        ("exec", "h0", "--rdma", "--transport", "tcp", "--", "true"),
        ("exec", "h0", "--transport", "rocev2", "--", "true"),
        ("launch", "--transport", "tcp", "--", "true"),
    ],
)
def test_transport_that_cannot_be(live: Lab, command: tuple[str, ...]) -> None:
    done = subprocess.run([TESTBED, "-n", live.name, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--transport" in done.stderr


def test_without_a_lab_there_is_no_device() -> None:
    done = subprocess.run(
        ["ibv_devices"],
        env=rdma_environment() | {"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "mrc0" not in done.stdout
    assert "no NIC agent responds in this network namespace" in done.stderr
