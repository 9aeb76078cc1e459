"""A program with ranks: one process of it on each of several hosts, started together and ended together."""

import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mrc_testbed.agents.clock import machine_ns
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.management import INTERFACE, management_address
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.node_entry import enter_command
from mrc_testbed.fabric.process import KILLED_NS, marked_environment
from mrc_testbed.fabric.rdma import RdmaTransport, rdma_command, rdma_environment
from mrc_testbed.fabric.runtime import node_namespace

GRACE_NS: Final = 5_000_000_000
"""From SIGTERM to SIGKILL."""

_DRAIN_NS: Final = 1_000_000_000
"""For what the processes of an ended rank have written; one in another session may hold the pipe for ever."""

_LINE_BYTES: Final = 65_536
_LINE_END: Final = re.compile(rb"\r?\n|\r(?=[^\n])")
_SOCKET_INTERFACES: Final = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


@dataclass(frozen=True, slots=True)
class Rank:
    """A process to start.

    Attributes:
        number: from 0.
        host: name of the host that it runs on.
        command: program and arguments, run on the machine, that enter the host first.
        environment: all its variables.
    """

    number: int
    host: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Failure:
    """The rank that failed first.

    Attributes:
        rank: which one.
        status: its exit status, or less than 0: the signal that ended it.
    """

    rank: Rank
    status: int

    def __str__(self) -> str:
        how = (
            f"was ended by {signal.Signals(-self.status).name}"
            if self.status < 0
            else f"ended with status {self.status}"
        )
        return f"rank {self.rank.number} ({self.rank.host}) {how}"


Write = Callable[[Rank, bool, bytes], None]
"""Receives a line of a rank without its end; True: from stderr."""


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

    Args:
        attached: has the hosts.
        hosts: names.
        program: and its arguments.
        environment: variables that all ranks have besides.
        transport: of their QPs.

    Raises:
        UsageError: a host has no NIC that programs can use, is not there or stands twice; or no such program.
        FabricError: a host cannot be given a management network.
    """
    if twice := {host for host in hosts if hosts.count(host) > 1}:
        raise UsageError(f"{min(twice)} is listed twice: a host has one rank")
    if shutil.which(program[0]) is None:
        raise UsageError(f"{program[0]}: there is no such program", hint="give its path, or set PATH")
    nodes = [attached.clos.node(host) for host in hosts]
    with ExitStack() as stack:
        inside = [stack.enter_context(rdma_command(attached, host, transport)) for host in hosts]
        common = {
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            **dict.fromkeys(_SOCKET_INTERFACES, INTERFACE),
            **marked_environment(attached.name),
            **rdma_environment(transport),
            **environment,
            "WORLD_SIZE": str(len(hosts)),
            "RANK_HOSTS": ",".join(hosts),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": str(management_address(nodes[0].index)),
            "MASTER_PORT": str(_free_port(attached.name, hosts[0])),
        }
        yield [
            Rank(
                number,
                host,
                (*enter_command(attached.name, host, None), *inside[number], *program),
                {**common, "RANK": str(number)},
            )
            for number, host in enumerate(hosts)
        ]


def _free_port(lab: str, host: str) -> int:
    with entered(node_namespace(lab, host)), socket.socket() as attempt:
        attempt.bind(("", 0))
        port: int = attempt.getsockname()[1]
        return port


def run_ranks(ranks: Sequence[Rank], write: Write) -> Failure | None:
    """Start all ranks and wait for them; when one fails, or this is interrupted, end the others.

    Returns:
        The first failure; None: all ended with status 0.
    """
    with selectors.DefaultSelector() as selector:
        running: list[_Process] = []
        ended: list[_Process] = []
        try:
            running.extend(_Process.start(rank, selector, write, ended) for rank in ranks)
            while len(ended) < len(running):
                _serve(selector, None)
                for each in ended:
                    if each.status:
                        return Failure(each.rank, each.status)
            return None
        finally:
            _end(selector, running)


@dataclass(slots=True)
class _Process:
    rank: Rank
    popen: subprocess.Popen[bytes]
    selector: selectors.BaseSelector
    write: Write
    ended: list["_Process"]
    status: int | None = None
    pieces: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def start(
        cls, rank: Rank, selector: selectors.BaseSelector, write: Write, ended: list["_Process"]
    ) -> "_Process":
        """Start a rank; it is appended to *ended* when it ends."""
        popen = subprocess.Popen(
            rank.command,
            env=rank.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        process = cls(rank, popen, selector, write, ended)
        exited = os.pidfd_open(popen.pid)
        selector.register(exited, selectors.EVENT_READ, partial(process._reap, exited))
        for pipe, is_error in ((popen.stdout, False), (popen.stderr, True)):
            assert pipe is not None  # noqa: S101 - both were asked for
            process.pieces[pipe.fileno()] = b""
            selector.register(pipe, selectors.EVENT_READ, partial(process._read, pipe.fileno(), is_error))
        return process

    @property
    def is_read(self) -> bool:
        """Return True if both of its pipes have come to their end."""
        return not self.pieces

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the rank and its children."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.killpg(self.popen.pid, number)

    def _reap(self, exited: int) -> None:
        self.selector.unregister(exited)
        os.close(exited)
        self.signal(signal.SIGKILL)  # its children; the zombie keeps the number ours
        self.status = self.popen.wait()
        self.ended.append(self)

    def _read(self, descriptor: int, is_error: bool) -> None:
        chunk = os.read(descriptor, _LINE_BYTES)
        *lines, rest = _LINE_END.split(self.pieces[descriptor] + chunk)
        if rest and (not chunk or len(rest) >= _LINE_BYTES):
            lines.append(rest)
            rest = b""
        self.pieces[descriptor] = rest
        if not chunk:
            del self.pieces[descriptor]
            self.selector.unregister(descriptor)
        for line in lines:
            self.write(self.rank, is_error, line)


def _serve(selector: selectors.BaseSelector, timeout_s: float | None) -> None:
    for key, _ in selector.select(timeout_s):
        key.data()


def _serve_until(selector: selectors.BaseSelector, is_done: Callable[[], bool], wait_ns: int) -> None:
    deadline_ns = machine_ns() + wait_ns
    while not is_done() and (left_ns := deadline_ns - machine_ns()) > 0:
        _serve(selector, left_ns / 1e9)


def _end(selector: selectors.BaseSelector, running: Sequence[_Process]) -> None:
    for number, wait_ns in ((signal.SIGTERM, GRACE_NS), (signal.SIGKILL, KILLED_NS)):
        for each in running:
            each.signal(number)
        _serve_until(selector, lambda: all(each.status is not None for each in running), wait_ns)
    _serve_until(selector, lambda: all(each.is_read for each in running), _DRAIN_NS)
    for each in running:
        for pipe in (each.popen.stdout, each.popen.stderr):
            if pipe is not None:
                pipe.close()
