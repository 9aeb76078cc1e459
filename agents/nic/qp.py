"""Queue pairs as the agent keeps them: attributes, the kernel's QP built from them, completions."""

from collections import deque
from collections.abc import Iterator, Mapping
from ctypes import c_uint32
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, cast

from agents.wire_abi import EvLayout, EvState, Limit, NicConfig, Qp, QpState, Usid
from testbed.errors import UsageError

PSN_MASK: Final = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class QpAttributes:
    """What a QP is created with.

    Attributes:
        peer_host: index of the host at the far end.
        evs: EVs, plane by plane, equally many in each.
        backup_per_plane: how many of a plane's EVs are held back at first.
        min_active: losses never take the number of active EVs below this.
        window_packets: packets under way at most.
        loss_threshold_acks: packets sent after one and acknowledged before it that prove it lost.
        pmtu_bytes: payload of a packet.
        rto_ns: retransmission time-out.
        retry_limit: time-outs in a row without progress before the QP fails.
        probe_success_target: probe answers in a row that bring an EV back.
        seed: of the order in which EVs are first used.
        first_psn: PSN of the first packet sent.
        peer_first_psn: PSN of the first packet expected.
        mpr: maximum PSN range as requestor, in units of 128 PSNs; at most the peer's mpr_dest.
        mpr_dest: the same as responder: what this side tracks.
        max_wimm: WRITEs with immediate that may be outstanding; at most the peer's max_wimm_dest.
        max_wimm_dest: WRITEs with immediate that this side holds back.
        linear_count: time-outs in a row before the time-out doubles.
        exponential_count: times it doubles at most.
        sack_every: packets per SACK that this side sends.
        peer_sack_every: the peer's sack_every; above 1, packets ask for a SACK where credit ends.
    """

    peer_host: int
    evs: tuple[int, ...]
    backup_per_plane: int
    min_active: int
    window_packets: int
    loss_threshold_acks: int
    pmtu_bytes: int
    rto_ns: int
    retry_limit: int
    probe_success_target: int
    seed: int
    first_psn: int = 0
    peer_first_psn: int = 0
    mpr: int = int(Limit.MPR_MAX)
    mpr_dest: int = int(Limit.MPR_MAX)
    max_wimm: int = int(Limit.WIMM_MAX)
    max_wimm_dest: int = int(Limit.WIMM_MAX)
    linear_count: int = 0
    exponential_count: int = 6
    sack_every: int = 1
    peer_sack_every: int = 1

    def changed(self, values: Mapping[str, int]) -> "QpAttributes":
        """The same but for *values*, by name."""
        return replace(self, **cast("dict[str, Any]", values))

    def check(self, config: NicConfig) -> None:
        """Raises UsageError, naming the attribute and its range, when one does not fit the NIC."""
        planes = config.plane_count
        if not 1 <= len(self.evs) <= Limit.EV_MAX or len(self.evs) % planes:
            raise UsageError(
                f"evs: {len(self.evs)} of them; a multiple of {planes}, up to {Limit.EV_MAX}, is accepted"
            )
        per_plane = len(self.evs) // planes
        rows = (Usid.INDEX_MASK + 1) // config.uplinks_per_pair
        ranges = {
            "peer_host": (0, rows * config.hosts_per_t0 - 1),
            "backup_per_plane": (0, per_plane - 1),
            "min_active": (1, len(self.evs)),
            "window_packets": (1, Limit.PSN_RING),
            "loss_threshold_acks": (1, 1 << 20),
            "pmtu_bytes": (256, Limit.PMTU_MAX),
            "rto_ns": (100_000, 60_000_000_000),
            "retry_limit": (0, 1000),
            "probe_success_target": (1, 255),
            "first_psn": (0, PSN_MASK),
            "peer_first_psn": (0, PSN_MASK),
            "mpr": (1, Limit.MPR_MAX),
            "mpr_dest": (1, Limit.MPR_MAX),
            "max_wimm": (0, Limit.WIMM_MAX),
            "max_wimm_dest": (0, Limit.WIMM_MAX),
            "linear_count": (0, 1000),
            "exponential_count": (0, 25),
            "sack_every": (1, 255),
            "peer_sack_every": (1, 255),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name}: {value}; {low} to {high} is accepted")
        for plane in range(planes):
            part = self.evs[plane * per_plane : (plane + 1) * per_plane]
            if any(ev >> EvLayout.PLANE_SHIFT != plane for ev in part):
                raise UsageError(f"evs: those of plane {plane} do not all name it")


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished work request: its id, iterations done, and a status name (`success`)."""

    work_id: int
    iterations: int
    status: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """A WRITE with immediate that has arrived whole: its number, from 1, the immediate and its bytes."""

    number: int
    immediate: int
    length: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a QP's state: the states it may follow, and the attributes that may come with it."""

    before: frozenset[QpState]
    attributes: frozenset[str] = frozenset()


CONNECTED: Final = frozenset({QpState.RTR, QpState.RTS})

