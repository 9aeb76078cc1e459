"""Counts of a planned multi-plane Clos of two or three tiers: switches, links, optics, EVs, losses. Pure.

A switch with k ports at the rate of a plane has k/2 downlinks and k/2 uplinks; one of the highest tier has
downlinks only. So two tiers reach k x k/2 NICs, and three k x k/2 x k/2. A fabric has

    T0s    as few as its NICs need, which they share as evenly as can be; all of their uplinks are cabled
    T1s    as few as give each T0 the same number of parallel links to each of them
    pods   in three tiers: T0s and T1s that are linked as two tiers are; two or more, all alike
    T2s    as few as give each T1 the same number of parallel links to each T2 of its group

An optic is a module at the rate of a NIC. It carries all ports of one NIC, and at a switch as many
neighbouring ports as there are planes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Final

from mrc_testbed.errors import UsageError
from mrc_testbed.shown import format_rate
from mrc_testbed.topology.numbering import Numbering, TierSize

_PORTS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Parts:
    """The NIC and the switch of a fabric."""

    planes: int  # ports of a NIC, each to a plane of its own
    nic_rate_bps: int  # of all ports of a NIC together
    switch_rate_bps: int  # of all ports of a switch together

    def __post_init__(self) -> None:
        nic, switch = format_rate(self.nic_rate_bps), format_rate(self.switch_rate_bps)
        if self.nic_rate_bps == 0 or self.nic_rate_bps % self.planes:
            raise UsageError(
                f"a NIC of {nic} has no equal ports for {self.planes} plane{'s' * (self.planes > 1)}",
                hint="change --nic-rate or --planes",
            )
        ports, rest_bps = divmod(self.switch_rate_bps, self.port_rate_bps)
        if rest_bps or ports == 0 or ports % 2:
            raise UsageError(
                f"a switch of {switch} has no even number of ports of {format_rate(self.port_rate_bps)}",
                hint="half of its ports are uplinks: change --switch-rate or --planes",
            )
        if ports > _PORTS_MAX:
            raise UsageError(f"a switch has {ports:,} ports: this is for at most {_PORTS_MAX:,}")

    @property
    def port_rate_bps(self) -> int:
        return self.nic_rate_bps // self.planes

    @property
    def switch_ports(self) -> int:
        return self.switch_rate_bps // self.port_rate_bps

    @property
    def half(self) -> int:
        """Uplinks of a switch below the highest tier, and its downlinks at most."""
        return self.switch_ports // 2

    def largest_nics(self, tiers: int) -> int:
        """NICs of the largest fabric with that many tiers."""
        return int(self.switch_ports * self.half ** (tiers - 1))


@dataclass(frozen=True, slots=True)
class PartLoss:
    part: str  # what is lost
    count: int  # parts of this kind in the fabric
    nics: int  # NICs that lose rate, at most
    planes: int  # planes in which they do
    of_plane: float  # share of these planes that each loses, on its way to other T0s; at most
    of_nic: float  # share of its whole rate
    of_fabric: float  # share of the rate of all NICs


@dataclass(frozen=True, slots=True)
class Fabric:
    """A planned fabric; made by `plan_fabric`."""

    parts: Parts  # its NICs and switches
    tiers: int  # 2 or 3
    nics: int  # of the fabric
    pods: int  # groups of T0s that T1s link; 1 in two tiers
    # t0, t1, t2: switches per plane
    t0: int
    t1: int
    t2: int
    t0_t1_lanes: int  # parallel links between a T0 and a T1
    t1_t2_lanes: int  # parallel links between a T1 and a T2; 0 without a T2

    @property
    def hosts_per_t0(self) -> int:
        """NICs at a T0, at most."""
        return ceil(self.nics / self.t0)

    @property
    def switches(self) -> int:
        return self.parts.planes * (self.t0 + self.t1 + self.t2)

    @property
    def host_links(self) -> int:
        """Links between NICs and T0s."""
        return self.parts.planes * self.nics

    @property
    def t0_t1_links(self) -> int:
        """Links between T0s and T1s; none below a single T0."""
        return self.parts.planes * self.t0 * self.parts.half if self.t1 else 0

    @property
    def t1_t2_links(self) -> int:
        """Links between T1s and T2s."""
        return self.parts.planes * self.t1 * self.parts.half if self.t2 else 0

    @property
    def links(self) -> int:
        return self.host_links + self.t0_t1_links + self.t1_t2_links

    @property
    def host_optics(self) -> int:
        """Optics at both ends of the host links: one of each NIC, the others at T0s."""
        return self.nics + self._optics(self.t0, self.host_links)

    @property
    def optics(self) -> int:
        """Optics at both ends of all links."""
        between_tiers = ((self.t0_t1_links, self.t0, self.t1), (self.t1_t2_links, self.t1, self.t2))
        return self.host_optics + sum(
            self._optics(switches, links) for links, *ends in between_tiers if links for switches in ends
        )

    @property
    def paths_per_plane(self) -> int:
        """Paths of a plane between two NICs as far apart as NICs are."""
        return (self.parts.half if self.t1 else 1) * (self.parts.half if self.t2 else 1)

    @property
    def paths(self) -> int:
        return self.parts.planes * self.paths_per_plane

    @property
    def ev_bits(self) -> int:
        """Bits of an EV that name each of the paths."""
        return (self.paths - 1).bit_length()

    @property
    def usids_of_packet(self) -> int:
        """USIDs of the longest source route: a T0, a switch of each tier up and down, the downlink."""
        return 2 * (1 + bool(self.t1) + bool(self.t2))

    @property
    def usids_of_plane(self) -> dict[str, int] | None:
        """USIDs of a plane in the lab's layout, by what they name; None for three tiers, which it lacks."""
        if self.t2:
            return None
        return {
            "t0": self.t0 * max(1, self.t0_t1_lanes),
            "t1": self.t1 * self.t0_t1_lanes,
            "downlink": self.hosts_per_t0,
        }

    @property
    def numbering(self) -> Numbering:
        """The counts as the lab has them, with as many NICs at each T0; for two tiers."""
        t1 = TierSize(self.t0, max(1, self.t1), max(1, self.t0_t1_lanes))
        return Numbering(self.parts.planes, (TierSize(self.hosts_per_t0), t1))

    def losses(self) -> Iterator[PartLoss]:
        """Yield the effect of each kind of loss, from a host's link to a plane."""
        planes, half, row = self.parts.planes, self.parts.half, self.hosts_per_t0
        pod = min(self.nics, row * self.t0 // self.pods)
        yield self._loss("host link", self.host_links, 1, 1)
        yield self._loss("NIC optic", self.nics, 1, 1, planes=planes)
        at_t0 = self._optics(self.t0, self.host_links)
        yield self._loss("T0 optic to hosts", at_t0, min(planes, row), 1)
        if self.t1:
            ways = self.t1 // self.pods * half
            yield self._loss("T0-T1 link", self.t0_t1_links, row, 1 / half)
            up = self._optics(self.t0, self.t0_t1_links)
            yield self._loss("T0 optic to T1s", up, row, min(planes, half) / half)
            if self.t2:
                yield self._loss("T1-T2 link", self.t1_t2_links, pod, 1 / ways)
        yield self._loss("T0", planes * self.t0, row, 1)
        if self.t1:
            yield self._loss("T1", planes * self.t1, pod, self.pods / self.t1)
        if self.t2:
            yield self._loss("T2", planes * self.t2, self.nics, 1 / self.t2)
        yield self._loss("plane", planes, self.nics, 1)

    def _loss(self, part: str, count: int, nics: int, of_plane: float, *, planes: int = 1) -> PartLoss:
        of_nic = of_plane * planes / self.parts.planes
        return PartLoss(part, count, nics, planes, of_plane, of_nic, of_nic * nics / self.nics)

    def _optics(self, switches_per_plane: int, links: int) -> int:
        """Optics at one end of links that switches share as evenly as can be."""
        planes = self.parts.planes
        switches = planes * switches_per_plane
        fewer, with_one_more = divmod(links, switches)
        more = ceil((fewer + 1) / planes) * with_one_more
        return more + ceil(fewer / planes) * (switches - with_one_more)


def plan_fabric(parts: Parts, tiers: int, nics: int) -> Fabric:
    """The smallest fabric of two or three tiers for *nics* NICs, with all uplinks of T0s and T1s."""
    if nics > parts.largest_nics(tiers):
        raise UsageError(
            f"{nics:,} NICs do not fit: switches with {parts.switch_ports} ports of "
            f"{format_rate(parts.port_rate_bps)} reach {parts.largest_nics(tiers):,} in {tiers} tiers",
            hint="use more planes, larger switches, or --tiers 3"
            if tiers == 2
            else "use more planes or larger switches",
        )
    t0 = ceil(nics / parts.half)
    if t0 == 1:
        return Fabric(parts, tiers, nics, 1, 1, 0, 0, 0, 0)
    if tiers == 2:
        t1 = _fewest(parts.half, t0, parts.switch_ports)
        return Fabric(parts, tiers, nics, 1, t0, t1, 0, parts.half // t1, 0)
    pods = max(2, ceil(t0 / parts.half))
    t0_of_pod = ceil(t0 / pods)
    t1_of_pod = _fewest(parts.half, t0_of_pod, parts.half)
    group = _fewest(parts.half, pods, parts.switch_ports)
    lanes = parts.half // t1_of_pod, parts.half // group
    return Fabric(parts, tiers, nics, pods, pods * t0_of_pod, pods * t1_of_pod, t1_of_pod * group, *lanes)


def _fewest(uplinks: int, below: int, ports: int) -> int:
    """The fewest switches to which *below* switches have equally many of their *uplinks*, within *ports*."""
    return next(
        above for above in range(1, uplinks + 1) if uplinks % above == 0 and below * uplinks // above <= ports
    )
