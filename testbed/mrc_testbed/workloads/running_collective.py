"""A collective on a transport: all its ranks, driven from this process by the arrival of their messages.

Nothing is copied on the way: messages go from one NIC's memory into another's, and what arrives is reduced
where it lies. An operation begins when the one before it has ended at all ranks and was compared; comparing
and writing new inputs is not part of its time. In training they are done while the step computes.
"""

import enum
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from random import Random

import numpy as np

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import RECEIVES_MAX, Arrival, MemoryRegion, QpError, QueuePair
from mrc_testbed.errors import TestbedError
from mrc_testbed.workloads.collective import ELEMENT_BYTES, Collective
from mrc_testbed.workloads.collective_schedule import build_schedule
from mrc_testbed.workloads.element import Array, Inputs
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.messages import Messages
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.running import BookedWorkload
from mrc_testbed.workloads.transport import Event, Transport


class _Phase(enum.Enum):
    PREPARED = enum.auto()
    COMPUTING = enum.auto()
    COMMUNICATING = enum.auto()
    OVER = enum.auto()


class RunningCollective(BookedWorkload):
    """A collective workload.

    Args:
        load: its flows are the schedule's connections.
        seed: of inputs and connections.
    """

    def __init__(
        self,
        load: Load,
        collective: Collective,
        transport: Transport,
        seed: int,
        on_operation: OperationPublisher | None = None,
    ) -> None:
        super().__init__(load, collective, on_operation)
        self._collective = collective
        self._transport = transport
        self._random = Random(seed)
        self._schedule = schedule = build_schedule(
            collective.kind,
            ranks=len(collective.ranks),
            count=collective.count,
            element_bytes=ELEMENT_BYTES[collective.dtype],
            channels=collective.channels,
            root=collective.root,
        )
        self._held = ExitStack()
        self._regions: list[MemoryRegion] = []
        self._memory: list[Array] = []
        self._ends: list[tuple[QueuePair, QueuePair]] = []
        self._connection_of: dict[QueuePair, int] = {}
        self._inputs: Inputs | None = None
        self._phase = _Phase.PREPARED
        self._left: int | None = None
        self._messages: Messages | None = None
        self._operation = 0
        self._step_begin_ns = self._begin_ns = self._end_ns = 0
        self._first_begin_ns = 0
        count = len(schedule.connections)
        # messages and bytes that each connection carries in an operation
        self._carried = np.bincount(schedule.transfers["connection"], minlength=count)
        elements = np.zeros(count, np.int64)
        np.add.at(elements, schedule.transfers["connection"], schedule.transfers["count"])
        self._carried_bytes = elements * ELEMENT_BYTES[collective.dtype]
        self._compared_bytes = [0] * count
        self._wrong_bytes = [0] * count
        self._errors: dict[int, str] = {}
        compute_ns = collective.compute_ns  # of each rank in each step
        self._computed_ns = None if compute_ns is None else (compute_ns,) * len(collective.ranks)

    # ---- set-up and removal

    def prepare(self) -> None:
        """Registers each rank's memory and connects the ranks."""
        collective, schedule = self._collective, self._schedule
        for host in collective.ranks:
            region = self._transport.register(host, collective.memory_bytes())
            self._held.callback(region.close)
            self._regions.append(region)
            memory = np.frombuffer(region.view, dtype=collective.dtype)
            self._memory.append(memory[: schedule.memory_count])
        for index, between in enumerate(schedule.connections):
            source, target = collective.ranks[between.source], collective.ranks[between.target]
            near, far = self._transport.connect(source, target, self._random.getrandbits(31))
            self._held.callback(far.close)
            self._held.callback(near.close)
            far.post_receive(RECEIVES_MAX)
            self._ends.append((near, far))
            self._connection_of[near] = self._connection_of[far] = index
        self._messages = Messages(
            schedule, collective, self._regions, self._ends, self._transport, self._fail
        )
        self._held.callback(self._messages.close)
        self._inputs = Inputs(
            len(collective.ranks), collective.dtype, collective.reduction, self._random.getrandbits(31)
        )

    def close(self) -> list[TestbedError]:
        try:
            self._held.close()
        except TestbedError as error:
            return [error]
        return []

    # ---- what it is

    @property
    def is_over(self) -> bool:
        """Return True if all its operations have ended, or it has failed."""
        return self._phase is _Phase.OVER

    @property
    def is_under_way(self) -> bool:
        return self._phase in (_Phase.COMPUTING, _Phase.COMMUNICATING)

    @property
    def deadline_ns(self) -> int | None:
        """When the step has computed."""
        if self._phase is not _Phase.COMPUTING:
            return None
        return self._step_begin_ns + (self._collective.compute_ns or 0)

    def qps(self) -> Iterable[QueuePair]:
        """Both ends of every connection."""
        return self._connection_of

    def senders(self) -> Mapping[Flow, QueuePair]:
        return dict(zip(self.load.flows, (near for near, _ in self._ends), strict=True))

    # ---- what the engine asks

    def start(self) -> None:
        self._left = self.load.iterations
        self._first_begin_ns = self._end_ns = monotonic_ns()
        self._begin_step()

    def stop(self) -> None:
        """Lets the operation under way end, and begins no other."""
        self._left = 0
        if self._phase is _Phase.COMPUTING:
            self._end()

    def give_up(self, reason: str) -> None:
        """Fails the operation that is under way."""
        if self.is_under_way:
            self._fail(0, reason)

    def take(self, event: Event) -> None:
        """Books an arrival, or the failure of a connection."""
        if not self.is_under_way:
            return
        match event:
            case Arrival():
                self._carrier.take(event)
                self._look()
            case QpError(qp=qp, reason=reason):
                self._fail(self._connection_of[qp], reason)

    def lose(self, host: str, reason: str) -> None:
        """Fails the workload if one of its ranks is on that host."""
        for index, flow in enumerate(self.load.flows):
            if host in (flow.source, flow.target) and self.is_under_way:
                self._fail(index, reason)

    def advance(self, now_ns: int) -> None:
        """Begins to communicate when the step has computed; goes on with what was done elsewhere."""
        deadline_ns = self.deadline_ns
        if deadline_ns is not None and now_ns >= deadline_ns:
            self._communicate()
        elif self._phase is _Phase.COMMUNICATING:
            self._carrier.advance()
            self._look()

    # ---- results

    def outcomes(self) -> list[FlowOutcome]:
        done = len(self._records)
        return [
            FlowOutcome(
                flow=flow,
                qpn=self._ends[index][0].qpn if self._ends else 0,
                start_ns=self._first_begin_ns,
                end_ns=self._end_ns,
                messages=done * int(self._carried[index]),
                payload_bytes=done * int(self._carried_bytes[index]),
                compared_bytes=self._compared_bytes[index],
                wrong_bytes=self._wrong_bytes[index],
                error=self._errors.get(index),
            )
            for index, flow in enumerate(self.load.flows)
        ]

    # ---- one step after the other

    def _begin_step(self) -> None:
        if self._left == 0:
            self._end()
            return
        if self._left is not None:
            self._left -= 1
        self._step_begin_ns = self._end_ns
        for rank, start, count in self._schedule.inputs:
            self._require_inputs().fill(
                self._memory[rank][start : start + count], start, rank, self._operation
            )
        if self._collective.is_training:
            self._phase = _Phase.COMPUTING
        else:
            self._communicate()

    def _communicate(self) -> None:
        self._phase = _Phase.COMMUNICATING
        self._begin_ns = monotonic_ns()
        if not self._collective.is_training:
            self._step_begin_ns = self._begin_ns
        self._carrier.begin(self._operation, self._end_ns)

    def _look(self) -> None:
        """Finish the operation when all of its messages have arrived."""
        if self._phase is _Phase.COMMUNICATING and not self._carrier.state.outstanding:
            self._finish_operation()

    def _finish_operation(self) -> None:
        messages = self._carrier.state
        self._end_ns = messages.end_ns
        compared_bytes = wrong_bytes = 0
        for interval in self._schedule.results:
            found = self._memory[interval.rank][interval.start : interval.start + interval.count]
            wrong = self._require_inputs().count_wrong(
                found, interval.origin_start, interval.origin, self._operation
            )
            compared_bytes += found.nbytes
            wrong_bytes += wrong
            self._compared_bytes[interval.connection] += found.nbytes
            self._wrong_bytes[interval.connection] += wrong
        self._book(
            [
                OperationRecord(
                    step_begin_ns=self._step_begin_ns,
                    begin_ns=self._begin_ns,
                    end_ns=self._end_ns,
                    reaction_ns=messages.reaction_ns // len(self._schedule.transfers),
                    compared_bytes=compared_bytes,
                    wrong_bytes=wrong_bytes,
                    last_rank=self._collective.ranks[
                        self._schedule.connections[messages.last_connection].target
                    ],
                    computed_ns=self._computed_ns,
                )
            ]
        )
        self._operation += 1
        self._begin_step()

    def _fail(self, connection: int, reason: str) -> None:
        self._errors.setdefault(connection, reason)
        self._end_ns = max(self._end_ns, monotonic_ns())
        self._carrier.close()
        self._end()

    def _end(self) -> None:
        self._publish_end()
        self._phase = _Phase.OVER

    @property
    def _carrier(self) -> Messages:
        if self._messages is None:
            raise ValueError("not prepared")
        return self._messages

    def _require_inputs(self) -> Inputs:
        if self._inputs is None:
            raise ValueError("not prepared")
        return self._inputs
