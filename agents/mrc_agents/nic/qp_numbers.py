"""Numbers of QPs: handed out in turn, so that none returns while packets for it may be on their way."""

from collections import deque
from collections.abc import Callable
from typing import Final

from mrc_agents.abi import Limit
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.work_queue import qp_index

_HALF_TURNS: Final = Limit.QP_TURNS // 2


class QpNumbers:
    """The QP numbers of one NIC, of every transport (docs/reference/protocol.md, "QP numbers").

    The turn of an index is kept in the NIC's work ring, so an agent goes on where the one before it stopped.

    Args:
        lifetime_ns: for so long after a QP has ended packets for it may arrive.
    """

    def __init__(self, device: NicDevice, lifetime_ns: int) -> None:
        # takes the events that wait, before an index is used again
        self.take_events: Callable[[], None] = lambda: None
        self._device = device
        self._lifetime_ns = lifetime_ns
        self._free = deque(range(device.qp_count))
        now_ns = monotonic_ns()
        self._half_began_ns = [now_ns if device.work[index].turn else None for index in self._free]
        self._are_runs_awaited = True

    def take(self) -> int:
        """A number whose index has been free for longest."""
        if not self._free:
            raise UsageError(f"all {self._device.qp_count} QPs of the NIC are in use")
        qpn = self._next(self._free[0])
        self._free.popleft()
        return qpn

    def release(self, qpn: int) -> None:
        """The QP of that number is in RESET for good."""
        self._are_runs_awaited = False
        self._free.append(qp_index(qpn))

    def renew(self, qpn: int) -> int:
        """Another number for a QP in RESET, which keeps its index."""
        self._are_runs_awaited = False
        return self._next(qp_index(qpn))

    def _next(self, index: int) -> int:
        if not self._are_runs_awaited:
            # A CPU may still be working at a packet of the QP that was here.
            self._device.await_runs()
            self._are_runs_awaited = True
            self.take_events()
        ring = self._device.work[index]
        turn = ring.turn % (Limit.QP_TURNS - 1) + 1
        if turn in {1, _HALF_TURNS}:
            self._enter_half(index)
        ring.turn = turn
        return turn << Limit.QP_INDEX_BITS | index

    def _enter_half(self, index: int) -> None:
        """The turns of an index are used by halves: while one is, packets for the other one die out."""
        now_ns = monotonic_ns()
        began_ns = self._half_began_ns[index]
        if began_ns is not None and now_ns - began_ns < self._lifetime_ns:
            left_seconds = (self._lifetime_ns - (now_ns - began_ns)) / 1e9
            raise UsageError(
                f"packets may be on their way for every number of the QP at index {index}",
                hint=f"{_HALF_TURNS} QPs were made there; the next one in {left_seconds:.1f} s",
            )
        self._half_began_ns[index] = now_ns
