"""The messages of collective operations: which is posted when, and what an arrival brings about.

`Messages` is what all carriers share; `PostedMessages` posts from this process, through agents that may be
processes of their own. In virtual time the library posts them (mrc_testbed.virtual.messages).
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import Arrival, MemoryRegion, QueuePair
from mrc_testbed.errors import TestbedError
from mrc_testbed.workloads.collective_schedule import CollectiveSchedule
from mrc_testbed.workloads.element import Array, reduce_into
from mrc_testbed.workloads.element_type import ReduceOp

IMMEDIATE_MASK: Final = 0xFFFFFFFF

IN_FLIGHT_MAX: Final = 32
"""Messages of a connection that were posted and have not arrived: half of a QP's work ring, in which the
requests of those that have arrived stay until they are acknowledged."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of connections, memory of ranks, and the way in which it is reduced."""

    regions: Sequence[MemoryRegion]  # of each rank
    memory: Sequence[Array]  # the same as elements
    near: Sequence[QueuePair]  # the sending end of each connection
    far: Sequence[QueuePair]  # and the receiving end
    reduction: ReduceOp


class Messages(ABC):
    """The messages of operations, one operation after the other.

    Args:
        fail: called with a connection that cannot go on, and why.
    """

    def __init__(self, schedule: CollectiveSchedule, ends: Ends, fail: Callable[[int, str], None]) -> None:
        self._schedule = schedule
        self._ends = ends
        self._fail = fail
        self._carried = schedule.carried()
        self._followers = schedule.followers()
        self._operation = 0
        self._connection_of = {qp: index for index, qp in enumerate(ends.far)}
        self._item_bytes = ends.memory[0].itemsize
        self.outstanding = 0  # messages of the operation that have not arrived
        self.end_ns = 0  # when the latest of the others had been reduced
        self.last_connection = 0  # by which that one came
        self.reaction_ns = 0  # from arrivals to the end of what they brought about, added up

    @abstractmethod
    def begin(self, operation: int, now_ns: int) -> None:
        """Post what waits for nothing."""

    @abstractmethod
    def _arrived(self, transfer: int, time_ns: int) -> None:
        """Reduce a message, and post what waited for it."""

    @abstractmethod
    def advance(self) -> None:
        """Go on with what was done elsewhere."""

    @abstractmethod
    def close(self) -> None:
        """Expect nothing any more: the workload is over, or has failed."""

    def take(self, event: Arrival) -> None:
        """Book an arrival."""
        connection = self._connection_of[event.qp]
        carried = self._carried.of(connection)
        place = event.number - 1 - self._operation * len(carried)
        if not 0 <= place < len(carried):
            self._fail(connection, f"message {event.number} came in operation {self._operation}")
            return
        index = int(carried[place])
        length = int(self._schedule.transfers["count"][index]) * self._item_bytes
        if (event.immediate, event.length) != (self._operation & IMMEDIATE_MASK, length):
            self._fail(
                connection,
                f"message {event.number} has {event.length} bytes and immediate {event.immediate}; "
                f"{length} and {self._operation} were sent",
            )
            return
        self._arrived(index, event.time_ns)

    def _post(self, index: int) -> None:
        transfer = self._schedule.transfers[index]
        connection = int(transfer["connection"])
        between = self._schedule.connections[connection]
        try:
            self._ends.near[connection].send_write(
                self._ends.regions[between.source],
                self._ends.regions[between.target].remote,
                length=int(transfer["count"]) * self._item_bytes,
                local_at=int(transfer["source_start"]) * self._item_bytes,
                remote_at=int(transfer["target_start"]) * self._item_bytes,
                immediate=self._operation & IMMEDIATE_MASK,
            )
        except TestbedError as error:
            self._fail(connection, error.message)


class PostedMessages(Messages):
    """Messages that this process posts, and reduces when they have arrived."""

    def __init__(self, schedule: CollectiveSchedule, ends: Ends, fail: Callable[[int, str], None]) -> None:
        super().__init__(schedule, ends, fail)
        self._in_flight = [0] * len(schedule.connections)
        self._waiting: list[deque[int]] = [deque() for _ in schedule.connections]

    def begin(self, operation: int, now_ns: int) -> None:
        """Post what waits for nothing."""
        self._operation = operation
        self.outstanding = len(self._schedule.transfers)
        self.end_ns, self.reaction_ns = now_ns, 0
        for index in self._followers.of_none():
            self._send(int(index))

    def advance(self) -> None:
        """Do nothing: all is done here."""

    def close(self) -> None:
        """Do nothing: what still arrives is not taken."""

    def _send(self, index: int) -> None:
        """Post a message, or let it wait until one of its connection has arrived."""
        connection = self._schedule.transfers["connection"][index]
        if self._in_flight[connection] < IN_FLIGHT_MAX:
            self._in_flight[connection] += 1
            self._post(index)
        else:
            self._waiting[connection].append(index)

    def _arrived(self, transfer: int, time_ns: int) -> None:
        connection, _, start, count, reduce_start, _ = self._schedule.transfers[transfer].tolist()
        self._in_flight[connection] -= 1
        if self._waiting[connection]:
            self._send(self._waiting[connection].popleft())
        end_ns = time_ns
        if reduce_start >= 0:
            memory = self._ends.memory[self._schedule.connections[connection].target]
            reduce_into(
                memory[reduce_start : reduce_start + count],
                memory[start : start + count],
                self._ends.reduction,
            )
            end_ns = monotonic_ns()
        for follower in self._followers.of(transfer):
            self._send(int(follower))
        self.reaction_ns += monotonic_ns() - time_ns
        if end_ns >= self.end_ns:
            self.end_ns = end_ns
            self.last_connection = connection
        self.outstanding -= 1
