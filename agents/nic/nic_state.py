"""What all verbs of one NIC work on: its maps, its memory regions, its QPs."""

from agents.nic.config import AgentConfig
from agents.nic.denylist import Denylist
from agents.nic.device import NicDevice
from agents.nic.ev_profile import EvProfile
from agents.nic.memory import RegionTable
from agents.nic.qp import QueuePair
from agents.nic.rc_qp import RcQueuePair
from agents.nic.stream import Stream
from agents.nic.work_queue import WorkQueue
from agents.wire_abi import Limit, Qp, QpState, RcQp
from testbed.errors import UsageError


class NicState:
    """The state behind one agent's socket; the classes of verbs derive from it.

    An agent begins with a NIC that does nothing: QPs that one before it left behind are reset.
    """

    def __init__(self, config: AgentConfig, device: NicDevice) -> None:
        self._config = config
        self._device = device
        self._regions = RegionTable(device)
        self._qps: dict[int, QueuePair] = {}
        self._profiles: dict[int, EvProfile] = {}
        self._denylist = Denylist()
        self._rc_qps: dict[int, RcQueuePair] = {}
        self._streams: dict[int, Stream] = {}
        for index in range(device.qp_count):
            if device.qps.read(index).state != QpState.RESET:
                device.qps.write(index, Qp(state=QpState.RESET))
            if device.rc_qps.read(index).state != QpState.RESET:
                device.rc_qps.write(index, RcQp(state=QpState.RESET))

    def _free_index(self) -> int:
        """Index of a QP that no transport uses.

        Raises:
            UsageError: there is none.
        """
        used = self._qps.keys() | self._rc_qps.keys() | self._streams.keys()
        index = next((i for i in range(self._device.qp_count) if i not in used), None)
        if index is None:
            raise UsageError(f"all {self._device.qp_count} QPs of the NIC are in use")
        return index

    def sending(self) -> list[int]:
        """Indices of the QPs in the NIC, of any transport, that have work under way."""
        queues = (*self._qps.values(), *self._rc_qps.values())
        return [qp.index for qp in queues if qp.state == QpState.RTS and qp.posted]

    def _queue(self, qpn: int) -> WorkQueue:
        """A QP of any transport."""
        index = qpn - Limit.QPN_BASE
        if index in self._streams:
            return self._streams[index].queue
        qp = self._rc_qps.get(index)
        return self._find(qpn) if qp is None else qp

    def _find(self, qpn: int) -> QueuePair:
        qp = self._qps.get(qpn - Limit.QPN_BASE)
        if qp is None:
            raise UsageError(f"qpn: no QP {qpn}")
        return qp

    def _profile(self, profile_id: int) -> EvProfile:
        if profile_id not in self._profiles:
            raise UsageError(f"profile_id: no EV profile {profile_id}")
        return self._profiles[profile_id]
