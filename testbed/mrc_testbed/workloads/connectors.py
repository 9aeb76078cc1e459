"""The connection of a lab's NICs: MRC, reliable connections (RoCEv2 and its kin)."""

import random
from dataclasses import dataclass
from typing import Final

from mrc_agents.nic.connecting import connect_qps
from mrc_agents.nic.context import Context, QueuePair
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.transport.congestion import CongestionControl, choose_congestion_control
from mrc_testbed.transport.reliable_connection import RcCongestion, RcKind
from mrc_testbed.transport.transport_kind import (
    AnyCongestion,
    GoneCongestion,
    GoneKind,
    TransportKind,
    refuse_gone,
)
from mrc_testbed.workloads.transport import Connector, Transport

_SEED_BITS: Final = 31


@dataclass(frozen=True, slots=True)
class MrcConnector:
    """MRC."""

    clos: Clos  # the lab's topology
    evs: int | None = None  # EVs of a QP over all planes; None for the topology's
    congestion: CongestionControl | None = None  # congestion control; None for what fits the fabric

    def connect(self, near: Context, far: Context, seed: int) -> tuple[QueuePair, QueuePair]:
        """Two MRC QPs that are connected."""
        return connect_qps(near, far, seed, self._create)

    def _create(self, nic: Context, peer: int, drawn: random.Random, psns: dict[str, int]) -> QueuePair:
        spec = self.clos.spec
        if self.evs is not None:
            spec = spec.model_copy(update={"nic": spec.nic.model_copy(update={"evs": self.evs})})
        congestion = self.congestion or choose_congestion_control(self.clos)
        attributes = congestion.qp_attributes | {
            "backup_per_plane": spec.backup_evs_per_plane,
            "pmtu_bytes": spec.nic.path_mtu,
            "seed": drawn.getrandbits(_SEED_BITS),
            **psns,
        }
        evs = build_ev_set(self.clos, nic.host_index, peer, spec.evs, drawn.getrandbits(_SEED_BITS))
        return nic.create_qp(peer, evs, **attributes)


@dataclass(frozen=True, slots=True)
class RcConnector:
    """Reliable connections, which take packets in order."""

    clos: Clos  # the lab's topology
    kind: RcKind  # which of them
    congestion: RcCongestion  # of every QP

    def connect(self, near: Context, far: Context, seed: int) -> tuple[QueuePair, QueuePair]:
        """Two RC QPs that are connected."""
        return connect_qps(near, far, seed, self._create)

    def _create(self, nic: Context, peer: int, drawn: random.Random, psns: dict[str, int]) -> QueuePair:
        spec = self.clos.spec
        evs = build_ev_set(self.clos, nic.host_index, peer, spec.evs, drawn.getrandbits(_SEED_BITS))
        if self.kind == "spray-gbn":
            # the set is plane by plane: turn about would stay in one for long
            per_plane = len(evs) // spec.planes
            chosen = [ev for place in range(per_plane) for ev in evs[place::per_plane]]
        else:
            chosen = [drawn.choice(evs)]
        attributes = self.congestion.qp_attributes | {"pmtu_bytes": spec.nic.path_mtu, **psns}
        return nic.create_rc_qp(peer, chosen, **attributes)


def choose_connector(
    clos: Clos,
    kind: TransportKind | GoneKind,
    congestion: AnyCongestion | GoneCongestion,
    *,
    evs: int | None,
) -> Connector:
    """The connector of a transport.

    Args:
        congestion: one of this transport's.
        evs: of an MRC QP over all planes; None for the topology's.
    """
    refuse_gone(kind)
    match kind, congestion:
        case "mrc", CongestionControl():
            return MrcConnector(clos, evs, congestion)
        case "rocev2" | "infiniband" | "spray-gbn" as rc_kind, RcCongestion():
            return RcConnector(clos, rc_kind, congestion)
    raise UsageError(f"{kind} has no congestion control {congestion.describe()}")


def open_transport(
    lab: Lab,
    kind: TransportKind | GoneKind,
    congestion: AnyCongestion | GoneCongestion,
    *,
    evs: int | None = None,
) -> Transport:
    """The transport of the messages in a lab that is up; see `choose_connector`."""
    return Transport(choose_connector(lab.clos, kind, congestion, evs=evs), lab.nic)


def open_mrc(lab: Lab, congestion: CongestionControl | None = None) -> Transport:
    """MRC as the topology has it, in a lab that is up."""
    return Transport(MrcConnector(lab.clos, congestion=congestion), lab.nic)
