"""The state that all verbs of one NIC work on: its maps, its memory regions, its QPs."""

from ctypes import addressof, memset, sizeof

from mrc_agents.abi import Limit, Qp, QpState, RcQp
from mrc_agents.errors import UsageError
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.denylist import Denylist
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_profile import EvProfile
from mrc_agents.nic.memory import RegionTable
from mrc_agents.nic.qp import MrcQueuePair
from mrc_agents.nic.qp_numbers import QpNumbers
from mrc_agents.nic.rc_qp import RcQueuePair
from mrc_agents.nic.work_queue import is_under_way, qp_index


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
        self._denylist = Denylist()
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

    def _profile(self, profile_id: int) -> EvProfile:
        if profile_id not in self._profiles:
            raise UsageError(f"profile_id: EV profile {profile_id} is INIT")
        return self._profiles[profile_id]
