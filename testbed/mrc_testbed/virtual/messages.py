"""Messages of collective operations in virtual time: the library posts and reduces them.

It is given a schedule once, and says when an operation is over. Python posts what the agent of a NIC has to
hold or refuse, and takes the arrivals that an agent has held.
"""

from collections.abc import Callable
from ctypes import addressof
from typing import Final

import numpy as np

from mrc_agents.abi import CollReduction, CollType, ScheduleConnection, VirtualSchedule
from mrc_agents.nic.context import QueuePair
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.errors import AgentError
from mrc_testbed.virtual.lab import VirtualLab
from mrc_testbed.workloads.collective_kind import RankConnection
from mrc_testbed.workloads.collective_schedule import CollectiveSchedule
from mrc_testbed.workloads.messages import IMMEDIATE_MASK, IN_FLIGHT_MAX, Ends, Messages

_TYPES: Final = {
    "uint8": CollType.U8,
    "int32": CollType.I32,
    "int64": CollType.I64,
    "float32": CollType.F32,
    "float64": CollType.F64,
}


class LibraryMessages(Messages):
    """Messages that the library posts."""

    def __init__(
        self, schedule: CollectiveSchedule, ends: Ends, fail: Callable[[int, str], None], lab: VirtualLab
    ) -> None:
        super().__init__(schedule, ends, fail)
        self._lab = lab
        made = map(self._connection, schedule.connections, ends.near, ends.far)
        self._connections = (ScheduleConnection * len(schedule.connections))(*made)
        self._next = np.zeros(len(schedule.transfers), np.uint32)
        self._shared = VirtualSchedule(
            transfers=schedule.transfers.ctypes.data,
            connections=addressof(self._connections),
            carried_first=self._carried.first.ctypes.data,
            carried_members=self._carried.members.ctypes.data,
            follower_first=self._followers.first.ctypes.data,
            follower_members=self._followers.members.ctypes.data,
            next=self._next.ctypes.data,
            transfer_count=len(schedule.transfers),
            connection_count=len(schedule.connections),
            element=_TYPES[ends.memory[0].dtype.name],
            reduction=CollReduction[ends.reduction.upper()],
            in_flight_max=IN_FLIGHT_MAX,
        )
        lab.runtime.expect(self._shared, is_expected=True)

    def begin(self, operation: int, now_ns: int) -> None:
        """Post what waits for nothing."""
        self._operation = operation
        self._shared.operation = operation & IMMEDIATE_MASK
        self._shared.end_ns, self._shared.reaction_ns = now_ns, 0
        self._lab.runtime.begin_operation(self._shared)
        self.advance()

    def advance(self) -> None:
        """Post what the library leaves to an agent; look how far it has come."""
        place, self._shared.unposted[0] = self._shared.unposted[0], 0
        while place:  # one more than the transfer's
            self._post(place - 1)
            place = int(self._next[place - 1])
        for name in ("outstanding", "end_ns", "last_connection", "reaction_ns"):
            setattr(self, name, getattr(self._shared, name))

    def close(self) -> None:
        """Have the library forget the schedule."""
        self._lab.runtime.expect(self._shared, is_expected=False)

    def _arrived(self, transfer: int, time_ns: int) -> None:
        self._lab.runtime.take_arrival(self._shared, transfer, time_ns)
        self.advance()

    def _connection(self, between: RankConnection, near: QueuePair, far: QueuePair) -> ScheduleConnection:
        source, target = self._ends.regions[between.source], self._ends.regions[between.target]
        reactions = self._lab.agent(near.host).reactions
        if reactions is None:
            raise AgentError(f"the NIC agent of {near.host} died")
        window_packets, pmtu_bytes = reactions.verbs.sending_of(near.qpn)
        return ScheduleConnection(
            target_address=target.address,
            source_nic=near.context.host_index,
            source_qp=qp_index(near.qpn),
            target_nic=far.context.host_index,
            target_qp=qp_index(far.qpn),
            local_offset=source.offset,
            r_key=target.remote.r_key,
            window_packets=window_packets,
            pmtu_bytes=pmtu_bytes,
        )
