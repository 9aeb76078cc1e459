"""How many frames a fabric has to move for given flows: what a machine that carries it must be able to do."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from testbed.topology.timing import full_frame_bytes

if TYPE_CHECKING:
    from testbed.topology.clos import Clos

_FRAMES_PER_PACKET: Final = 2
"""A data packet, and the SACK that answers it."""

_LOCAL_LINKS: Final = 2
_CROSS_T1_LINKS: Final = 4


def frame_hops_per_s(clos: "Clos", flows: Iterable[tuple[int, int]]) -> float:
    """Frames that leave ports per second, at most: every flow sends as fast as the ports on its way allow.

    Flows share the ports of a NIC, and the uplinks of a T0, equally, in all planes alike. 0 for an unshaped
    fabric, whose flows go as fast as the machine.

    Args:
        clos: the fabric.
        flows: pairs of host numbers, one per flow; data goes from the first to the second.
    """
    rate_bps = clos.spec.port_rate
    if rate_bps is None:
        return 0.0
    pairs = list(flows)
    shares = _shares(clos, pairs)
    packets_per_s = clos.spec.planes * rate_bps / (8 * full_frame_bytes(clos))
    links = (_LOCAL_LINKS if clos.is_local(*pair) else _CROSS_T1_LINKS for pair in pairs)
    return sum(share * count for share, count in zip(shares, links, strict=True)) * (
        packets_per_s * _FRAMES_PER_PACKET
    )


def all_hosts_at_once(clos: "Clos") -> Sequence[tuple[int, int]]:
    """A flow from every host to the one in its place at the next T0: the most a fabric can be asked for."""
    hosts, shift = clos.numbering.host_count, clos.spec.hosts_per_t0 if clos.spec.t0 > 1 else 1
    return [(host, (host + shift) % hosts) for host in range(hosts)]


def _shares(clos: "Clos", pairs: Sequence[tuple[int, int]]) -> list[float]:
    """What each flow can have of one port per plane."""
    senders, receivers = Counter(source for source, _ in pairs), Counter(target for _, target in pairs)
    shares = [1 / max(senders[source], receivers[target]) for source, target in pairs]
    uplinks = clos.spec.t1 * clos.spec.uplinks_per_pair
    hosts_per_t0 = clos.spec.hosts_per_t0
    leaving, reaching = [0.0] * clos.spec.t0, [0.0] * clos.spec.t0
    for (source, target), share in zip(pairs, shares, strict=True):
        if not clos.is_local(source, target):
            leaving[source // hosts_per_t0] += share
            reaching[target // hosts_per_t0] += share
    for index, (source, target) in enumerate(pairs):
        if not clos.is_local(source, target):
            crowd = max(leaving[source // hosts_per_t0], reaching[target // hosts_per_t0])
            shares[index] *= min(1.0, uplinks / crowd)
    return shares
