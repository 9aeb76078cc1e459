"""Weighs what a fabric or a scenario can ask for against what this machine carries, before anything is made.

It only tells; whether to go on is up to the caller. The commands refuse what is beyond the ceiling
(testbed.cli.overload). Programs that bring labs up do as they please, and the guard judges every run.
"""

import math
from dataclasses import dataclass
from typing import Final

from testbed.metrics.capacity import Capacity, overload_refusal, overload_warning, timely_frame_hops_per_s
from testbed.scenario.plan import Plan, PlannedWorkload
from testbed.topology.clos import Clos
from testbed.topology.offered_load import OfferedFlow, all_hosts_at_once, frame_hops_per_s
from testbed.topology.spec import TopologySpec
from testbed.units import format_rate_bps

_EASE_OF_DIRECT_LINKS: Final = 2.0
"""A frame that crosses no interface takes half the work; docs/queue-engine.md, Figures."""


@dataclass(frozen=True, slots=True)
class Overload:
    """More than this machine carries in time.

    Attributes:
        text: what is asked, and what the machine carries.
        is_hopeless: it is more than the machine carries at all, so that no run could be right.
        remedies: what to do about what is hopeless, in imperatives.
    """

    text: str
    is_hopeless: bool
    remedies: tuple[str, ...] = ()


def topology_overload(spec: TopologySpec, known: Capacity | None) -> Overload | None:
    """What is too much about a fabric; None when the machine can carry all its hosts.

    Ports allow more than any one use asks, so it is hopeless only if two hosts alone are too much.

    Args:
        spec: the fabric.
        known: what was measured of this machine; None: nothing.
    """
    clos = Clos(spec)
    all_needed = frame_hops_per_s(clos, all_hosts_at_once(clos))
    pair_needed = frame_hops_per_s(clos, [OfferedFlow(0, 1)])
    pair = f"even two hosts with ports of {_rate(spec)}"
    refusal = overload_refusal(pair_needed, pair, known, ease=_ease(spec))
    if refusal is not None:
        return Overload(refusal, is_hopeless=True, remedies=(_slower(spec, all_needed, known),))
    warning = overload_warning(all_needed, f"all {clos.numbering.host_count} hosts sending at once", known)
    return None if warning is None else Overload(warning, is_hopeless=False)


def plan_overload(plan: Plan, known: Capacity | None) -> Overload | None:
    """What is too much about a scenario; None when the machine can carry its workloads.

    Args:
        plan: of the scenario.
        known: what was measured of this machine; None: nothing.
    """
    spec = plan.topology
    clos = Clos(spec)
    needed = frame_hops_per_s(
        clos, [flow for workload in plan.workloads for flow in _offered(clos, workload)]
    )
    who = "this scenario's workloads"
    refusal = overload_refusal(needed, f"{who}, with ports of {_rate(spec)},", known, ease=_ease(spec))
    if refusal is not None:
        remedies = (_slower(spec, needed, known), "use fewer hosts")
        return Overload(refusal, is_hopeless=True, remedies=remedies)
    warning = overload_warning(needed, who, known)
    return None if warning is None else Overload(warning, is_hopeless=False)


def _offered(clos: Clos, workload: PlannedWorkload) -> list[OfferedFlow]:
    """Its flows; a collective has more messages under way than its depth says."""
    depth = workload.depth if workload.collective is None else None
    return [
        OfferedFlow(clos.node(flow.source).index, clos.node(flow.target).index, depth, workload.size_bytes)
        for flow in workload.flows
    ]


def _ease(spec: TopologySpec) -> float:
    """How many times as much as with one drainer and veth links the machine can at best carry."""
    queue = spec.queue
    has_direct_links = "direct" in (queue.links, *(override.links for override in queue.overrides))
    return queue.drainers * (_EASE_OF_DIRECT_LINKS if has_direct_links else 1.0)


def _rate(spec: TopologySpec) -> str:
    return format_rate_bps(spec.port_rate or 0)


def _slower(spec: TopologySpec, needed_frame_hops_per_s: float, known: Capacity | None) -> str:
    """The rate at which the same flows are in time, in two digits and not rounded up."""
    fitting_bps = (spec.port_rate or 0) * timely_frame_hops_per_s(known) / needed_frame_hops_per_s
    digit = 10 ** max(0, math.floor(math.log10(fitting_bps)) - 1)
    return f"lower port_rate to {format_rate_bps(int(fitting_bps // digit) * digit)}"
