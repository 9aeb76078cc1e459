"""The messages of collective operations: which is posted when, and what an arrival brings about.

The library of virtual time goes by the schedule. Messages of its own NICs it posts and takes itself, and says
when an operation is over; those of a live lab, and what an agent has to hold or refuse, are posted here.
"""

from collections.abc import Callable, Sequence
from ctypes import addressof
from typing import Final

import numpy as np

from mrc_agents.abi import CollReduction, CollType, MessageSchedule, ScheduleConnection
from mrc_agents.bpf.virtual import NO_NIC, VirtualRuntime
from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import Arrival, MemoryRegion, QueuePair
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.errors import TestbedError
from mrc_testbed.workloads.collective import ELEMENT_BYTES, Collective, DType, RankConnection
from mrc_testbed.workloads.collective_schedule import CollectiveSchedule
from mrc_testbed.workloads.transport import Transport

IN_FLIGHT_MAX: Final = 32
"""Messages of a connection that were posted and have not arrived: half of a QP's work ring, in which the
requests of those that have arrived stay until they are acknowledged."""

_TYPES: Final[dict[DType, CollType]] = {
    "uint8": CollType.U8,
    "int32": CollType.I32,
    "int64": CollType.I64,
    "float32": CollType.F32,
    "float64": CollType.F64,
}


class Messages:
    """The messages of operations, one operation after the other.

    Args:
        regions: of each rank.
        ends: the QPs of each connection, the sending one first.
        fail: called with a connection that cannot go on, and why.
    """

    def __init__(
        self,
        schedule: CollectiveSchedule,
        collective: Collective,
        regions: Sequence[MemoryRegion],
        ends: Sequence[tuple[QueuePair, QueuePair]],
        transport: Transport,
        fail: Callable[[int, str], None],
    ) -> None:
        self._schedule, self._transport, self._fail = schedule, transport, fail
        self._regions, self._ends = regions, ends
        self._runtime = VirtualRuntime()
        self._item_bytes = ELEMENT_BYTES[collective.dtype]
        self._connection_of = {far: index for index, (_, far) in enumerate(ends)}
        made = map(self._made, schedule.connections, ends)
        self._connections = (ScheduleConnection * len(ends))(*made)
        self._carried, followers = schedule.carried(), schedule.followers()
        self._next = np.zeros(len(schedule.transfers), np.uint32)
        self._arrays = (followers.first, followers.members)  # the library has their addresses alone
        self.state = MessageSchedule(
            transfers=schedule.transfers.ctypes.data,
            connections=addressof(self._connections),
            carried_first=self._carried.first.ctypes.data,
            carried_members=self._carried.members.ctypes.data,
            follower_first=followers.first.ctypes.data,
            follower_members=followers.members.ctypes.data,
            next=self._next.ctypes.data,
            transfer_count=len(schedule.transfers),
            connection_count=len(schedule.connections),
            element=_TYPES[collective.dtype],
            reduction=CollReduction[collective.reduction.upper()],
            in_flight_max=IN_FLIGHT_MAX,
        )  # how far the operation has come
        self._runtime.expect(self.state, is_expected=True)

    def begin(self, operation: int, now_ns: int) -> None:
        """Post what waits for nothing."""
        self.state.operation = operation
        self.state.end_ns, self.state.reaction_ns = now_ns, 0
        self._runtime.begin_operation(self.state)
        self.advance()

    def advance(self) -> None:
        """Post what the library leaves to this process."""
        place, self.state.unposted[0] = self.state.unposted[0], 0
        while place:  # one more than the transfer's
            self._post(place - 1)
            place = int(self._next[place - 1])

    def close(self) -> None:
        """Expect nothing any more: the workload is over, or has failed."""
        self._runtime.expect(self.state, is_expected=False)

    def take(self, event: Arrival) -> None:
        """Book an arrival."""
        state, connection = self.state, self._connection_of[event.qp]
        carried = self._carried.of(connection)
        # numbers and operations are of 32 bits
        place = event.number - 1 - state.operation * len(carried) & 0xFFFFFFFF
        if not place < len(carried):
            self._fail(connection, f"message {event.number} came in operation {state.operation}")
            return
        transfer = self._schedule.transfers[carried[place]]
        length = int(transfer["count"]) * self._item_bytes
        if (event.immediate, event.length) != (state.operation, length):
            self._fail(
                connection,
                f"message {event.number} has {event.length} bytes and immediate {event.immediate}; "
                f"{length} and {state.operation} were sent",
            )
            return
        self._runtime.take_arrival(state, int(carried[place]))
        end_ns = event.time_ns if transfer["reduce_start"] < 0 else monotonic_ns()
        self.advance()
        state.reaction_ns += monotonic_ns() - event.time_ns
        if end_ns >= state.end_ns:
            state.end_ns, state.last_connection = end_ns, connection

    def _post(self, index: int) -> None:
        connection, source_start, target_start, count, *_ = self._schedule.transfers[index].tolist()
        between = self._schedule.connections[connection]
        try:
            self._ends[connection][0].send_write(
                self._regions[between.source],
                self._regions[between.target].remote,
                length=count * self._item_bytes,
                local_at=source_start * self._item_bytes,
                remote_at=target_start * self._item_bytes,
                immediate=self.state.operation,
            )
        except TestbedError as error:
            self._fail(connection, error.message)

    def _made(self, between: RankConnection, ends: tuple[QueuePair, QueuePair]) -> ScheduleConnection:
        near, far = ends
        source, target = self._regions[between.source], self._regions[between.target]
        made = ScheduleConnection(target_address=target.address, source_nic=NO_NIC)
        sending = self._transport.sending_of(near)
        if sending is not None:
            made.source_nic, made.target_nic = near.context.host_index, far.context.host_index
            made.source_qp, made.target_qp = qp_index(near.qpn), qp_index(far.qpn)
            made.window_packets, made.pmtu_bytes = sending
            made.local_offset, made.r_key = source.offset, target.remote.r_key
        return made
