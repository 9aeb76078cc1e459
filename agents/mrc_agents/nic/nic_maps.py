"""The maps that a program reads of a NIC without its agent: memory, and what QPs had acknowledged."""

from contextlib import ExitStack
from functools import partial

from mrc_agents.abi import Qp, RcQp
from mrc_agents.bpf.libbpf import Pins, open_map_in
from mrc_agents.bpf.maps import ArrayMap
from mrc_agents.closing import Holder
from mrc_agents.nic.device import open_memory
from mrc_agents.nic.work_queue import qp_index


class NicMaps(Holder):
    def __init__(self, pins: Pins) -> None:
        with ExitStack() as opened:
            descriptor = partial(open_map_in, opened, pins)
            self.memory = open_memory(opened, pins)
            self._qps = ArrayMap(descriptor("qps"), Qp)
            self._rc_qps = ArrayMap(descriptor("rc_qps"), RcQp)
            self._opened = opened.pop_all()

    def acknowledged_bytes(self, qpn: int) -> int:
        """Payload that a QP had acknowledged for the first time, of whichever transport it is."""
        index = qp_index(qpn)
        return int(self._qps.peek(index).comp.acked_bytes + self._rc_qps.peek(index).req.acked_bytes)
