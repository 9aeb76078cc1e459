"""Reliable connections as a transport: RoCEv2 and its kin, on the same NICs and fabric as MRC."""

import random
from collections.abc import Callable
from functools import partial

from agents.nic.client import AgentClient
from testbed.fabric.live import Lab
from testbed.topology.clos import Clos
from testbed.topology.ev_set import build_ev_set
from testbed.transport.reliable_connection import RcCongestion, RcKind
from testbed.workloads.mrc_transport import MrcTransport, QpShape
from testbed.workloads.nic_access import NicConnection, NicMaps, NicView


class RcTransport(MrcTransport):
    """The NICs of a lab, with connections that take packets in order.

    Args:
        clos: the lab's topology.
        connect: a new connection to the NIC agent of a host.
        look: the maps of a host's NIC.
        kind: which of them.
        congestion: of every QP.
    """

    def __init__(
        self,
        clos: Clos,
        connect: Callable[[str], NicConnection],
        look: Callable[[str], NicView],
        kind: RcKind,
        congestion: RcCongestion,
    ) -> None:
        super().__init__(clos, connect, look, QpShape())
        self._kind = kind
        self._congestion = congestion

    def _create_qp(self, host: str, peer: str, drawn: random.Random, psns: dict[str, int]) -> int:
        own, far = self._clos.node(host).index, self._clos.node(peer).index
        spec = self._clos.spec
        evs = build_ev_set(self._clos, own, far, spec.evs, drawn.getrandbits(31))
        if self._kind == "spray-gbn":
            # the set is plane by plane: turn about would stay in one for long
            chosen = [ev for of_planes in zip(*_by_plane(evs, spec.planes), strict=True) for ev in of_planes]
        else:
            chosen = [drawn.choice(evs)]
        attributes = self._congestion.qp_attributes | {"pmtu_bytes": spec.nic.path_mtu, **psns}
        return int(self._nics[host].create_rc_qp(far, chosen, **attributes))


def _by_plane(evs: tuple[int, ...], planes: int) -> list[tuple[int, ...]]:
    per_plane = len(evs) // planes
    return [evs[plane * per_plane : (plane + 1) * per_plane] for plane in range(planes)]


def open_rc(lab: Lab, kind: RcKind, congestion: RcCongestion) -> RcTransport:
    """The transport of a lab that is up."""
    return RcTransport(
        lab.clos, partial(_agent, lab), lambda host: NicMaps(lab.paths.node_pins(host)), kind, congestion
    )


def _agent(lab: Lab, host: str) -> AgentClient:
    return AgentClient(lab.paths.agent_socket(host))
