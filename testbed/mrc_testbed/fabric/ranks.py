"""A program with ranks: one process of it on each of several hosts, started together and ended together."""

import os
import re
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from mrc_agents.clock import machine_ns
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.management import INTERFACE, management_address
from mrc_testbed.fabric.mpi import program_environment
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.process import KILLED_NS
from mrc_testbed.fabric.rdma import RdmaTransport, rdma_command
from mrc_testbed.fabric.runtime import enter_command, node_namespace
from mrc_testbed.signals import passed_on

GRACE_NS: Final = 5_000_000_000
"""From SIGTERM to SIGKILL."""

_DRAIN_NS: Final = 1_000_000_000
"""For what the processes of an ended rank have written; one in another session may hold the pipe for ever."""

_GUARD: Final = (sys.executable, "-I", "-S", str(Path(__file__).with_name("rank_guard.py")))

_LINE_BYTES: Final = 65_536
_LINE_END: Final = re.compile(rb"\r?\n|\r(?=[^\n])")
_CUT: Final = re.compile(rb"(?=(?:\r|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})?\Z)")
"""Before a line end or character that may go on, of 3 bytes at most."""

_SOCKET_INTERFACES: Final = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


@dataclass(frozen=True, slots=True)
class Rank:
    """A process to start."""

    number: int  # from 0
    host: str  # name of the host that it runs on
    command: tuple[str, ...]  # program and arguments, run on the machine, that enter the host first
    environment: Mapping[str, str]  # all its variables
    descriptors: tuple[int, ...] = ()  # of this process that it inherits


@dataclass(frozen=True, slots=True)
class RankFailure:
    """The rank that failed first."""

    rank: Rank  # which one
    status: int  # its exit status, or less than 0: the signal that ended it

    def __str__(self) -> str:
        how = f"ended with status {self.status}"
        if -self.status in {*signal.Signals}:
            how = f"was ended by {signal.Signals(-self.status).name}"
        elif self.status < 0:
            how = f"was ended by SIGRTMIN{-self.status - signal.SIGRTMIN:+}"
        return f"rank {self.rank.number} ({self.rank.host}) {how}"


Write = Callable[[Rank, bool, bytes], None]
"""Receives a line of a rank without its end; True: from stderr."""

Report = Callable[[Rank, bytes], None]
"""Receives a line that a rank reports, without its end."""

REPORT_VARIABLE: Final = "MRC_TESTBED_REPORT_FD"
"""Number of the descriptor to which a rank may write reports: a JSON document per line."""

TRACE_VARIABLE: Final = "MRC_TESTBED_TRACE"
"""Set to 1 where ranks have to report rows of a trace as well; mrc-torch does."""

FILES_VARIABLE: Final = "MRC_TESTBED_RANK_FILES"
"""Files that a rank inherits, as /proc/self/fd shows them: its children have others by these numbers."""


@contextmanager
def placed_ranks(
    attached: Lab,
    hosts: Sequence[str],
    program: Sequence[str],
    environment: Mapping[str, str],
    transport: RdmaTransport,
) -> Iterator[list[Rank]]:
    """The ranks of *program*, one on each of *hosts* in that order, which can be started meanwhile.

    Each has the host's NIC as its RDMA device, and the variables that torchrun(1) sets for a single process
    per node. Those of the user stay: OMP_NUM_THREADS, PYTHONUNBUFFERED and the interfaces of gloo, NCCL and
    TensorPipe.
    """
    if twice := {host for host in hosts if hosts.count(host) > 1}:
        raise UsageError(f"{min(twice)} is listed twice: a host has one rank")
    check_program(program)
    nodes = [attached.clos.node(host) for host in hosts]
    with ExitStack() as stack:
        inside = [stack.enter_context(rdma_command(attached, host, transport)) for host in hosts]
        with entered(node_namespace(attached.name, hosts[0])):
            master = str(management_address(nodes[0].index)), free_port("")
        common = {
            **dict.fromkeys(_SOCKET_INTERFACES, INTERFACE),
            **program_environment(attached.name, transport),
            **environment,
        }
        yield [
            Rank(
                number,
                host,
                (*enter_command(attached.name, host, None), *inside[number], *program),
                rank_environment(hosts, number, master, common),
            )
            for number, host in enumerate(hosts)
        ]


def check_program(program: Sequence[str]) -> None:
    """Refuse a command whose program is not there."""
    if shutil.which(program[0]) is None:
        raise UsageError(f"{program[0]}: there is no such program", hint="give its path, or set PATH")


