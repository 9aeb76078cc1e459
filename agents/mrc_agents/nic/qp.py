"""Queue pairs as the agent keeps them: attributes, the kernel's QP built from them, completions."""

from collections.abc import Sequence
from ctypes import Array, Structure, c_uint8, c_uint32
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import prod
from random import Random
from typing import ClassVar, Final

from mrc_agents.abi import (
    Cc,
    CcParameterStruct,
    Comp,
    EvEntry,
    EvLayout,
    EvState,
    EvTable,
    Limit,
    NicConfig,
    Paths,
    Qp,
    QpHead,
    QpState,
    Req,
    Resp,
    UsidLayout,
)
from mrc_agents.entropy import randbits
from mrc_agents.errors import UsageError
from mrc_agents.nic.work_queue import SenderAttributes, Transition, WorkQueue
from mrc_agents.protocol import cc_profile
from mrc_agents.protocol.sizes import write_nominal_bytes

PSN_BITS: Final = 24
EXPONENTIAL_COUNT: Final = 6
PSN_MAX: Final = (1 << PSN_BITS) - 1


def draw_psn() -> int:
    """A first PSN: nobody can foresee it, and packets of other connections hardly fit it."""
    return randbits(PSN_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class QpAttributes(SenderAttributes):
    """The attributes that a QP is created with.

    Attributes:
        peer_host: index of the host at the far end.
        evs: EVs, plane by plane, equally many in each.
        backup_per_plane: how many of a plane's EVs are held back at first.
        min_active: losses never take the number of active EVs below this.
        window_packets: full packets under way at most.
        loss_threshold_acks: packets acknowledged since one left, and since the last acknowledgement on its
            path, that prove it lost.
        reorder_packets: packets that may overtake another on one path; when one more does, that one is lost.
        rto_min_ns: floor of the time-out that is measured, of which rto_ns is the first and the longest.
        pto_min_ns: floor of the silence after which a tail loss probe is sent; 0: none ever is.
        reo_wnd_min_ns: floor of RACK's reordering window; 0: no loss is found by RACK.
        shares_paths: 1: EVs name paths, and what another QP of the NIC finds out about one holds for all.
        byte_time_ps: serialisation of a byte, summed over the links of a path; 0: nothing is shaped.
        evs_name_paths: EVs of one plane and one uplink name the same path; else each names its own.
        pmtu_bytes: payload of a packet.
        rto_ns: retransmission time-out until an RTT has been measured.
        retry_limit: time-outs in a row without progress before the QP fails.
        probe_success_target: probe answers in a row that bring an EV back.
        seed: of the order in which EVs are first used.
        first_psn: PSN of the first packet sent; drawn at random where it is left out.
        peer_first_psn: PSN of the first packet expected; needed on the way to RTR at the latest.
        mpr: maximum PSN range as requester, in units of 128 PSNs; at most the peer's mpr_dest.
        mpr_dest: the same as responder: what this side tracks.
        dynamic_mpr: 1 where both sides let the responder change the range by its SACKs.
        max_wimm: WRITEs with immediate that may be outstanding; at most the peer's max_wimm_dest.
        max_wimm_dest: WRITEs with immediate that this side holds back.
        linear_count: time-outs in a row before the time-out doubles.
        exponential_count: times it doubles at most.
        sack_every: packets per SACK that this side sends.
        peer_sack_every: the peer's sack_every; above 1, packets ask for a SACK where credit ends.
        cc: parameters of congestion control, whose largest window then is window_packets; None: the window is
            fixed.
    """

    backup_per_plane: int
    min_active: int
    loss_threshold_acks: int
    probe_success_target: int
    seed: int
    mpr: int = int(Limit.MPR_MAX)
    mpr_dest: int = int(Limit.MPR_MAX)
    dynamic_mpr: int = 0
    max_wimm: int = int(Limit.WIMM_MAX)
    max_wimm_dest: int = int(Limit.WIMM_MAX)
    linear_count: int = 0
    exponential_count: int = EXPONENTIAL_COUNT
    sack_every: int = 1
    peer_sack_every: int = 1
    reorder_packets: int = 0
    rto_min_ns: int = 60_000_000_000
    pto_min_ns: int = 0
    reo_wnd_min_ns: int = 0
    shares_paths: int = 0
    byte_time_ps: int = 0
    evs_name_paths: int = 1
    cc: cc_profile.CcParameters | None = None

    @property
    def congestion(self) -> cc_profile.CcParameters:
        """Parameters of congestion control, also where the window is fixed."""
        return self.cc or cc_profile.CcParameters.fixed_window(self.window_packets, self.pmtu_bytes)

    def check(self, config: NicConfig) -> None:
        planes = config.plane_count
        if not 1 <= len(self.evs) <= Limit.EV_MAX or len(self.evs) % planes:
            raise UsageError(
                f"evs: {len(self.evs)} of them; a multiple of {planes}, up to {Limit.EV_MAX}, is accepted"
            )
        per_plane = len(self.evs) // planes
        for name, (low, high) in attribute_ranges(config, len(self.evs)).items():
            value = getattr(self, name)
            if name == "peer_first_psn" and value is None:
                continue
            if not low <= value <= high:
                raise UsageError(f"{name}: {value}; {low} to {high} is accepted")
        for plane in range(planes):
            part = self.evs[plane * per_plane : (plane + 1) * per_plane]
            if any(ev >> EvLayout.PLANE_SHIFT != plane for ev in part):
                raise UsageError(f"evs: those of plane {plane} do not all name it")


def attribute_ranges(config: NicConfig, ev_count: int) -> dict[str, tuple[int, int]]:
    """Lowest and highest accepted value of each number among QpAttributes, for a QP of *ev_count* EVs."""
    return {
        "peer_host": (0, last_host(config)),
        "backup_per_plane": (0, ev_count // config.plane_count - 1),
        "min_active": (1, ev_count),
        "window_packets": (1, Limit.PSN_RING),
        "loss_threshold_acks": (1, 1 << 20),
        "pmtu_bytes": (256, config.pmtu_max or Limit.PMTU_MAX),
        "rto_ns": (1_000, 60_000_000_000),
        "retry_limit": (0, 1000),
        "probe_success_target": (1, 255),
        "first_psn": (0, PSN_MAX),
        "peer_first_psn": (0, PSN_MAX),
        "mpr": (1, Limit.MPR_MAX),
        "mpr_dest": (1, Limit.MPR_MAX),
        "dynamic_mpr": (0, 1),
        "max_wimm": (0, Limit.WIMM_MAX),
        "max_wimm_dest": (0, Limit.WIMM_MAX),
        "linear_count": (0, 1000),
        "exponential_count": (0, 25),
        "sack_every": (1, 255),
        "peer_sack_every": (1, 255),
        "reorder_packets": (0, Limit.PSN_RING),
        "rto_min_ns": (0, 60_000_000_000),
        "pto_min_ns": (0, 60_000_000_000),
        "reo_wnd_min_ns": (0, 60_000_000_000),
        "shares_paths": (0, 1),
        "byte_time_ps": (0, (1 << 32) - 1),
        "evs_name_paths": (0, 1),
    }


CONNECTED: Final = frozenset({QpState.RTR, QpState.RTS})

_ALIVE = frozenset({QpState.INIT, QpState.RTR, QpState.RTS})

TRANSITIONS: Final = {
    "RESET": Transition(_ALIVE | {QpState.RESET, QpState.ERROR}),
    "INIT": Transition(frozenset({QpState.RESET})),
    "RTR": Transition(
        frozenset({QpState.INIT}),
        frozenset({"peer_host", "peer_qpn", "peer_first_psn", "mpr_dest", "max_wimm_dest", "dynamic_mpr"}),
    ),
    "RTS": Transition(frozenset({QpState.RTR}), frozenset({"mpr", "max_wimm", "first_psn"})),
    "ERROR": Transition(_ALIVE),
}


@dataclass(slots=True)
class MrcQueuePair(WorkQueue):
    """The agent's side of an MRC QP."""

    transitions: ClassVar = TRANSITIONS

    attributes: QpAttributes
    ev_profile: int | None = None  # id of the one that its EVs are from
    cc_profile: int | None = None  # id of the one that its congestion control is from

    def replace_ev(self, place: int, ev: int) -> None:
        """Another EV stands at *place* from now on."""
        evs = self.attributes.evs
        self.attributes = replace(self.attributes, evs=(*evs[:place], ev, *evs[place + 1 :]))


def last_host(config: NicConfig) -> int:
    """The largest number of a host that carriers reach."""
    return int((UsidLayout.INDEX_MASK + 1) // config.tiers[1].lanes * config.tiers[0].joins - 1)


def distance_to(config: NicConfig, peer_host: int) -> int:
    """The tier that joins this host and another; 0 if they share their T0s."""
    t0, t1, _ = config.tiers
    row, peer_row = config.host_index // t0.joins, peer_host // t0.joins
    if row == peer_row:
        return 0
    return 1 if row // t1.joins == peer_row // t1.joins else 2


def way_count(config: NicConfig, distance: int = Limit.TIER_MAX) -> int:
    """Paths of a plane to hosts of that distance, or to the farthest."""
    return prod(max(1, tier.uplinks) for tier in config.tiers[:distance])


def carrier_template(config: NicConfig, peer_host: int) -> tuple[int, int, int]:
    """High and low half of the uSID carrier to a host with plane and way 0, and the distance of the host.

    Source: docs/reference/protocol.md, "Carriers".
    """
    t0, t1, t2 = config.tiers

    def usid(role: int, index: int) -> int:
        return role << UsidLayout.ROLE_SHIFT | index

    distance = distance_to(config, peer_host)
    peer_row, downlink = divmod(peer_host, t0.joins)
    hops = [usid(UsidLayout.T0, config.host_index // t0.joins * t1.lanes)]
    if distance > 0:
        hops.append(usid(UsidLayout.T1, 0))
    if distance > 1:
        hops.append(usid(UsidLayout.T2, 0))
        hops.append(usid(UsidLayout.T1, t0.uplinks + peer_row // t1.joins * t2.lanes))
    if distance > 0:
        hops.append(usid(UsidLayout.T0, peer_row * t1.lanes))
    hops.append(usid(UsidLayout.DOWNLINK, downlink))
    carrier = config.srv6_block
    for slot in range(6):
        carrier = carrier << 16 | (hops[slot] if slot < len(hops) else 0)
    return carrier >> 64, carrier & (1 << 64) - 1, distance


def nic_path_base(config: NicConfig, peer_host: int) -> int:
    """Place in `nic_paths` of the path by plane 0 and way 0 to the T0 of a host, modulo their number.

    Each T0 has as many places as the farthest has paths. In a fabric with more paths than places
    some share one, and a healthy path is avoided at times.
    """
    paths = config.plane_count * way_count(config)
    return int(peer_host // config.tiers[0].joins * paths % Limit.NIC_PATHS)


def nic_path(qp: Qp, ev: int) -> int:
    """Place in `nic_paths` of the path that an EV of a QP names."""
    way = (ev >> EvLayout.UPLINK_SHIFT & EvLayout.UPLINK_MASK) % qp.paths.way_count
    place = qp.paths.nic_base + (ev >> EvLayout.PLANE_SHIFT) * qp.paths.way_count + way
    return int(place) % int(Limit.NIC_PATHS)


def largest_window_packets(parameters: cc_profile.CcParameters) -> int:
    """Full packets that the largest window lets go, as far as PSNs can be tracked."""
    full_bytes = write_nominal_bytes(parameters.mtu_bytes)
    return min(max(1, -(-parameters.max_cwnd_bytes // full_bytes)), Limit.PSN_RING)


def path_numbers(evs: Sequence[int], *, are_named: bool) -> list[int]:
    """The path of each EV, counted from 0: the same for EVs that name the same plane and uplink."""
    if not are_named:
        return list(range(len(evs)))
    numbers: dict[int, int] = {}
    return [numbers.setdefault(ev >> EvLayout.UPLINK_SHIFT, len(numbers)) for ev in evs]


def replacement_path(qp: Qp, attributes: QpAttributes, place: int, ev: int) -> int:
    """The path of an EV that is to stand at *place*: that of others which name the same, else a free one."""
    others = [index for index in range(len(attributes.evs)) if index != place]
    if attributes.evs_name_paths:
        for index in others:
            if qp.evs.ev[index].entropy >> EvLayout.UPLINK_SHIFT == ev >> EvLayout.UPLINK_SHIFT:
                return int(qp.evs.ev[index].path)
    taken = {qp.evs.ev[index].path for index in others}
    # The one it leaves last of all: packets may be under way on it.
    free = [number for number in range(Limit.EV_MAX) if number not in taken]
    return next((number for number in free if number != qp.evs.ev[place].path), free[0])


def build_head(qp: WorkQueue, config: NicConfig) -> QpHead:
    """The part that the kernel's QP of any transport begins with."""
    hi, lo, distance = carrier_template(config, qp.attributes.peer_host)
    return QpHead(
        qpn=qp.qpn,
        peer_host=qp.attributes.peer_host,
        distance=distance,
        template_hi=hi,
        template_lo=lo,
        pmtu_bytes=qp.attributes.pmtu_bytes,
        pd=qp.pd,
        is_writable=qp.limits.is_writable,
        retry_limit=qp.attributes.retry_limit,
        rnr_limit=qp.limits.rnr_limit,
        rto_ns=qp.attributes.rto_ns,
        give_up_ns=qp.limits.give_up_ns,
        rnr_timer_ns=qp.limits.rnr_timer_us * 1000,
    )


def build_qp(qp: MrcQueuePair, config: NicConfig) -> Qp:
    """The kernel's QP in state INIT, with its EV set in a random order."""
    attributes = qp.attributes
    planes = config.plane_count
    per_plane = len(attributes.evs) // planes
    active = per_plane - attributes.backup_per_plane
    head = build_head(qp, config)
    congestion = attributes.congestion
    peer_first_psn = attributes.peer_first_psn or 0  # needed before the QP receives
    value = Qp(
        state=QpState.INIT,
        head=head,
        cc_parameters=CcParameterStruct(
            **{name: getattr(congestion, name) for name in congestion.__match_args__}
        ),
        ev_profile=0 if qp.ev_profile is None else 1 + qp.ev_profile,
        cc_profile=0 if qp.cc_profile is None else 1 + qp.cc_profile,
        cc=Cc(
            cwnd_bytes=congestion.max_cwnd_bytes,
            max_wnd_bytes=congestion.max_cwnd_bytes,
            base_rtt_ns=congestion.base_rtt_ns,
        ),
        comp=Comp(
            **_same_names(Comp, attributes),
            una_psn=attributes.first_psn,
            peer_cack_next=attributes.first_psn,
        ),
        paths=Paths(
            is_shared=attributes.shares_paths,
            nic_base=nic_path_base(config, attributes.peer_host),
            way_count=way_count(config, head.distance),
        ),
        evs=EvTable(
            **_same_names(EvTable, attributes),
            plane_count=planes,
            per_plane=per_plane,
            active_total=active * planes,
            active_planes=(1 << planes) - 1,
            peer_port_mask=0xFFFFFFFF,
        ),
        resp=Resp(
            **_same_names(Resp, attributes),
            mpr_dest_psns=attributes.mpr_dest * Limit.MPR_UNIT,
            tracked_psns=attributes.mpr_dest * Limit.MPR_UNIT,
            tracked_from_psn=peer_first_psn,
            is_mpr_dynamic=attributes.dynamic_mpr,
            cack_next=peer_first_psn,
            first_expected=peer_first_psn,
            max_received=c_uint32(peer_first_psn - 1).value,
        ),
        req=Req(
            max_wimm=attributes.max_wimm,
            pmtu_shift=attributes.pmtu_bytes.bit_length() - 1,
            mpr_psns=attributes.mpr * Limit.MPR_UNIT,
            requests_sack=attributes.peer_sack_every > 1,
            next_psn=attributes.first_psn,
        ),
    )
    value.evs.order, value.evs.ev = _shuffled(
        attributes.evs, attributes.seed, planes, active, are_named=bool(attributes.evs_name_paths)
    )
    for plane in range(planes):
        value.evs.planes[plane].active_count = active
        value.evs.planes[plane].backup_count = attributes.backup_per_plane
        value.evs.planes[plane].target_active = active
    return value


@lru_cache(maxsize=8)
def _shuffled(
    evs: Sequence[int], seed: int, planes: int, active: int, *, are_named: bool
) -> tuple[Array[c_uint8], Array[EvEntry]]:
    """EVs in a random order, *active* of each plane first; asked for again as their QP connects."""
    per_plane = len(evs) // planes
    paths = path_numbers(evs, are_named=are_named)
    random = Random(seed)
    places, entries = (c_uint8 * Limit.EV_MAX)(), (EvEntry * Limit.EV_MAX)()
    for plane in range(planes):
        # Places in a row are even over the paths, which those of a random choice among all are not.
        order = random.sample(range(active), active)
        order += random.sample(range(active, per_plane), per_plane - active)
        for position, within in enumerate(order):
            index = plane * per_plane + within
            places[plane * per_plane + position] = index
            entries[index] = EvEntry(
                entropy=evs[index], state=EvState.GOOD, plane=plane, path=paths[index], position=position
            )
    return places, entries


def _same_names(part: type[Structure], attributes: QpAttributes) -> dict[str, int]:
    """The attributes that the kernel's QP takes as they are in this part of it."""
    names = {name for name, *_ in part._fields_}.intersection(each.name for each in fields(attributes))
    return {name: getattr(attributes, name) for name in names}
