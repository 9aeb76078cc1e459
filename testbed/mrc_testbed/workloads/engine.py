"""Runs workloads on a transport: takes its events and keeps every workload going.

The data path is in the kernel; the engine only posts messages, reduces or compares what has arrived, and
books results. A turn does what there is to do now. Who waits for the next one differs: in a live lab a
thread, which sleeps until an event, a command or the end of a computing step and never polls; in virtual time
who lets time pass.
"""

import contextlib
import logging
import queue
import random
import selectors
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import QueuePair
from mrc_testbed.errors import AgentError
from mrc_testbed.fabric.ranks import Rank, Write
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.layout import Layout
from mrc_testbed.workloads.load import Load, place
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import Output, Program, ProgramState
from mrc_testbed.workloads.running import RunningFlows, RunningWorkload
from mrc_testbed.workloads.running_program import PlaceRanks, RunningProgram
from mrc_testbed.workloads.sender import BatchRecord, FlowSender
from mrc_testbed.workloads.transport import Event, HostLost, Transport

COMMAND_TIMEOUT_S: Final = 30
SWITCH_INTERVAL_S: Final = 0.0005
"""Longest time that another thread of this process, which takes readings, keeps an arrival waiting."""

NOT_COMPLETED: Final = "messages were still under way when the run ended"
"""Error of a flow that was given up then."""

logger = logging.getLogger(__name__)


