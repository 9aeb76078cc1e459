"""The state that all verbs of one NIC work on: its maps, its memory regions, its QPs."""

from collections import deque
from collections.abc import Callable
from ctypes import addressof, memset, sizeof
from typing import Final

from mrc_agents.abi import Limit, Qp, QpState, RcQp
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.denylist import DeniedPath
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_profile import EvProfile
from mrc_agents.nic.memory import RegionTable
from mrc_agents.nic.qp import MrcQueuePair
from mrc_agents.nic.rc_qp import RcQueuePair
from mrc_agents.nic.work_queue import is_under_way, qp_index

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
            # The turns of an index are used by halves: while one is, packets for the other one die out
            now_ns = monotonic_ns()
            began_ns = self._half_began_ns[index]
            if began_ns is not None and now_ns - began_ns < self._lifetime_ns:
                left_seconds = (self._lifetime_ns - (now_ns - began_ns)) / 1e9
                raise UsageError(
                    f"packets may be on their way for every number of the QP at index {index}",
                    hint=f"{_HALF_TURNS} QPs were made there; the next one in {left_seconds:.1f} s",
                )
            self._half_began_ns[index] = now_ns
        ring.turn = turn
        return turn << Limit.QP_INDEX_BITS | index


class NicState:
    """The state behind one agent's socket; the classes of verbs derive from it.

    An agent begins with a NIC that does nothing: QPs that one before it left behind are reset.
    """

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        self._config = config
        self._device = device
        self._regions = RegionTable(device, config.packet_lifetime_ns)
        self.memory_grace = self._regions.grace  # in which memory rests that was given back
        self.numbers = QpNumbers(device, config.packet_lifetime_ns)  # those of the QPs
        self._qps: dict[int, MrcQueuePair] = {}
        self._profiles: dict[int, EvProfile] = {}
        self._denylist: list[DeniedPath] = []  # in the order they were added
        self._rc_qps: dict[int, RcQueuePair] = {}
        for index in range(device.qp_count):
            if device.qps.peek(index).state != QpState.RESET:
                device.qps.write(index, Qp(state=QpState.RESET))
            if device.rc_qps.peek(index).state != QpState.RESET:
                device.rc_qps.write(index, RcQp(state=QpState.RESET))
        device.await_runs()

    def sending(self) -> list[int]:
        """Indices of the QPs in the NIC, of any transport, that have work under way."""
        queues = (*self._qps.values(), *self._rc_qps.values())
        return [qp.index for qp in queues if qp.state == QpState.RTS and self._has_work(qp.index)]

    def _has_work(self, index: int) -> bool:
        """Return True if the last request in a QP's ring is under way, or an application may post."""
        ring = self._device.work[index]
        return is_under_way(ring.entries[(ring.tail - 1) % Limit.WORK_RING]) or any(ring.notify)

    def _empty_ring(self, index: int) -> None:
        """Reset a QP's ring to empty; only its turn continues."""
        ring = self._device.work[index]
        turn = ring.turn
        memset(addressof(ring), 0, sizeof(ring))
        ring.turn = turn

    def posted(self, qpn: int) -> list[int]:
        """Ids of a QP's work requests that have not completed."""
        return list(self._queue(qpn).posted)

    def _queue(self, qpn: int) -> MrcQueuePair | RcQueuePair:
        return self._find_rc(qpn) or self._find(qpn)

    def _find_rc(self, qpn: int) -> RcQueuePair | None:
        qp = self._rc_qps.get(qp_index(qpn))
        return qp if qp is not None and qp.qpn == qpn else None

    def _find(self, qpn: int) -> MrcQueuePair:
        qp = self._qps.get(qp_index(qpn))
        if qp is None or qp.qpn != qpn:
            raise UsageError(f"qpn: no QP {qpn}")
        return qp

    def _is_denied(self, ev: int, peer_host: int) -> bool:
        """Return True if an EV of a QP to *peer_host* takes any path of the denylist."""
        return any(path.covers(ev, peer_host) for path in self._denylist)

    def _profile(self, profile_id: int) -> EvProfile:
        if profile_id not in self._profiles:
            raise UsageError(f"profile_id: EV profile {profile_id} is INIT")
        return self._profiles[profile_id]
