"""Unmodified RDMA programs on hosts that are containers, whose agents have no capability."""

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from program_socket import Program
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
from waiting import poll_until

from mrc_agents.abi import ApplicationLimit, ApplicationVerb
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.rdma import RdmaTransport

pytestmark = [pytest.mark.root, pytest.mark.docker]

SOURCE: Final = Path(__file__).parents[2] / "netns" / "use" / "verbs_pair.c"
NO_PRIVILEGE: Final = (*NOBODY, "--bounding-set=-all", "--no-new-privs")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(SOURCE, tmp_path_factory.mktemp("programs"), "-libverbs")


@pytest.fixture
def live(shared_lab: str) -> Iterator[Lab]:
    with lab.attach(shared_lab) as attached:
        yield attached
        agents = [attached.agent(host.name) for host in attached.clos.hosts()]
        poll_until(lambda: not any(agent.list_qps() for agent in agents), what="the end of all QPs")


@pytest.fixture
def server(live: Lab, program: Path, request: pytest.FixtureRequest) -> Iterator[Started]:
    started = start(live, "h1", *NO_PRIVILEGE, program, transport=request.param)
    assert next_line(started) == "listening", finish(started)
    yield started
    kill_program(started)
    finish(started)


@pytest.mark.parametrize(
    ("server", "transport"), [(each.value, each.value) for each in RdmaTransport], indirect=["server"]
)
def test_programs_without_privilege_exchange_bytes(
    live: Lab, program: Path, server: Started, transport: str
) -> None:
    client = start(live, "h0", *NO_PRIVILEGE, program, "h1", "good", transport=transport)
    status, said, complained = finish(client)
    assert (status, said.splitlines()[-1]) == (0, "success"), complained
    assert next_line(server) == "connected"
    assert next_line(server) == "success, 1048576 bytes, immediate 0x1234abcd, wr_id 42, 0 wrong"


def test_a_controller_of_the_machine_sets_up_the_nic_of_a_container(
    live: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The agent sees no process of the machine, and no program without the privilege."""
    drain = build(LIBMRC_EXAMPLES / "drain.c", tmp_path_factory.mktemp("libmrc"), *LIBMRC)
    assert finish(start(live, "h0", *NO_PRIVILEGE, drain, "3", "set-up"))[0] == 1
    for command in ("set-up", "release"):
        status, _, complained = finish(start(live, "h0", drain, "3", command))
        assert status == 0, complained


def test_more_memory_than_the_nic_has_is_refused_with_what_to_set(live: Lab) -> None:
    """Only a process with capabilities makes a map."""
    program = Program(live, "h0")
    refusal = program.ask(ApplicationVerb.ALLOCATE, length=64 << 20, offset=ApplicationLimit.ANYWHERE)
    program.close()
    assert refusal.error == errno.ENOMEM
    assert bytes(refusal.text).rstrip(b"\0").endswith(b"a container's NIC does not grow: set nic.memory")


def test_ranks_are_on_their_hosts(live: Lab) -> None:
    command = [TESTBED, "-n", live.name, "launch", "--", "sh", "-c", "echo $RANK $(hostname)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 0 h0", "[1] 1 h1"]
