"""Programs with ranks in virtual time: exact, whatever the machine does, and no way to end is silent."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from stopped_clock import StoppedClock
from waiting import DEADLINE_S

from mrc_agents.abi import VirtualPayload
from mrc_agents.collectives.rank_collectives import RankCollectives, load_library
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.ranks import FILES_VARIABLE, REPORT_VARIABLE, Rank
from mrc_testbed.scenario.spec.plan import PlannedTransport
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.congestion import choose_congestion_control
from mrc_testbed.virtual import rank_processes
from mrc_testbed.virtual.engine import VirtualEngine, virtual_transport
from mrc_testbed.virtual.lab import VirtualLab, virtual_lab
from mrc_testbed.virtual.rank_channel import CHANNEL_VARIABLE
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import RANKS_MAX, Program, ProgramState

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("virtual_rank.py")
SPEC = TopologySpec.model_validate({"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2, "port_rate": "100Mbit"})


@dataclass
class Done:
    """A program that has ended."""

    said: list[str] = field(default_factory=list)
    steps: list[OperationRecord] = field(default_factory=list)
    state: ProgramState | None = None
    end_ns: int = 0

    @property
    def error(self) -> str | None:
        assert self.state is not None
        return self.state.error

    def write(self, rank: Rank, _is_error: bool, line: bytes) -> None:
        self.said.append(f"[{rank.number}] {line.decode()}")


def program(*command: str, ranks: int = 4, compute: str | None = "10ms") -> Program:
    hosts = tuple(f"h{index}" for index in range(ranks))
    whole = (sys.executable, str(SCRIPT), *command)
    return Program(hosts, whole, {"PYTHONPATH": str(ROOT / "mrc-torch")}, compute=compute)


@contextmanager
def engine_of(done: Done) -> Iterator[tuple[VirtualLab, VirtualEngine]]:
    clos = resolve_topology(SPEC)
    congestion = choose_congestion_control(clos)
    with ExitStack() as stack:
        lab = stack.enter_context(virtual_lab(clos, seed=1, payload=VirtualPayload.REFERENCE))
        transport = virtual_transport(lab, PlannedTransport("mrc", SPEC.evs, congestion))
        engine = VirtualEngine(lab, transport, machine=StoppedClock(), show=done.write)
        stack.callback(engine.close)
        yield lab, engine


def run(
    *command: str,
    ranks: int = 4,
    compute: str | None = "10ms",
    before: Callable[[VirtualLab], object] = lambda _: None,
) -> Done:
    done = Done()
    given = program(*command, ranks=ranks, compute=compute)
    with engine_of(done) as (lab, engine):
        engine.prepare([Load("job", 0, 1, None, (), program=given)], seed=1)
        before(lab)
        engine.start("job")
        assert engine.wait(None)
        done.state, done.steps = engine.program("job"), list(engine.operations("job"))
        done.end_ns = lab.runtime.now_ns()
    return done


def test_steps_are_reported_by_all_ranks_and_the_same_each_time():
    done, again = run("train", "4"), run("train", "4")
    assert (done.error, done.said) == (None, [])
    assert done.state is not None
    assert done.state.status == 0
    assert [step.loss for step in done.steps] == [10, 5, 2.5, 1.25]
    assert all(step.sent_bytes == 4 * 2 * 480_000 * 3 // 4 for step in done.steps)
    assert (done.steps, done.end_ns) == (again.steps, again.end_ns)


def test_what_is_computed_while_a_bucket_is_under_way_takes_less_than_one_after_the_other():
    bare, whole = (run("train", "2", compute=compute).steps[1].step_ns for compute in ("0ms", "10ms"))
    assert 10_000_000 < whole < 10_000_000 + bare


def test_what_ranks_write_comes_in_one_order_whatever_the_machine_does():
    done, again = run("messages"), run("messages")
    assert (done.error, done.said) == (None, again.said)
    assert sorted(done.said) == ["[0] from 3", "[1] from 0", "[2] from 1", "[3] from 2"]


def test_a_host_without_ports_fails_the_program():
    def cut_off(lab: VirtualLab) -> None:
        for port in lab.clos.ports_of(lab.clos.node("h1")):
            lab.runtime.set_carrier(port.id, is_up=False)

    done = run("train", "2", before=cut_off)
    assert done.error is not None
    assert "rank 1 (h1)" in done.error
    assert "does not reach" in done.error
    assert any(line.startswith("[0] rank ") for line in done.said)


@pytest.mark.parametrize(
    ("case", "error", "others"),
    [
        (
            "wait_in_a_circle",
            "all ranks wait for each other: rank 0 (h0) in exchange for rank 1 (h1); rank 1 (h1) in exchange "
            "for rank 2 (h2); rank 2 (h2) in exchange for rank 0 (h0)",
            [0, 1, 2],
        ),
        (
            "leave",
            "all ranks wait for each other: rank 0 (h0) in all_reduce for rank 1 (h1), which has ended; "
            "rank 2 (h2) in all_reduce for rank 0 (h0)",
            [0, 2],
        ),
        ("die", "rank 1 (h1) was ended by SIGKILL", [0, 2]),
        ("exit_with_3", "rank 1 (h1) ended with status 3", [0, 2]),
    ],
)
def test_all_ranks_learn_why_there_is_no_end(case: str, error: str, others: list[int]) -> None:
    done = run(case, ranks=3)
    assert done.error == error
    plain = error.replace(" (h0)", "").replace(" (h1)", "").replace(" (h2)", "")
    assert sorted(done.said) in ([f"[{rank}] {text}" for rank in others] for text in (plain, error))
    assert len(done.steps) == 1


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("disagree", "rank 0 (h0) sends 2000 bytes where 4000 are expected: "),
        ("babble", "rank 0 (h0) is of another version of mrc-torch: "),
        ("say_nothing", "ended without a step: rank 0 reported none; "),
        ("misreport", "rank 0 (h0) reported no step: time_s: expected seconds from 0, got -1"),
    ],
)
def test_the_mistake_of_a_program_is_named(case: str, error: str) -> None:
    assert (run(case, ranks=2).error or "").startswith(error)


@pytest.mark.parametrize(
    ("way", "does"),
    [
        (0, "reduces i32 by SUM"),
        (1, "reduces f32 by MAX"),
        (2, "reduces and scatters f32 by SUM"),
        (3, "gathers"),
    ],
)
def test_ranks_that_call_something_else_are_named(way: int, does: str) -> None:
    said = ["rank 0 (h0) reduces f32 by SUM", f"rank 1 (h1) {does}"]
    error, _, reason = (run("differ", str(way), ranks=2).error or "").partition(": ")
    assert sorted(error.split(" where ")) == said
    assert reason == "the ranks of a group do not agree on operation or type"


@pytest.mark.parametrize("own_ns", [0, 3_000_000_000])
def test_what_follows_an_operation_may_wait_for_others(own_ns: int) -> None:
    done, again = (run("follow", str(own_ns)) for _ in range(2))
    assert done.error is None
    assert len(done.said) == 4
    assert (done.said, done.end_ns) == (again.said, again.end_ns)


@pytest.mark.parametrize(
    "case", ["look_for_file", "read_pipe", "read_pipe_and_say_so", "join_thread", "wait_by_the_clock"]
)
def test_time_passes_while_a_rank_waits_for_others_in_the_machine(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_processes, "DOZE_NS", 3 * 10**8)
    names = [tmp_path / "first", tmp_path / "second"]
    if "pipe" in case:
        for name in names:
            os.mkfifo(name)
    done, again = (run(case, str(name)) for name in names)
    assert done.error is None
    assert len(done.said) == 8
    assert (done.said, done.end_ns) == (again.said, again.end_ns)


def test_only_the_thread_of_the_collectives_moves_the_clock() -> None:
    done, alone = run("watch"), run("train", "3")
    assert (done.error, done.steps, done.end_ns) == (None, alone.steps, alone.end_ns)


def test_children_of_a_rank_have_nothing_of_it() -> None:
    done = run("bear_children", ranks=2)
    assert done.error is None
    assert sorted(done.said) == [f"[{rank}] False False{more}" for rank in range(2) for more in ("", " True")]


def test_the_operations_of_a_rank_fail_when_the_simulation_is_killed() -> None:
    """It has not read all that the rank sent: the socket is reset."""
    far, near = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    numbers = {"RANK": 0, "WORLD_SIZE": 2, CHANNEL_VARIABLE: near.fileno(), REPORT_VARIABLE: near.fileno()}
    environment = {key: str(each) for key, each in numbers.items()} | {
        "PYTHONPATH": str(ROOT / "mrc-torch"),
        FILES_VARIABLE: str(Path(f"/proc/self/fd/{near.fileno()}").readlink()),
    }
    command = [sys.executable, str(SCRIPT), "say_nothing"]
    with subprocess.Popen(command, env=environment, pass_fds=[near.fileno()], stderr=subprocess.PIPE) as rank:
        near.close()
        assert far.recv(1, socket.MSG_PEEK)
        far.close()
        assert rank.communicate(timeout=DEADLINE_S)[1] == b"the simulation has ended\n"


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, duration_ns in (("LOOK_NS", 10**8), ("STILL_NS", 2 * 10**8), ("GIVE_UP_NS", 10**9)):
        monkeypatch.setattr(rank_processes, name, duration_ns)
    monkeypatch.setattr(rank_processes, "LEAVE_NS", 10**8)


@pytest.mark.usefixtures("impatience")
def test_a_rank_that_waits_for_something_else_is_given_up_and_says_where() -> None:
    done = run("hang", ranks=2)
    places = (
        r"rank 0 \(h0\) in all_reduce; rank 1 \(h1\) at virtual_rank.py:\d+, in wait \(threading.py:\d+\)"
    )
    text = rf"no rank has computed for \d s, and not all of them wait for operations: {places}"
    assert re.fullmatch(text, done.error or "")
    assert re.fullmatch(rf"\[1\] {text}", done.said[0])


@pytest.mark.usefixtures("impatience")
def test_a_rank_may_compute_for_longer_than_it_may_be_still() -> None:
    done = run("compute", "2", ranks=2)
    assert (done.error, done.said) == (None, [])


@pytest.mark.parametrize(
    ("compute", "complaint"),
    [
        (None, "workload job: compute: virtual time does not measure how long a step computes"),
        ("quick", "workload job: compute: there is no such file; 'quick'"),
    ],
)
def test_compute_is_declared(compute: str | None, complaint: str) -> None:
    with pytest.raises(UsageError, match="compute") as raised:
        run("train", "1", compute=compute)
    assert str(raised.value).startswith(complaint)


def test_a_rank_has_as_many_peers_as_the_limit_of_ranks_says() -> None:
    rank = RankCollectives(load_library(), 0)
    for peer in range(1, RANKS_MAX):
        rank.add_peer(peer, 0)
    with pytest.raises(ValueError, match="rank 65 as one more peer"):
        rank.add_peer(RANKS_MAX, 0)
    rank.close()


def test_a_nic_has_room_for_so_many_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SPEC.model_copy(update={"nic": SPEC.nic.model_copy(update={"memory": 2 << 20})})
    monkeypatch.setitem(globals(), "SPEC", small)
    with pytest.raises(UsageError, match="has no room for 3 peers"):
        run("train", "1")
