"""How many frames a fabric has to move for given flows: what a machine that carries it must be able to do."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from testbed.topology.port_selection import port_rates_bps
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
    if not clos.spec.is_shaped:
        return 0.0
    pairs = list(flows)
    links = [_LOCAL_LINKS if clos.is_local(*pair) else _CROSS_T1_LINKS for pair in pairs]
    rates_bps = port_rates_bps(clos)
    bits_per_frame = 8 * full_frame_bytes(clos)
    return sum(
        share_bps * count * _FRAMES_PER_PACKET / bits_per_frame
        for plane in range(clos.spec.planes)
        for share_bps, count in zip(_shares_bps(clos, pairs, plane, rates_bps), links, strict=True)
    )


def all_hosts_at_once(clos: "Clos") -> Sequence[tuple[int, int]]:
    """A flow from every host to the one in its place at the next T0: the most a fabric can be asked for."""
    hosts, shift = clos.numbering.host_count, clos.spec.hosts_per_t0 if clos.spec.t0 > 1 else 1
    return [(host, (host + shift) % hosts) for host in range(hosts)]


def _shares_bps(
    clos: "Clos", pairs: Sequence[tuple[int, int]], plane: int, rates_bps: Sequence[int]
) -> list[float]:
    """What each flow can have of the ports on its way through *plane*."""
    number = clos.numbering
    senders, receivers = Counter(source for source, _ in pairs), Counter(target for _, target in pairs)
    shares_bps = [
        min(
            rates_bps[2 * number.host_link_id(source, plane)] / senders[source],
            rates_bps[2 * number.host_link_id(target, plane) + 1] / receivers[target],
        )
        for source, target in pairs
    ]
    leaving_bps, reaching_bps = [0.0] * clos.spec.t0, [0.0] * clos.spec.t0
    for (source, target), share_bps in zip(pairs, shares_bps, strict=True):
        if not clos.is_local(source, target):
            leaving_bps[number.row(source)] += share_bps
            reaching_bps[number.row(target)] += share_bps
    first = [2 * number.fabric_link_id(plane, t0, 0) for t0 in range(clos.spec.t0 + 1)]
    up_bps, down_bps = (
        [sum(rates_bps[begin + end : until : 2]) for begin, until in pairwise(first)] for end in (0, 1)
    )
    for index, (source, target) in enumerate(pairs):
        if not clos.is_local(source, target):
            leaving, reaching = number.row(source), number.row(target)
            shares_bps[index] *= min(
                1.0, up_bps[leaving] / leaving_bps[leaving], down_bps[reaching] / reaching_bps[reaching]
            )
    return shares_bps
