"""Runs workloads on a live lab: one thread waits for the NICs' completions and keeps every flow supplied.

The data path is in the kernel; the thread only posts laps, has finished ones compared, and books results. Its
work per second does not depend on packet rates.
"""

import contextlib
import logging
import queue
import random
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, Protocol

from testbed.errors import AgentError, TestbedError
from testbed.topology.clos import Clos
from testbed.workloads.flow import Flow
from testbed.workloads.layout import Layout, plan_layout
from testbed.workloads.load import Load
from testbed.workloads.outcome import FlowOutcome
from testbed.workloads.running import RunningWorkload
from testbed.workloads.sender import FlowSender, LapRecord, NicVerbs, QpEnd

COMMAND_TIMEOUT_S: Final = 30
_NOT_COMPLETED: Final = "messages were still under way when the run ended"

logger = logging.getLogger(__name__)


class NicConnection(NicVerbs, Protocol):
    """What the engine needs of agents.nic.client.AgentClient."""

    def fileno(self) -> int:
        """Readable when an event waits."""

    def hello(self) -> dict[str, Any]:
        """Who answers; `memory_bytes` is the size of the NIC's memory."""

    def subscribe(self) -> None:
        """Asks for events."""

    def drain_events(self) -> Iterable[dict[str, Any]]:
        """Events that wait."""

    def close(self) -> None:
        """Ends the connection."""


class QpShape(NamedTuple):
    """What all QPs of a run have in common.

    Attributes:
        evs: EVs of a QP over all planes; None for the topology's.
        window_packets: packets a QP may have in flight; None for the topology's.
    """

    evs: int | None = None
    window_packets: int | None = None