class Engine(ABC):
    """The workloads of one run, and nobody yet who waits.

    Args:
        transport: what carries them; the engine closes it.
        on_operation: receives completed operations of collectives and their end, in the engine's thread.
        is_killed: whether a host's agent was killed on purpose: its flows fail then, and the others go on.
        show: receives the output of programs, as the run's results do.

    Every method may raise AgentError: a NIC agent died or did not answer.
    """

    def __init__(
        self,
        transport: Transport,
        on_operation: OperationPublisher | None = None,
        is_killed: Callable[[str], bool] = lambda _: False,
        show: Write = lambda *_: None,
    ) -> None:
        self._transport = transport
        self._on_operation = on_operation
        self._is_killed = is_killed
        self._has_killed = False
        self._workloads: dict[str, RunningWorkload] = {}
        self._workload_of: dict[QueuePair, RunningWorkload] = {}
        self._acknowledged: dict[Flow, int] = {}
        self._lost_agent: AgentError | None = None
        self._is_closed = False
        self._output: Output = lambda _, __: None
        self._show = show

    # ---- for the run; called from its thread

    def prepare(self, loads: Sequence[Load], seed: int, output: Output = lambda _, __: None) -> None:
        """Registers and fills memory, connects hosts; nothing is sent yet.

        Args:
            output: receives each line that ranks of programs write, in any thread.
        """
        self._output = output
        hosts = list(dict.fromkeys(host for load in loads for host in load.hosts))
        self._transport.open(hosts)
        layouts = place(loads, {host: self._transport.memory_bytes(host) for host in hosts})
        for load in loads:
            workload = self._workloads[load.name] = self._made(load, layouts.get(load.name), seed)
            workload.prepare()
            for end in workload.qps():
                self._workload_of[end] = workload
        self._begin()

    def start(self, name: str) -> None:
        self._command(self._workloads[name].start)

    def stop(self, name: str) -> None:
        """Posts nothing more; messages that have begun complete."""
        self._command(self._workloads[name].stop)

    def is_finished(self, name: str) -> bool:
        """Return True if every message of the workload has completed, or its connections have failed."""
        return self._workloads[name].is_over

    @abstractmethod
    def await_step(self, name: str, deadline_ns: int) -> None:
        """Wait until a program has made its first step, or is over, but not beyond that time."""

    @abstractmethod
    def wait(self, deadline_ns: int | None) -> bool:
        """Return True if all workloads that were started are over.

        Args:
            deadline_ns: CLOCK_MONOTONIC at which to return anyway; None: only at their end.
        """

    def collect(self, deadline_ns: int) -> list[FlowOutcome]:
        """Every flow's outcome, once messages under way have completed and were compared.

        A flow that has not completed by *deadline_ns* (CLOCK_MONOTONIC) has an `error` that says so.
        """
        if not self.wait(deadline_ns):
            self._command(self._give_up)
        if self._lost_agent is not None:
            raise self._lost_agent
        return [outcome for workload in self._workloads.values() for outcome in workload.outcomes()]

    def batches(self, name: str) -> Mapping[Flow, Sequence[BatchRecord]]:
        """Finished batches of each flow of a workload, oldest first."""
        return self._workloads[name].batches()

    def operations(self, name: str) -> Sequence[OperationRecord]:
        """Completed operations of a collective workload or steps of a program, oldest first."""
        return self._workloads[name].operations()

    def program(self, name: str) -> ProgramState | None:
        """The state of a program; None: the workload is none, or was not started."""
        return self._workloads[name].program

    def acknowledged_bytes(self) -> dict[Flow, int]:
        """Payload of each flow acknowledged for the first time, since it was connected."""
        for workload in self._workloads.values():
            for flow, qp in workload.senders().items():
                # an agent that is restarted forgets the QPs there were
                known = self._acknowledged.get(flow, 0)
                self._acknowledged[flow] = max(known, qp.acknowledged_bytes())
        return dict(self._acknowledged)

    def close(self) -> None:
        """Free connections and memory; also after a failure, and more than once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._end()
        for name, workload in self._workloads.items():
            for error in workload.close():
                # With its agent gone, or itself, a QP has nobody left to destroy it: `down` takes the rest.
                logger.log(logging.INFO if self._has_killed else logging.WARNING, "%s: %s", name, error)
        self._workloads.clear()
        self._transport.close()

    def _made(self, load: Load, layout: Layout | None, seed: int) -> RunningWorkload:
        if load.program is not None:
            return self._made_program(load, load.program, _seed(seed, load))
        if load.collective is not None:
            # numpy, which takes a tenth of a second to import, is for those who reduce
            from mrc_testbed.workloads.running_collective import RunningCollective  # noqa: PLC0415

            return RunningCollective(
                load, load.collective, self._transport, _seed(seed, load), self._on_operation
            )
        if load.trace is not None:
            from mrc_testbed.workloads.running_trace import RunningTrace  # noqa: PLC0415 - as above

            return RunningTrace(load, load.trace, self._transport, _seed(seed, load), self._on_operation)
        if layout is None:
            raise ValueError(load.name)
        senders = {
            flow: FlowSender(flow, self._transport, layout, depth=load.depth, seed=_seed(seed, load, flow))
            for flow in load.flows
        }
        return RunningFlows(load, senders)

    @abstractmethod
    def _made_program(self, load: Load, program: Program, seed: int) -> RunningWorkload:
        """The program of a load, ready to start."""

    def _writer(self, load: Load) -> Write:
        """Function that receives the output of a program."""

        def write(rank: Rank, is_error: bool, line: bytes) -> None:
            self._output(load.name, b"[%d] %s\n" % (rank.number, line))
            self._show(rank, is_error, line)

        return write

    def _give_up(self) -> None:
        for workload in self._workloads.values():
            workload.give_up(NOT_COMPLETED)

    # ---- for who waits

    @abstractmethod
    def _begin(self) -> None:
        """From now on turns are taken."""

    @abstractmethod
    def _end(self) -> None:
        """No turn is taken any more."""

    @abstractmethod
    def _command(self, work: Callable[[], None]) -> None:
        """Carries something out between two turns, and returns when it is done."""

    def _is_over(self) -> bool:
        """Return True if there is nothing to wait for any more."""
        is_lost = self._lost_agent is not None
        return is_lost or not any(workload.is_under_way for workload in self._workloads.values())

    def turn(self) -> bool:
        """Takes what has happened and does what is due; whether somebody may be waiting for that."""
        before = self._marks()
        was_lost = self._lost_agent is not None
        for event in self._transport.events():
            self._record(event)
        now_ns = monotonic_ns()
        for workload in self._workloads.values():
            workload.advance(now_ns)
        is_lost = self._lost_agent is not None
        return is_lost != was_lost or before != self._marks()

    def _marks(self) -> list[bool]:
        """Changes that somebody may be waiting for."""
        return [self._has_stepped(name) for name in self._workloads] + [
            workload.is_over for workload in self._workloads.values()
        ]

    def _has_stepped(self, name: str) -> bool:
        """Return True if a program has made a step, or is over."""
        workload = self._workloads[name]
        return workload.is_over or (workload.program is not None and workload.program.has_stepped)

    def deadline_ns(self) -> int | None:
        """When a turn is due even without an event: at once when one was read along with an answer."""
        if self._transport.has_events:
            return monotonic_ns()
        deadlines = [
            deadline
            for workload in self._workloads.values()
            if (deadline := workload.deadline_ns) is not None
        ]
        return min(deadlines, default=None)

    def _record(self, event: Event) -> None:
        if isinstance(event, HostLost):
            if self._is_killed(event.host):
                self._has_killed = True
            elif self._lost_agent is None:
                hint = "mrc-testbed status says which nodes still work"
                self._lost_agent = AgentError(event.reason, hint=hint)
            for workload in self._workloads.values():
                workload.lose(event.host, event.reason)
            return
        owner = self._workload_of.get(event.qp)
        if owner is not None:
            owner.take(event)


class WorkloadEngine(Engine):
    """The workloads of one run, and a thread that takes the turns.

    Args:
        place_ranks: makes the ranks of a program; None: there are no programs.
    """

    def __init__(
        self,
        transport: Transport,
        on_operation: OperationPublisher | None = None,
        is_killed: Callable[[str], bool] = lambda _: False,
        place_ranks: PlaceRanks | None = None,
        show: Write = lambda *_: None,
    ) -> None:
        super().__init__(transport, on_operation, is_killed, show)
        self._place_ranks = place_ranks
        self._commands: queue.SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = (
            queue.SimpleQueue()
        )
        self._wake_near, self._wake_far = socket.socketpair()
        self._wake_near.setblocking(False)
        self._wake_far.setblocking(False)
        self._changed = threading.Condition()
        self._crash: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._switch_interval_s = sys.getswitchinterval()

    def is_finished(self, name: str) -> bool:
        if self._crash is not None:
            raise self._crash
        return super().is_finished(name)

    def await_step(self, name: str, deadline_ns: int) -> None:
        """Wait until a program has made its first step, or is over, but not beyond that time."""
        self._wait_for(lambda: self._crash is not None or self._has_stepped(name), deadline_ns)

    def wait(self, deadline_ns: int | None) -> bool:
        """Return True if all workloads that were started are over."""
        return self._wait_for(self._is_over, deadline_ns)

    def _wait_for(self, is_true: Callable[[], bool], deadline_ns: int | None) -> bool:
        with self._changed:
            timeout_s = None if deadline_ns is None else max(0, deadline_ns - monotonic_ns()) / 1e9
            found = self._changed.wait_for(is_true, timeout_s)
        if self._crash is not None:
            raise self._crash
        return found

    def close(self) -> None:
        """Free connections and memory, end programs; also after a failure, and more than once."""
        super().close()
        self._wake_near.close()
        self._wake_far.close()

    def _made_program(self, load: Load, program: Program, seed: int) -> RunningWorkload:
        del seed  # it is of connections, which the ranks make here
        if self._place_ranks is None:
            raise ValueError(load.name)
        return RunningProgram(
            load, program, self._place_ranks, self._writer(load), self._wake, self._on_operation
        )

    def _wake(self) -> None:
        """Lets the thread take a turn."""
        with contextlib.suppress(BlockingIOError):  # full: it has not even begun with the last one
            self._wake_near.send(b"\0")

    def _is_over(self) -> bool:
        return self._crash is not None or super()._is_over()

    def _begin(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._thread = threading.Thread(target=self._run, name="workloads", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        sys.setswitchinterval(self._switch_interval_s)
        if self._thread is not None:
            self._commands.put(None)
            self._wake()
            self._thread.join()
            self._thread = None

    def _command(self, work: Callable[[], None]) -> None:
        done: Future[None] = Future()
        self._commands.put((work, done))
        self._wake()
        try:
            done.result(COMMAND_TIMEOUT_S)
        except TimeoutError as error:
            raise AgentError(f"the NIC agents did not answer within {COMMAND_TIMEOUT_S} s") from error

    # ---- the thread

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            with self._changed:
                self._crash = error
                self._changed.notify_all()
            raise

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_far, selectors.EVENT_READ)
            selector.register(self._transport, selectors.EVENT_READ)
            while True:
                selector.select(self._poll_timeout_s())
                if not self._run_commands():
                    return
                if self.turn():
                    with self._changed:
                        self._changed.notify_all()

    def _poll_timeout_s(self) -> float | None:
        deadline_ns = self.deadline_ns()
        return None if deadline_ns is None else max(0, deadline_ns - monotonic_ns()) / 1e9

    def _run_commands(self) -> bool:
        """Carries out what was asked for; False when the engine is to end."""
        with contextlib.suppress(BlockingIOError):
            self._wake_far.recv(4096)
        while not self._commands.empty():
            command = self._commands.get()
            if command is None:
                return False
            work, done = command
            try:
                work()
            except BaseException as error:
                done.set_exception(error)
                raise
            done.set_result(None)
            with self._changed:
                self._changed.notify_all()
        return True


def _seed(seed: int, load: Load, flow: Flow | None = None) -> int:
    """31 bits for one workload, or one flow of it."""
    name = f"{seed}/{load.name}"
    if flow is not None:
        name += f"/{flow.source}/{flow.target}/{flow.qp_index}"
    return random.Random(name).getrandbits(31)