def rank_environment(
    hosts: Sequence[str], number: int, master: tuple[str, int], base: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a rank: those that torchrun(1) sets for a single process per node, and the base.

    Args:
        master: address and port at which ranks find the first one.
        base: OMP_NUM_THREADS and PYTHONUNBUFFERED of it stay.
    """
    return {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        **base,
        "RANK": str(number),
        "WORLD_SIZE": str(len(hosts)),
        "RANK_HOSTS": ",".join(hosts),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": master[0],
        "MASTER_PORT": str(master[1]),
    }


def free_port(address: str) -> int:
    """A TCP port that nobody has at an address of this network namespace."""
    with socket.socket() as attempt:
        attempt.bind((address, 0))
        port: int = attempt.getsockname()[1]
        return port


class RunningRanks:
    """Processes of ranks; whoever has started them serves their output. Those that run are ended on exit.

    They get the signals that this process passes on. If it is killed, a guard ends them.

    Args:
        report: receives each line that a rank writes to its descriptor for reports; None: it has none.
    """

    def __init__(self, write: Write, report: Report | None = None) -> None:
        # watches their files; others may be added, with a function without arguments as their data
        self.selector = selectors.DefaultSelector()
        self._write = write
        self._report = report
        self._running: list[_Process] = []
        self._ended: list[_Process] = []
        self._held = ExitStack()

    def __enter__(self) -> Self:
        # In a session of its own: Ctrl-C is for the launcher.
        self._guard = self._held.enter_context(
            subprocess.Popen(
                _GUARD, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0, start_new_session=True
            )
        )
        passed = self._held.enter_context(passed_on())
        self._held.enter_context(self.selector)
        self.selector.register(passed, selectors.EVENT_READ, partial(self._pass_on, passed))
        return self

    def __exit__(self, *_: object) -> None:
        with self._held:
            self.end()

    @property
    def failure(self) -> RankFailure | None:
        """The rank that failed first; None: none did."""
        return next((RankFailure(each.rank, each.status) for each in self._ended if each.status), None)

    @property
    def is_over(self) -> bool:
        """Return True if all ranks have ended, or one has failed."""
        return len(self._ended) == len(self._running) or self.failure is not None

    @property
    def pids(self) -> list[int]:
        """Those of the ranks, each the leader of a session."""
        return [each.popen.pid for each in self._running]

    def has_ended(self, rank: int) -> bool:
        return any(each.rank.number == rank for each in self._ended)

    def start(self, ranks: Sequence[Rank]) -> None:
        for rank in ranks:
            process = _Process.start(rank, self.selector, self._write, self._report, self._ended)
            self._running.append(process)
            if self._guard.stdin is not None:
                self._guard.stdin.write(b"%d\n" % process.popen.pid)

    def serve(self, timeout_s: float | None) -> bool:
        """Wait until one of the files has something, and pass it on; False: none had in that time."""
        ready = self.selector.select(timeout_s)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _pass_on(self, passed: int) -> None:
        for number in os.read(passed, select.PIPE_BUF):
            for each in self._running:
                each.signal(number)

    def end(self) -> None:
        """End what still runs: SIGTERM, and SIGKILL after GRACE_NS."""
        running = self._running
        for number, wait_ns in ((signal.SIGTERM, GRACE_NS), (signal.SIGKILL, KILLED_NS)):
            for each in running:
                each.signal(number)
            self._serve_until(lambda: all(each.status is not None for each in running), wait_ns)
        self._serve_until(lambda: not any(each.pieces for each in running), _DRAIN_NS)
        for each in running:
            each.close()

    def _serve_until(self, is_done: Callable[[], bool], wait_ns: int) -> None:
        deadline_ns = machine_ns() + wait_ns
        while not is_done() and (left_ns := deadline_ns - machine_ns()) > 0:
            self.serve(left_ns / 1e9)


Take = Callable[[bytes], None]


@dataclass(slots=True)
class _Process:
    rank: Rank
    popen: subprocess.Popen[bytes]
    selector: selectors.BaseSelector
    ended: list["_Process"]
    status: int | None = None
    pieces: dict[int, bytearray] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        rank: Rank,
        selector: selectors.BaseSelector,
        write: Write,
        report: Report | None,
        ended: list["_Process"],
    ) -> "_Process":
        """Start a rank; it is appended to *ended* when it ends."""
        outputs = [os.pipe() for _ in range(2 if report is None else 3)]
        inherited = [*rank.descriptors, *(to for _, to in outputs[2:])]
        files = " ".join(str(Path(f"/proc/self/fd/{number}").readlink()) for number in inherited)
        environment = {**rank.environment, FILES_VARIABLE: files}
        if report is not None:
            environment[REPORT_VARIABLE] = str(outputs[2][1])
        try:
            popen = subprocess.Popen(
                rank.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=outputs[0][1],
                stderr=outputs[1][1],
                pass_fds=inherited,
                start_new_session=True,
            )
        finally:
            for _, to in outputs:
                os.close(to)
        process = cls(rank, popen, selector, ended)
        exited = os.pidfd_open(popen.pid)
        selector.register(exited, selectors.EVENT_READ, partial(process._reap, exited))
        takes: list[Take] = [partial(write, rank, False), partial(write, rank, True)]
        if report is not None:
            takes.append(partial(report, rank))
        for (source, _), take in zip(outputs, takes, strict=True):
            process.pieces[source] = bytearray()
            selector.register(source, selectors.EVENT_READ, partial(process._read, source, take))
        return process

    def signal(self, number: int) -> None:
        """Send a signal to the rank and its children."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.killpg(self.popen.pid, number)

    def close(self) -> None:
        """Stop reading what others may still write."""
        for source in [*self.pieces]:
            self._close(source)

    def _reap(self, exited: int) -> None:
        self.selector.unregister(exited)
        os.close(exited)
        self.signal(signal.SIGKILL)  # its children; the zombie keeps the number ours
        self.status = self.popen.wait()
        self.ended.append(self)

    def _read(self, source: int, take: Take) -> None:
        chunk = os.read(source, _LINE_BYTES)
        held = self.pieces[source]
        looked = max(len(held) - 1, 0)  # no line ends before, only a \r may be there
        held += chunk
        ends = [found.span() for found in _LINE_END.finditer(held, looked)]
        rest_bytes = len(held) - (ends[-1][1] if ends else 0)
        if rest_bytes and (not chunk or rest_bytes >= _LINE_BYTES):
            ends.append(next(_CUT.finditer(held, len(held) - 3 if chunk else len(held))).span())
        begins = [0, *(after for _, after in ends)]
        lines = [bytes(held[begin:end]) for begin, (end, _) in zip(begins, ends, strict=False)]
        del held[: begins[-1]]
        if not chunk:
            self._close(source)
        for line in lines:
            take(line)

    def _close(self, source: int) -> None:
        del self.pieces[source]
        self.selector.unregister(source)
        os.close(source)