class WorkloadEngine:
    """The workloads of one run.

    Args:
        clos: the lab's topology.
        connect: a new connection to the NIC agent of a host.

    Every method may raise AgentError: a NIC agent died or did not answer.
    """

    def __init__(self, clos: Clos, connect: Callable[[str], NicConnection]) -> None:
        self._clos = clos
        self._connect = connect
        self._nics: dict[str, NicConnection] = {}
        self._workloads: dict[str, RunningWorkload] = {}
        self._sender_of: dict[tuple[str, int | None], FlowSender] = {}  # by host and QP number
        self._commands: queue.SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = (
            queue.SimpleQueue()
        )
        self._wake_near, self._wake_far = socket.socketpair()
        self._wake_far.setblocking(False)
        self._changed = threading.Condition()
        self._lost_agent: AgentError | None = None
        self._crash: BaseException | None = None
        self._thread: threading.Thread | None = None

    # ---- for the run; called from its thread

    def prepare(self, loads: Sequence[Load], shape: QpShape, seed: int) -> None:
        """Registers and fills memory, creates and connects QPs; nothing is sent yet.

        Raises:
            UsageError: the workloads do not fit into the NICs' memory, or an agent refuses a QP.
        """
        for host in dict.fromkeys(host for load in loads for host in load.hosts):
            self._nics[host] = self._connect(host)
            self._nics[host].subscribe()
        workloads_at = Counter(host for load in loads for host in load.hosts)
        memory_bytes = {
            host: nic.hello()["memory_bytes"] // workloads_at[host] for host, nic in self._nics.items()
        }
        for load in loads:
            layout = plan_layout(load.size_bytes, load.flows, memory_bytes)
            senders = {flow: self._sender(load, flow, layout, shape, seed) for flow in load.flows}
            self._workloads[load.name] = RunningWorkload(load, senders)
            for sender in senders.values():
                sender.prepare()
                self._sender_of[sender.flow.source, sender.qpn] = sender
        self._thread = threading.Thread(target=self._run, name="workloads", daemon=True)
        self._thread.start()

    def start(self, name: str) -> None:
        """Begins to send."""
        self._command(self._workloads[name].start)

    def stop(self, name: str) -> None:
        """Posts nothing more; messages that have begun complete."""
        self._command(self._workloads[name].stop)

    def is_finished(self, name: str) -> bool:
        """Whether every message of the workload has completed, or its QPs have failed."""
        return self._workloads[name].is_over

    def wait(self, deadline_ns: int | None) -> bool:
        """Whether all workloads that were started are over.

        Args:
            deadline_ns: CLOCK_MONOTONIC at which to return anyway; None: only at their end.
        """

        def all_over() -> bool:
            is_broken = self._lost_agent is not None or self._crash is not None
            return is_broken or not any(workload.is_under_way for workload in self._workloads.values())

        with self._changed:
            if deadline_ns is None:
                return self._changed.wait_for(all_over)
            return self._changed.wait_for(all_over, max(0, deadline_ns - time.monotonic_ns()) / 1e9)

    def collect(self, deadline_ns: int) -> list[FlowOutcome]:
        """Every flow's outcome, once messages under way have completed and were compared.

        A flow that has not completed by *deadline_ns* (CLOCK_MONOTONIC) has an `error` that says so.
        """
        if not self.wait(deadline_ns):
            self._command(self._give_up)
        if self._crash is not None:
            raise self._crash
        if self._lost_agent is not None:
            raise self._lost_agent
        return [sender.outcome() for sender in self._senders()]

    def laps(self, name: str) -> dict[Flow, list[LapRecord]]:
        """Finished laps of each flow of a workload, oldest first."""
        return {flow: list(sender.laps) for flow, sender in self._workloads[name].senders.items()}

    def close(self) -> None:
        """Destroys QPs and deregisters memory; also after a failure, and more than once."""
        if self._thread is not None:
            self._commands.put(None)
            self._wake_near.send(b"\0")
            self._thread.join()
            self._thread = None
        for sender in self._senders():
            try:
                sender.close()
            except TestbedError as error:
                # With its agent gone, or itself, a QP has nobody left to destroy it: `down` takes the rest.
                logger.warning("%s > %s: %s", sender.flow.source, sender.flow.target, error)
        self._workloads.clear()
        for nic in self._nics.values():
            nic.close()
        self._nics.clear()
        self._wake_near.close()
        self._wake_far.close()

    def _senders(self) -> list[FlowSender]:
        return [sender for workload in self._workloads.values() for sender in workload.senders.values()]

    def _give_up(self) -> None:
        for workload in self._workloads.values():
            workload.give_up(_NOT_COMPLETED)

    def _command(self, work: Callable[[], None]) -> None:
        done: Future[None] = Future()
        self._commands.put((work, done))
        self._wake_near.send(b"\0")
        try:
            done.result(COMMAND_TIMEOUT_S)
        except TimeoutError as error:
            raise AgentError(f"the NIC agents did not answer within {COMMAND_TIMEOUT_S} s") from error

    def _sender(self, load: Load, flow: Flow, layout: Layout, shape: QpShape, seed: int) -> FlowSender:
        source, target = self._clos.node(flow.source).index, self._clos.node(flow.target).index
        drawn = random.Random(f"{seed}/{load.name}/{flow.source}/{flow.target}/{flow.qp_index}")
        spec = self._clos.spec
        if shape.evs is not None:
            spec = spec.model_copy(update={"nic": spec.nic.model_copy(update={"evs": shape.evs})})

        def end(host: str, own: int, peer: int) -> QpEnd:
            attributes = {
                "window_packets": shape.window_packets or spec.nic.window_packets,
                "backup_per_plane": spec.backup_evs_per_plane,
                "pmtu_bytes": spec.nic.path_mtu,
                "seed": drawn.getrandbits(31),
            }
            evs = self._clos.ev_set(own, peer, spec.evs, drawn.getrandbits(31))
            return QpEnd(self._nics[host], peer, evs, attributes)

        return FlowSender(
            flow,
            end(flow.source, source, target),
            end(flow.target, target, source),
            layout,
            depth=load.depth,
            seed=drawn.getrandbits(16),
        )

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
        alive = dict(self._nics)
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_far, selectors.EVENT_READ)
            for nic in alive.values():
                selector.register(nic, selectors.EVENT_READ)
            is_news = False
            while True:
                # While one agent was asked for something, another's events may have been read along.
                selector.select(0 if is_news else None)
                if not self._obey():
                    return
                is_news, lost = self._take_events(alive)
                for host in lost:
                    selector.unregister(alive.pop(host))
                with self._changed:
                    for workload in self._workloads.values():
                        workload.advance()
                    self._changed.notify_all()

    def _obey(self) -> bool:
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
        return True

    def _take_events(self, alive: Mapping[str, NicConnection]) -> tuple[bool, list[str]]:
        """Books the events that wait: whether there were any, and the hosts whose agent is lost."""
        is_news = False
        lost: list[str] = []
        for host, nic in alive.items():
            try:
                for event in nic.drain_events():
                    is_news = True
                    self._book(host, event)
            except AgentError as error:
                lost.append(host)
                self._lose(host, error)
        return is_news, lost

    def _book(self, host: str, event: Mapping[str, Any]) -> None:
        sender = self._sender_of.get((host, event.get("qpn")))
        if sender is None:
            return
        try:
            sender.take_event(event)
        except TestbedError as error:
            sender.fail(error.message)

    def _lose(self, host: str, error: AgentError) -> None:
        reason = f"the NIC agent of {host} is lost: {error.message}"
        if self._lost_agent is None:
            self._lost_agent = AgentError(reason, hint="mrc-testbed status says which nodes still work")
        for sender in self._senders():
            if host in (sender.flow.source, sender.flow.target):
                sender.fail(reason)
