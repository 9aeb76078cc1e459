"""Which EVs of which QPs to notify of, or to probe, when ports come and go."""

from collections.abc import Iterable

from mrc_agents.abi import EvState
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.qp import CONNECTED


class PathWatch(NicState):
    """Peers of the NIC, and EVs that lead to them."""

    def peers(self) -> set[int]:
        """Hosts that a QP of ours receives from or sends to."""
        return {qp.attributes.peer_host for qp in self._qps.values() if qp.state in CONNECTED}

    def peer_of(self, qp_index: int) -> int | None:
        """The host a QP is connected to; None when it is not."""
        qp = self._qps.get(qp_index)
        return qp.attributes.peer_host if qp is not None and qp.state in CONNECTED else None

    def port_status_targets(self, peers: Iterable[int]) -> list[tuple[int, int]]:
        """For each peer and each plane whose port works, an EV of a QP to it, as (QP index, EV index)."""
        config = self._device.config
        found = []
        for peer in peers:
            qp = next((qp for qp in self._qps.values() if self.peer_of(qp.index) == peer), None)
            if qp is None:
                continue
            per_plane = len(qp.attributes.evs) // config.plane_count
            value = self._device.qps.peek(qp.index)
            for plane in range(config.plane_count):
                if self._device.control.port_up_mask >> plane & 1:
                    indices = range(plane * per_plane, (plane + 1) * per_plane)
                    # One that works, else any: the update is repeated until it is answered.
                    best = min((value.evs.ev[index].state, index) for index in indices)[1]
                    found.append((qp.index, best))
        return found

    def bad_evs(self, plane_mask: int, peer_host: int | None) -> list[tuple[int, int]]:
        """EVs of some planes that are ASSUMED_BAD, as (QP index, EV index); to one peer, or to all."""
        found = []
        for qp in self._qps.values():
            if peer_host in {None, qp.attributes.peer_host}:
                value = self._device.qps.peek(qp.index)
                found += [
                    (qp.index, index)
                    for index in range(len(qp.attributes.evs))
                    if value.evs.ev[index].state == EvState.ASSUMED_BAD
                    and plane_mask >> value.evs.ev[index].plane & 1
                ]
        return found
