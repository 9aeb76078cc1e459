"""The frames that a fabric has to move for given flows: the load on a machine that carries it."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.timing import IdleFabric, full_frame_bytes

_FRAMES_PER_PACKET: Final = 2
"""A data packet, and the SACK that answers it."""

_LOCAL_LINKS: Final = 2
_CROSS_T1_LINKS: Final = 4


class OfferedFlow(NamedTuple):
    """The load of one flow on a fabric."""

    source: int  # number of the host that sends data
    target: int  # number of the host that answers
    depth: int | None = None  # messages that may be unanswered; None: as many as it takes to fill the ports
    size_bytes: int = 0  # payload of a message; means nothing without a depth


def frame_hops_per_s(clos: Clos, flows: Iterable[OfferedFlow]) -> float:
    """Frames that leave ports per second, at most: every flow sends as fast as the ports on its way allow.

    Flows share the ports of a NIC, and the uplinks of a T0, equally, in all planes alike; none has more under
    way than its depth allows in an idle RTT. 0 for an unshaped fabric, whose flows go as fast as the machine.

    Args:
        clos: the fabric.
        flows: all that send at once.
    """
    if not clos.spec.is_shaped:
        return 0.0
    offered = list(flows)
    pairs = [(flow.source, flow.target) for flow in offered]
    rates_bps = port_rates_bps(clos)
    planes = (_shares_bps(clos, pairs, plane, rates_bps) for plane in range(clos.spec.planes))
    bits_per_packet = 8 * full_frame_bytes(clos)
    idle_fabric = functools.cache(lambda frame_bytes: IdleFabric(clos, frame_bytes))
    frames_per_s = 0.0
    for flow, shares_bps in zip(offered, zip(*planes, strict=True), strict=True):
        links = _LOCAL_LINKS if clos.is_local(flow.source, flow.target) else _CROSS_T1_LINKS
        packets_per_s = min(sum(shares_bps) / bits_per_packet, _answered_per_s(clos, flow, idle_fabric))
        frames_per_s += packets_per_s * links * _FRAMES_PER_PACKET
    return frames_per_s


def all_hosts_at_once(clos: Clos) -> Sequence[OfferedFlow]:
    """A flow from every host to the one in its place at the next T0: the most a fabric can be asked for."""
    hosts, shift = clos.numbering.host_count, clos.spec.hosts_per_t0 if clos.spec.t0 > 1 else 1
    return [OfferedFlow(host, (host + shift) % hosts) for host in range(hosts)]


def _answered_per_s(clos: Clos, flow: OfferedFlow, idle_fabric: Callable[[int], IdleFabric]) -> float:
    """Packets per second at which all that may be unanswered is answered within an idle RTT."""
    if flow.depth is None:
        return math.inf
    path_mtu = clos.spec.nic.path_mtu
    frame_bytes = full_frame_bytes(clos) - path_mtu + min(flow.size_bytes, path_mtu)
    rtt_ns = idle_fabric(frame_bytes).rtt_ns(flow.source, flow.target)
    return flow.depth * math.ceil(flow.size_bytes / path_mtu) * 1e9 / rtt_ns


def _shares_bps(
    clos: Clos, pairs: Sequence[tuple[int, int]], plane: int, rates_bps: Sequence[int]
) -> list[float]:
    """Rate that each flow can have of the ports on its way through *plane*."""
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
