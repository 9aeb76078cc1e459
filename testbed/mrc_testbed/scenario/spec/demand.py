"""Load that a fabric, scenario or bench can offer, beside what a machine is assumed to carry in time.

Nothing is refused by it: what a machine carries shows when it does, and every run is judged.
"""

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import IdleFabric, full_frame_bytes
from mrc_testbed.units import format_rate_bps
from mrc_testbed.workloads.load import Load

_FRAMES_PER_PACKET: Final = 2
"""A data packet, and the SACK that answers it."""

ASSUMED_FRAME_HOPS_PER_S: Final = 600_000
"""Frames that leave the ports of a shaped lab in time on two cores; docs/explanation/fidelity.md."""


class OfferedFlow(NamedTuple):
    """The load of one flow on a fabric."""

    source: int  # number of the host that sends data
    target: int  # number of the host that answers
    depth: int | None = None  # messages that may be unanswered; None: as many as it takes to fill the ports
    size_bytes: int = 0  # payload of a message; means nothing without a depth


def frame_hops_per_s(clos: Clos, flows: Iterable[OfferedFlow]) -> float:
    """Frames that leave ports per second, at most: every flow sends as fast as the ports on its way allow.

    Flows share the ports of a NIC, and the uplinks of a T0 or pod, equally, in all planes alike; none has
    more under way than its depth allows in an idle RTT. 0 for an unshaped fabric, whose flows go as fast as
    the machine.
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
        links = 2 * (clos.distance(flow.source, flow.target) + 1)
        packets_per_s = min(sum(shares_bps) / bits_per_packet, _answered_per_s(clos, flow, idle_fabric))
        frames_per_s += packets_per_s * links * _FRAMES_PER_PACKET
    return frames_per_s


def all_hosts_at_once(clos: Clos) -> Sequence[OfferedFlow]:
    """A flow from every host to the next in its place far away: the most a fabric can be asked for."""
    hosts, shift = clos.numbering.host_count, clos.numbering.far_shift
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
    for level in range(1, number.diameter + 1):
        size = number.group_sizes[level - 1]
        groups = [
            [number.group(level - 1, number.row(host)) for host in pair if clos.distance(*pair) >= level]
            for pair in pairs
        ]
        asked_bps, ports_bps = defaultdict[tuple[int, int], float](float), Counter[tuple[int, int]]()
        for share_bps, ends in zip(shares_bps, groups, strict=True):
            for at in enumerate(ends):
                asked_bps[at] += share_bps
        for link in number.links_at(level):
            place = number.link_place(link)
            if place.plane == plane:
                for end in (0, 1):
                    ports_bps[end, place.lower // size] += rates_bps[2 * link + end]
        for index, ends in enumerate(groups):
            shares_bps[index] *= min([1.0, *(ports_bps[at] / asked_bps[at] for at in enumerate(ends))])
    return shares_bps


@dataclass(frozen=True, slots=True)
class Demand:
    """Frames that may leave ports per second."""

    frame_hops_per_s: float = 0.0  # at most, by the ports' rates; 0 without one
    port_rate_bps: int = 0

    @property
    def is_beyond(self) -> bool:
        """Return True if it is more than is assumed to leave in time."""
        return self.frame_hops_per_s > ASSUMED_FRAME_HOPS_PER_S

    def __str__(self) -> str:
        """One line with the assumed rate, and what fits where the load is more."""
        line = (
            f"up to {_frames(self.frame_hops_per_s)} frame hops/s; this machine is assumed to carry "
            f"{_frames(ASSUMED_FRAME_HOPS_PER_S)} in time"
        )
        if not self.is_beyond:
            return line
        return f"{line}: a port_rate of {self.fitting_rate()} fits, and with --virtual any"

    def fitting_rate(self, carried_frame_hops_per_s: float = ASSUMED_FRAME_HOPS_PER_S) -> str:
        """Return the port rate at which the same flows are carried, in two digits and not rounded up."""
        fitting_bps = self.port_rate_bps * carried_frame_hops_per_s / self.frame_hops_per_s
        digit = 10 ** max(0, math.floor(math.log10(fitting_bps)) - 1)
        return format_rate_bps(int(fitting_bps // digit) * digit)


def fabric_demand(spec: TopologySpec) -> Demand:
    """Return the demand of all hosts of a fabric that send at once."""
    clos = resolve_topology(spec)
    return Demand(frame_hops_per_s(clos, all_hosts_at_once(clos)), spec.port_rate or 0)


def plan_demand(plan: Plan) -> Demand:
    """Return the demand of a scenario's workloads, as if all ran at once."""
    clos = resolve_topology(plan.topology)
    flows = [flow for workload in plan.workloads for flow in _offered(clos, workload.load)]
    return Demand(frame_hops_per_s(clos, flows), plan.topology.port_rate or 0)


def _offered(clos: Clos, load: Load) -> list[OfferedFlow]:
    """Its flows; a collective has more messages under way than its depth says."""
    depth = load.depth if load.collective is None else None
    return [
        OfferedFlow(clos.node(flow.source).index, clos.node(flow.target).index, depth, load.size_bytes)
        for flow in load.flows
    ]


def _frames(count: float) -> str:
    return f"{count / 1e6:.2f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"