_ALIVE = frozenset({QpState.INIT, QpState.RTR, QpState.RTS})

TRANSITIONS: Final = {
    "RESET": Transition(_ALIVE | {QpState.RESET, QpState.ERROR}),
    "INIT": Transition(frozenset({QpState.RESET})),
    "RTR": Transition(
        frozenset({QpState.INIT}),
        frozenset({"peer_qpn", "peer_first_psn", "mpr_dest", "max_wimm_dest"}),
    ),
    "RTS": Transition(frozenset({QpState.RTR}), frozenset({"mpr", "max_wimm"})),
    "ERROR": Transition(_ALIVE),
}


@dataclass(slots=True)
class QueuePair:
    """The agent's side of a QP."""

    index: int
    attributes: QpAttributes
    state: QpState = QpState.INIT
    status: str = "success"
    posted: deque[int] = field(default_factory=deque)
    completions: deque[Completion] = field(default_factory=deque)
    arrivals: dict[int, Arrival] = field(default_factory=dict)
    next_arrival: int = 1

    def take_arrivals(self) -> Iterator[Arrival]:
        """Those that are next in order; CPUs may report them in another."""
        while (arrival := self.arrivals.pop(self.next_arrival, None)) is not None:
            self.next_arrival += 1
            yield arrival

    def forget_work(self) -> None:
        """Makes it as new: nothing posted, nothing completed, nothing arrived."""
        self.status = "success"
        self.posted.clear()
        self.completions.clear()
        self.arrivals.clear()
        self.next_arrival = 1

    @property
    def qpn(self) -> int:
        """QP number on the wire."""
        return self.index + Limit.QPN_BASE


def carrier_template(config: NicConfig, peer_host: int) -> tuple[int, int, bool]:
    """High and low half of the uSID carrier to a host with plane and uplink 0, and whether it is T0-local.

    Source: docs/protocol.md, "Carriers".
    """

    def usid(role: int, index: int) -> int:
        return role << Usid.ROLE_SHIFT | index

    own_row = config.host_index // config.hosts_per_t0
    peer_row, downlink = divmod(peer_host, config.hosts_per_t0)
    lanes = config.uplinks_per_pair
    hops = [usid(Usid.T0, own_row * lanes)]
    if own_row != peer_row:
        hops += [usid(Usid.T1, 0), usid(Usid.T0, peer_row * lanes)]
    hops.append(usid(Usid.DOWNLINK, downlink))
    carrier = config.srv6_block
    for slot in range(6):
        carrier = carrier << 16 | (hops[slot] if slot < len(hops) else 0)
    return carrier >> 64, carrier & (1 << 64) - 1, own_row == peer_row


def build_qp(qp: QueuePair, config: NicConfig) -> Qp:
    """The kernel's QP in state INIT, with its EV set in a random order."""
    attributes = qp.attributes
    planes = config.plane_count
    per_plane = len(attributes.evs) // planes
    active = per_plane - attributes.backup_per_plane
    hi, lo, is_local = carrier_template(config, attributes.peer_host)
    value = Qp(
        state=QpState.INIT,
        qpn=qp.qpn,
        peer_host=attributes.peer_host,
        is_local=is_local,
        template_hi=hi,
        template_lo=lo,
        pmtu_bytes=attributes.pmtu_bytes,
        window_packets=attributes.window_packets,
        loss_threshold_acks=attributes.loss_threshold_acks,
        rto_ns=attributes.rto_ns,
        retry_limit=attributes.retry_limit,
        probe_success_target=attributes.probe_success_target,
        evs_per_plane=per_plane,
        plane_count=planes,
        min_active=attributes.min_active,
        active_total=active * planes,
        active_planes=(1 << planes) - 1,
        mpr_psns=attributes.mpr * Limit.MPR_UNIT,
        mpr_dest_psns=attributes.mpr_dest * Limit.MPR_UNIT,
        max_wimm=attributes.max_wimm,
        max_wimm_dest=attributes.max_wimm_dest,
        linear_count=attributes.linear_count,
        exponential_count=attributes.exponential_count,
        sack_every=attributes.sack_every,
        asks_sack=attributes.peer_sack_every > 1,
        peer_port_mask=0xFFFFFFFF,
        next_psn=attributes.first_psn,
        una_psn=attributes.first_psn,
        scan_psn=attributes.first_psn,
        peer_cack_next=attributes.first_psn,
        cack_next=attributes.peer_first_psn,
        max_received=c_uint32(attributes.peer_first_psn - 1).value,
    )
    random = Random(attributes.seed)
    for plane in range(planes):
        value.planes[plane].active_count = active
        value.planes[plane].backup_count = attributes.backup_per_plane
        value.planes[plane].target_active = active
        order = random.sample(range(per_plane), per_plane)
        for position, within in enumerate(order):
            index = plane * per_plane + within
            value.order[plane * per_plane + position] = index
            ev = value.evs[index]
            ev.entropy = attributes.evs[index]
            ev.state = EvState.GOOD
            ev.plane = plane
            ev.position = position
    return value
