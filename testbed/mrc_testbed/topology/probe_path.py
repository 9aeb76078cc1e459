"""The link probes of a host, source routes that lead to a switch and back, and their outcomes.

    to a T0    T0 : downlink of the host                 crosses the host's link twice
    to a T1    T0 : T1 : T0, lane : downlink             crosses the host's link and an uplink twice

Hosts of one T0 share its uplinks out: each takes a run of them that begins at its own place, so that together
they probe every uplink, most of them more than once.

Source: docs/reference/protocol.md, "Link probes"; the paper, section 4 (Clustermapper).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probing_spec import ProbingSpec
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.usid import Role, Usid, pack_carrier


@dataclass(frozen=True, slots=True)
class ProbePath:
    """The way of one link probe."""

    host: int  # who sends it
    plane: int  # it stays in
    uplink: int | None  # of the host's T0, that it goes up by; None if it turns round at the T0
    carrier: IPv6Address  # its outer destination address
    # ids of the links it crosses, there and back: the host's, and the uplink if there is one
    links: tuple[int, ...]


def probed_uplinks(spec: TopologySpec, probing: ProbingSpec, downlink: int) -> tuple[int, ...]:
    """The uplinks that the host at *downlink* of a T0 probes in every plane, in rising order."""
    count = spec.numbering.uplink_count
    first = downlink * count // spec.numbering.hosts_per_t0
    return tuple(sorted((first + i) % count for i in range(probing.uplinks_per_host(count))))


def probe_paths(clos: Clos, host: int, probing: ProbingSpec | None = None) -> tuple[ProbePath, ...]:
    """The link probes of a round of *host*, plane by plane, that to the T0 first; none without source routes.

    Args:
        probing: that of the topology by default, or the default one.
    """
    if clos.spec.forwarding != "srv6":
        return ()
    probing = probing or clos.spec.probing or ProbingSpec()
    uplinks = probed_uplinks(clos.spec, probing, clos.numbering.downlink(clos.host(host).index))
    return tuple(
        path for plane in range(clos.spec.planes) for path in _paths_in_plane(clos, host, plane, uplinks)
    )


def _paths_in_plane(clos: Clos, host: int, plane: int, uplinks: tuple[int, ...]) -> Iterator[ProbePath]:
    lanes, row = clos.numbering.tiers[1].lanes, clos.numbering.row(host)
    own = clos.numbering.host_link_id(host, plane)
    t0 = Usid(Role.T0, plane, row * lanes)
    home = Usid(Role.DOWNLINK, plane, clos.numbering.downlink(host))
    yield ProbePath(host, plane, None, pack_carrier((t0, home)), (own,))
    for uplink in uplinks:
        back = Usid(Role.T0, plane, row * lanes + uplink % lanes)
        carrier = pack_carrier((t0, Usid(Role.T1, plane, uplink), back, home))
        yield ProbePath(host, plane, uplink, carrier, (own, clos.numbering.uplink_id(0, plane, row, uplink)))


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
