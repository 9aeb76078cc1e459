"""The number of link probes that shows a small loss, and the rate at which a lab can send them. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import PathOutcome, probe_paths

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
