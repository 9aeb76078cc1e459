"""Weighs what a fabric, scenario or bench can ask for against what this machine carries, before it starts.

It only reports; whether to go on is up to the caller. The commands refuse what is beyond the ceiling
(mrc_testbed.cli.overload). Programs that bring labs up do as they please, and the guard judges every run.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mrc_testbed.metrics.capacity import (
    UNTRUSTED_RUN,
    Capacity,
    overload_refusal,
    overload_warning,
    timely_frame_hops_per_s,
)
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.offered_load import OfferedFlow, all_hosts_at_once, frame_hops_per_s
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import format_rate_bps
from mrc_testbed.workloads.load import Load

_EASE_OF_DIRECT_LINKS: Final = 2.0
"""A frame that crosses no interface takes half the work; docs/explanation/queue-engine.md, Figures."""


@dataclass(frozen=True, slots=True)
class Overload:
    """More than this machine carries in time."""

    text: str  # what is asked, and what the machine carries
    is_hopeless: bool  # it is more than the machine carries at all, so that no run could be right
    remedies: tuple[str, ...] = ()  # what to do about what is hopeless, in imperatives


def topology_overload(spec: TopologySpec, known: Capacity | None) -> Overload | None:
    """The overload of a fabric; None when the machine can carry all its hosts.

    Ports allow more than any one use asks, so it is hopeless only if two hosts alone are too much.

    Args:
        spec: the fabric.
        known: what was measured of this machine; None: nothing.
    """
    clos = resolve_topology(spec)
    all_needed = frame_hops_per_s(clos, all_hosts_at_once(clos))
    pair_needed = frame_hops_per_s(clos, [OfferedFlow(0, 1)])
    pair = f"even two hosts with ports of {_rate(spec)}"
    refusal = overload_refusal(pair_needed, pair, known, ease=_ease(spec))
    if refusal is not None:
        return Overload(refusal, is_hopeless=True, remedies=(_slower(spec, all_needed, known),))
    warning = overload_warning(all_needed, f"all {clos.numbering.host_count} hosts sending at once", known)
    return None if warning is None else Overload(warning, is_hopeless=False)


def plan_overload(plan: Plan, known: Capacity | None) -> Overload | None:
    """The overload of a scenario; None when the machine can carry its workloads.

    Args:
        plan: of the scenario.
        known: what was measured of this machine; None: nothing.
    """
    loads = [workload.load for workload in plan.workloads]
    return _loads_overload(
        plan.topology, loads, "this scenario's workloads", known, ease=_ease(plan.topology)
    )


def plan_frame_hops(plan: Plan) -> float:
    """Frames that a scenario's workloads let leave ports per second, at most."""
    clos = resolve_topology(plan.topology)
    return frame_hops_per_s(
        clos, [flow for workload in plan.workloads for flow in _offered(clos, workload.load)]
    )


def bench_overload(
    spec: TopologySpec, load: Load, who: str, known: Capacity | None, *, has_direct_links: bool
) -> Overload | None:
    """The overload of a load on a lab that is up; None when the machine can carry it.

    Args:
        spec: the fabric.
        load: what is to be sent.
        who: what to call it, such as "bench sendrecv".
        known: what was measured of this machine; None: nothing.
        has_direct_links: whether the lab has any now, whatever its topology says.
    """
    ease = _ease(spec, has_direct_links=has_direct_links)
    result = "what is measured is this machine, not the fabric"
    return _loads_overload(spec, [load], who, known, ease=ease, result=result)


def _loads_overload(
    spec: TopologySpec,
    loads: Iterable[Load],
    who: str,
    known: Capacity | None,
    *,
    ease: float,
    result: str = UNTRUSTED_RUN,
) -> Overload | None:
    clos = resolve_topology(spec)
    needed = frame_hops_per_s(clos, [flow for load in loads for flow in _offered(clos, load)])
    refusal = overload_refusal(needed, f"{who}, with ports of {_rate(spec)},", known, ease=ease)
    if refusal is not None:
        remedies = (_slower(spec, needed, known), "use fewer hosts")
        return Overload(refusal, is_hopeless=True, remedies=remedies)
    warning = overload_warning(needed, who, known, result=result)
    return None if warning is None else Overload(warning, is_hopeless=False)


def _offered(clos: Clos, load: Load) -> list[OfferedFlow]:
    """Its flows; a collective has more messages under way than its depth says."""
    depth = load.depth if load.collective is None else None
    return [
        OfferedFlow(clos.node(flow.source).index, clos.node(flow.target).index, depth, load.size_bytes)
        for flow in load.flows
    ]


def _ease(spec: TopologySpec, *, has_direct_links: bool | None = None) -> float:
    """The factor over one drainer and veth links that the machine can at best carry."""
    queue = spec.queue
    if has_direct_links is None:
        has_direct_links = "direct" in (queue.links, *(override.links for override in queue.overrides))
    return queue.drainers * (_EASE_OF_DIRECT_LINKS if has_direct_links else 1.0)


def _rate(spec: TopologySpec) -> str:
    return format_rate_bps(spec.port_rate or 0)


def _slower(spec: TopologySpec, needed_frame_hops_per_s: float, known: Capacity | None) -> str:
    """The rate at which the same flows are in time, in two digits and not rounded up."""
    fitting_bps = (spec.port_rate or 0) * timely_frame_hops_per_s(known) / needed_frame_hops_per_s
    digit = 10 ** max(0, math.floor(math.log10(fitting_bps)) - 1)
    return f"lower port_rate to {format_rate_bps(int(fitting_bps // digit) * digit)}"
