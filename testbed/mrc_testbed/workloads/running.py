"""Workloads while they run: what the engine's thread drives, and flows that start, stop and end together."""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from mrc_agents.nic.context import QueuePair
from mrc_testbed.errors import TestbedError
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import ProgramState, SharedWork
from mrc_testbed.workloads.sender import BatchRecord, FlowSender
from mrc_testbed.workloads.transport import Event


class RunningWorkload(Protocol):
    """A workload on a transport. Only the engine's thread changes it once it was prepared."""

    load: Load

    @property
    def program(self) -> ProgramState | None:
        """The state of a program; None: it is none, or was not started."""
        return None

    @property
    def is_over(self) -> bool:
        """Return True if every message has completed, or it has failed."""

    @property
    def is_under_way(self) -> bool:
        """Return True if it was started and is not over."""

    @property
    def deadline_ns(self) -> int | None:
        """When it wants to go on without an event; None: never."""
        return None

    def prepare(self) -> None:
        """Registers memory and connects."""

    def qps(self) -> Iterable[QueuePair]:
        """The ends whose events are its own."""
        return ()

    def senders(self) -> Mapping[Flow, QueuePair]:
        """The sending end of each flow of the plan."""
        return {}

    def start(self) -> None: ...

    def stop(self) -> None:
        """Posts nothing more; it is over when what has begun has completed."""

    def give_up(self, reason: str) -> None:
        """Fails what is still under way."""

    def take(self, event: Event) -> None:
        """Books an event of one of its ends."""

    def lose(self, host: str, reason: str) -> None:
        """Fails what needs a host that is lost."""

    def advance(self, now_ns: int) -> None:
        """Goes on, after events were taken or its deadline came."""

    def outcomes(self) -> list[FlowOutcome]:
        """The outcome of each flow so far."""
        return []

    def batches(self) -> Mapping[Flow, Sequence[BatchRecord]]:
        """Finished batches of independent flows, oldest first; empty for what has none."""
        return {}

    def operations(self) -> Sequence[OperationRecord]:
        """Operations completed, oldest first; empty for what has none."""
        return ()

    def close(self) -> list[TestbedError]:
        """Free all resources; returns the errors."""


class BookedWorkload(RunningWorkload):
    """A workload of operations or steps, which are booked and shown to those who watch the lab.

    Args:
        load: the workload.
        work: the same as ranks see it.
        on_operation: receives each operation or step, and the end.
    """

    def __init__(self, load: Load, work: SharedWork, on_operation: OperationPublisher | None = None) -> None:
        self.load = load
        self._work = work
        self._on_operation = on_operation
        self._records: list[OperationRecord] = []

    def operations(self) -> Sequence[OperationRecord]:
        return list(self._records)

    def _book(self, records: Iterable[OperationRecord]) -> None:
        for record in records:
            self._records.append(record)
            if self._on_operation is not None:
                self._on_operation.completed(self.load.name, self._work, record)

    def _publish_end(self) -> None:
        if self._on_operation is not None:
            self._on_operation.ended(self.load.name)


class _Phase(enum.Enum):
    PREPARED = enum.auto()
    SENDING = enum.auto()
    OVER = enum.auto()


class RunningFlows(RunningWorkload):
    """A workload of independent flows."""

    def __init__(self, load: Load, senders: Mapping[Flow, FlowSender]) -> None:
        self.load = load
        self._senders = dict(senders)
        self._of_qp: dict[QueuePair, FlowSender] = {}
        self._phase = _Phase.PREPARED

    @property
    def is_over(self) -> bool:
        return self._phase is _Phase.OVER

    @property
    def is_under_way(self) -> bool:
        return self._phase is _Phase.SENDING

    def prepare(self) -> None:
        for sender in self._senders.values():
            sender.prepare()
            self._of_qp[sender.qp] = sender

    def qps(self) -> Iterable[QueuePair]:
        """The sending ends."""
        return self._of_qp

    def senders(self) -> Mapping[Flow, QueuePair]:
        return {flow: sender.qp for flow, sender in self._senders.items()}

    def start(self) -> None:
        """Begins to send: the iterations, or without end."""
        self._phase = _Phase.SENDING
        self._each(lambda sender: sender.start(self.load.iterations))

    def stop(self) -> None:
        self._each(lambda sender: sender.stop())

    def give_up(self, reason: str) -> None:
        """Fails every flow that is still under way."""
        for sender in self._senders.values():
            if not sender.is_idle:
                sender.fail(reason)
        self.advance(0)

    def take(self, event: Event) -> None:
        """Books an event of a sending end; a flow whose transport refuses something has failed."""
        sender = self._of_qp[event.qp]  # type: ignore[union-attr] # HostLost goes to lose()
        try:
            sender.take(event)
        except TestbedError as error:
            sender.fail(error.message)

    def lose(self, host: str, reason: str) -> None:
        """Fails the flows from and to a host."""
        for flow, sender in self._senders.items():
            if host in (flow.source, flow.target):
                sender.fail(reason)

    def advance(self, now_ns: int) -> None:  # noqa: ARG002 - flows go on by events alone
        """Notes the end of the workload when nothing of it is under way any more."""
        if self.is_under_way and all(sender.is_idle for sender in self._senders.values()):
            self._phase = _Phase.OVER

    def outcomes(self) -> list[FlowOutcome]:
        return [sender.outcome() for sender in self._senders.values()]

    def batches(self) -> Mapping[Flow, Sequence[BatchRecord]]:
        return {flow: list(sender.batches) for flow, sender in self._senders.items()}

    def close(self) -> list[TestbedError]:
        failures = []
        for sender in self._senders.values():
            try:
                sender.close()
            except TestbedError as error:
                failures.append(error)
        return failures

    def _each(self, work: Callable[[FlowSender], None]) -> None:
        """Does *work* with every flow that has not failed; one that refuses has failed."""
        for sender in self._senders.values():
            if sender.error is not None:
                continue
            try:
                work(sender)
            except TestbedError as error:
                sender.fail(error.message)
