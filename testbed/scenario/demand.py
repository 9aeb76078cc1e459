"""Warns before a run when the fabric asked for is more than this machine can carry."""

from testbed.metrics.capacity import overload_warning
from testbed.scenario.plan import Plan
from testbed.topology.clos import Clos
from testbed.topology.offered_load import all_hosts_at_once, frame_hops_per_s
from testbed.topology.spec import TopologySpec


def topology_warning(spec: TopologySpec) -> str | None:
    """What to say about a fabric before it is brought up; None when the machine can carry all its hosts."""
    clos = Clos(spec)
    needed = frame_hops_per_s(clos, all_hosts_at_once(clos))
    return overload_warning(needed, f"all {clos.numbering.host_count} hosts sending at once")


def plan_warning(plan: Plan) -> str | None:
    """What to say about a scenario before it is run; None when the machine can carry its workloads."""
    clos = Clos(plan.topology)
    flows = [
        (clos.node(flow.source).index, clos.node(flow.target).index)
        for workload in plan.workloads
        for flow in workload.flows
    ]
    return overload_warning(frame_hops_per_s(clos, flows), "this scenario's workloads")
