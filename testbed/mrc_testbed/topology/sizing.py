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
from dataclasses import dataclass, replace
from math import ceil, gcd, prod
from typing import Final

from mrc_testbed.errors import UsageError
from mrc_testbed.shown import format_rate
from mrc_testbed.topology.numbering import Numbering, TierSize

_PORTS_MAX: Final = 1 << 16
LAB_HOSTS_MAX: Final = 64
"""Hosts of a scaled lab."""


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
    tiers: int  # 2 or 3, that it was planned for
    nics: int  # of the fabric
    numbering: Numbering  # the lab's, with as many NICs at each T0; of a single tier where one T0 does

    def switches(self, level: int) -> int:
        """Switches of a tier per plane; none of a tier that it lacks."""
        return sum(self.numbering.switches[level : level + 1])

    @property
    def host_links(self) -> int:
        """Links between NICs and T0s."""
        return self.parts.planes * self.nics

    @property
    def links(self) -> int:
        return self.host_links + self.numbering.link_count - self.numbering.host_link_count

    @property
    def host_optics(self) -> int:
        """Optics at both ends of the host links: one of each NIC, the others at T0s."""
        return self.nics + self._t0_optics

    @property
    def optics(self) -> int:
        """Optics at both ends of all links."""
        number = self.numbering
        ports_to_tiers = zip(number.switches, number.uplinks, (0, *number.downlinks[1:]), strict=True)
        return self.host_optics + sum(
            number.planes * switches * sum(ceil(ports / number.planes) for ports in to_tiers)
            for switches, *to_tiers in ports_to_tiers
        )

    @property
    def paths(self) -> int:
        """Paths between two NICs as far apart as NICs are."""
        return self.parts.planes * self.numbering.way_count(len(self.numbering.tiers) - 1)

    @property
    def ev_bits(self) -> int:
        """Bits of an EV that name each of the paths."""
        return (self.paths - 1).bit_length()

    @property
    def usids_of_packet(self) -> int:
        """USIDs of the longest source route: a T0, a switch of each tier up and down, the downlink."""
        return 2 * len(self.numbering.tiers)

    def losses(self) -> Iterator[PartLoss]:
        """Yield the effect of each kind of loss, from a host's link to a plane."""
        number, planes = self.numbering, self.parts.planes
        behind = [min(self.nics, number.host_count // groups) for groups in number.groups]  # NICs, by tier
        yield self._loss("host link", self.host_links, 1, 1)
        yield self._loss("NIC optic", self.nics, 1, 1, planes=planes)
        yield self._loss("T0 optic to hosts", self._t0_optics, min(planes, number.hosts_per_t0), 1)
        for level, uplinks in enumerate(number.uplinks[:-1]):
            part, count = f"T{level}-T{level + 1} link", len(number.links_at(level + 1))
            yield self._loss(part, count, behind[level], 1 / (number.group_sizes[level] * uplinks))
            if level == 0:
                optics = planes * number.switches[0] * ceil(uplinks / planes)
                yield self._loss("T0 optic to T1s", optics, behind[0], min(planes, uplinks) / uplinks)
        for level, size in enumerate(number.group_sizes):
            of_plane = 1 / size if level else 1
            yield self._loss(f"T{level}", planes * number.switches[level], behind[level], of_plane)
        yield self._loss("plane", planes, self.nics, 1)

    def _loss(self, part: str, count: int, nics: int, of_plane: float, *, planes: int = 1) -> PartLoss:
        of_nic = of_plane * planes / self.parts.planes
        return PartLoss(part, count, nics, planes, of_plane, of_nic, of_nic * nics / self.nics)

    @property
    def _t0_optics(self) -> int:
        """Optics of T0s at the host links, which they share as evenly as can be."""
        planes = self.parts.planes
        switches = planes * self.numbering.switches[0]
        fewer, with_one_more = divmod(self.host_links, switches)
        more = ceil((fewer + 1) / planes) * with_one_more
        return more + ceil(fewer / planes) * (switches - with_one_more)


def plan_fabric(parts: Parts, tiers: int, nics: int) -> Fabric:
    """The smallest fabric of two or three tiers for *nics* NICs, with all uplinks of T0s and T1s."""
    half, ports = parts.half, parts.switch_ports
    if nics > parts.largest_nics(tiers):
        raise UsageError(
            f"{nics:,} NICs do not fit: switches with {ports} ports of "
            f"{format_rate(parts.port_rate_bps)} reach {parts.largest_nics(tiers):,} in {tiers} tiers",
            hint="use more planes, larger switches, or --tiers 3"
            if tiers == 2
            else "use more planes or larger switches",
        )
    t0 = ceil(nics / half)
    pods = max(2, ceil(t0 / half))
    joins = [] if t0 == 1 else [t0] if tiers == 2 else [ceil(t0 / pods), pods]
    sizes = [TierSize(ceil(nics / prod(joins)))]
    for level, below in enumerate(joins, start=1):
        switches = _fewest(half, below, ports if level == len(joins) else half)
        sizes.append(TierSize(below, switches, half // switches))
    return Fabric(parts, tiers, nics, Numbering(parts.planes, tuple(sizes)))


def scaled(number: Numbering) -> Numbering:
    """A lab with the ratios of a fabric, of LAB_HOSTS_MAX hosts at most.

    Ports are divided by a divisor of the uplinks: switches as far as can be, parallel links by the rest.
    Hosts at a T0 and groups are rounded. The highest tier joins fewer groups where the hosts would be too
    many. The divisor is that which leaves the most hosts; of several the greatest.
    """
    labs = list[Numbering]()  # by rising divisor
    for divisor in range(1, max(1, number.uplink_count) + 1):
        if number.uplink_count % divisor == 0:
            *tiers, top = (_divided(tier, divisor) for tier in number.tiers)
            most = LAB_HOSTS_MAX // prod(tier.joins for tier in tiers)
            joins = min(most, max(2, top.joins))
            if joins > 1:
                labs.append(replace(number, tiers=(*tiers, top._replace(joins=joins))))
    return max(reversed(labs), key=lambda lab: lab.host_count)


def _divided(tier: TierSize, divisor: int) -> TierSize:
    shared = gcd(tier.switches, divisor)
    joins = max(1, round(tier.joins / divisor))
    return TierSize(joins, tier.switches // shared, max(1, tier.lanes * shared // divisor))


def _fewest(uplinks: int, below: int, ports: int) -> int:
    """The fewest switches to which *below* switches have equally many of their *uplinks*, within *ports*."""
    return next(
        above for above in range(1, uplinks + 1) if uplinks % above == 0 and below * uplinks // above <= ports
    )
