"""The link probes of a host, source routes that lead to a switch and back, and their outcomes.

    to a T0    T0 : downlink of the host                        crosses the host's link twice
    to a T1    T0 : T1 : T0, lane : downlink                    crosses the host's link and an uplink twice
    to a T2    T0 : T1 : T2 : T1, lane : T0, lane : downlink    and an uplink of the T1

Hosts of one T0 share its uplinks out: each takes a run of them that begins at its own place, so that together
they probe every uplink, most of them more than once. Hosts of a pod likewise share out the uplinks of its
T1s, neighbours in their order being of different T0s; each uplink is probed by as many hosts as one of a T0.

Source: docs/reference/protocol.md, "Link probes"; the paper, section 4 (Clustermapper).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from math import ceil
from operator import mul
from typing import Final

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.numbering import Numbering
from mrc_testbed.topology.probing_spec import ProbingSpec
from mrc_testbed.topology.usid import row_template


@dataclass(frozen=True, slots=True)
class ProbePath:
    """The way of one link probe."""

    host: int  # who sends it
    plane: int  # it stays in
    uplink: int | None  # its way (see `numbering`), that it goes up by; None if it turns round at the T0
    carrier: IPv6Address  # its outer destination address
    links: tuple[int, ...]  # ids of those that it crosses, there and back: the host's, and the uplinks


def probed_ways(number: Numbering, host: int, probing: ProbingSpec) -> Iterator[list[int]]:
    """The uplinks on the way up of each probe of *host* in a plane: none, those of its T0, those of T1s."""
    count, per_t0 = number.uplink_count, number.hosts_per_t0
    own = probing.uplinks_per_host(count)
    yield []
    yield from ([uplink] for uplink in _run(number.downlink(host), per_t0, count, own))
    for tier in number.tiers[1:-1]:  # there is one such tier, T1, or none
        shared = number.group_sizes[1] * number.uplinks[1]
        place = number.downlink(host) * tier.joins + number.row(host) % tier.joins
        for link in _run(place, per_t0 * tier.joins, shared, ceil(shared * own / (count * tier.joins))):
            uplink, t1 = divmod(link, number.group_sizes[1])
            yield [t1 * tier.lanes + place % tier.lanes, uplink]


def _run(place: int, hosts: int, count: int, length: int) -> list[int]:
    """The share of one of *hosts* in *count* links, in rising order."""
    first = place * count // hosts
    return sorted((first + i) % count for i in range(length))


def probe_paths(clos: Clos, host: int, probing: ProbingSpec | None = None) -> tuple[ProbePath, ...]:
    """The link probes of a round of *host*, plane by plane, that to the T0 first; none without source routes.

    Args:
        probing: that of the topology by default, or the default one.
    """
    if clos.spec.forwarding != "srv6":
        return ()
    probing = probing or clos.spec.probing or ProbingSpec()
    ways = list(probed_ways(clos.numbering, clos.host(host).index, probing))
    return tuple(
        _probe_path(clos.numbering, host, plane, way) for plane in range(clos.spec.planes) for way in ways
    )


def _probe_path(number: Numbering, host: int, plane: int, uplinks: Sequence[int]) -> ProbePath:
    row = number.row(host)
    template = row_template(number, row, row, distance=len(uplinks)).specialise(number.downlink(host))
    way = sum(map(mul, uplinks, (1, number.uplink_count))) if uplinks else None
    links = (number.host_link_id(host, plane), *number.links_up(plane, row, uplinks))
    return ProbePath(host, plane, way, template.deposit(plane, uplinks), links)


@dataclass(frozen=True, slots=True)
class PathOutcome:
    """Link probes of one path whose time was up."""

    path: ProbePath  # their way
    passed: int  # came back in time
    failed: int  # did not
    late: int = 0  # of those that failed, how many came back after all: a slow machine, not a broken link
    rtt_sum_ns: int = 0  # round-trip times of those that passed, added up

    @property
    def returned(self) -> int:
        return self.passed + min(self.late, self.failed)

    @property
    def lost(self) -> int:
        return self.failed - min(self.late, self.failed)


def since(later: Sequence[PathOutcome], earlier: Sequence[PathOutcome]) -> tuple[PathOutcome, ...]:
    """The difference between two counts of the same paths."""
    return tuple(
        PathOutcome(
            new.path,
            new.passed - old.passed,
            new.failed - old.failed,
            new.late - old.late,
            new.rtt_sum_ns - old.rtt_sum_ns,
        )
        for new, old in zip(later, earlier, strict=True)
    )


_PROBES: Final = 1600
"""Probes across a link: a loss of half a percent, one way, takes five or more in nine cases of ten."""

_INTERVAL_MIN_NS: Final = 5_000_000
_PROBES_PER_SECOND: Final = 20_000
_PROBE_BITS: Final = 134 * 8
_PORT_SHARE: Final = 0.05


def rounds_wanted(outcomes: Iterable[PathOutcome]) -> int:
    """Rounds of probes after which a loss of half a percent shows on every link that *outcomes* are about."""
    crossing = Counter(link for outcome in outcomes for link in outcome.path.links)
    return -(-_PROBES // min(crossing.values(), default=1))


def quick_interval_ns(clos: Clos) -> int:
    """Time between rounds at which probes take neither the machine nor more than a twentieth of a port."""
    per_host = len(probe_paths(clos, 0))
    by_machine_ns = per_host * clos.numbering.host_count * 10**9 // _PROBES_PER_SECOND
    rate_bps = clos.spec.port_rate
    by_port_ns = per_host / clos.spec.planes * _PROBE_BITS * 1e9 / (rate_bps * _PORT_SHARE) if rate_bps else 0
    return max(_INTERVAL_MIN_NS, by_machine_ns, round(by_port_ns))
