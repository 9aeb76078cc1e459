"""Limits of virtual time, and needs of a run in it, checked before the run begins."""

import resource
from collections.abc import Callable
from ctypes import sizeof
from pathlib import Path
from typing import Final

from mrc_agents.abi import Qp, VirtualLimit
from mrc_agents.nic.device import available_bytes
from mrc_testbed.document.problem import Location, Problem
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.demand import plan_demand
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import format_rate, format_size
from mrc_testbed.topology import port_queue, timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import link_delays_ns, port_rates_bps
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import parse_duration_ns
from mrc_testbed.workloads.load import place
from mrc_testbed.workloads.program import PEER_BYTES, check_connected

COMPUTE_VARIABLE: Final = "MRC_TORCH_COMPUTE"
"""Which mrc-torch reads."""

UNDECLARED: Final = "compute: virtual time does not measure how long a step computes"
HOW_TO_DECLARE: Final = "give a time, such as 100ms, or the file that `python -m mrc_torch.profile` writes"

_HOPS_PER_S: Final = 1_000_000
"""Frames that leave ports per second of a core: less than was measured with up to 64 NICs."""

_CACHED_NICS: Final = 64
"""NICs whose state a core's cache holds: with more, up to 1 024, half as many frames were measured."""

_LAB_BYTES: Final = 160 << 20
_NIC_BYTES: Final = 2 << 20
_PORT_BYTES: Final = 16 << 10


def pool_frames(clos: Clos) -> int:
    """Frames that can be under way at once: on every link, and in every queue until it is full."""
    rates_bps, delays_ns = port_rates_bps(clos), link_delays_ns(clos)
    data_bytes, control_bytes = timing.full_frame_bytes(clos), timing.control_frame_bytes(clos)
    frames = sum(
        rates_bps[port.id] * delays_ns[port.link_id] // (8 * 10**9 * control_bytes)
        + queue.data_buffer_bytes // data_bytes
        + queue.control_buffer_bytes // control_bytes
        for port, queue in zip(clos.ports(), port_queue.port_queues(clos), strict=True)
    )
    return min(VirtualLimit.FRAMES_MAX, frames)


def check_ports(spec: TopologySpec) -> None:
    """Refuse ports whose times virtual time cannot tell apart."""
    if not spec.is_shaped:
        raise UsageError(
            "virtual time needs ports with a rate: without one frames would arrive as soon as they are sent",
            hint="give the topology a port_rate",
        )
    clos = resolve_topology(spec)
    shortest_bytes = min(timing.control_frame_bytes(clos), timing.full_frame_bytes(clos) - spec.nic.path_mtu)
    fastest_bps, most_bps = max(port_rates_bps(clos)), shortest_bytes * 8 * 10**9
    if fastest_bps > most_bps:
        raise UsageError(
            f"a port of {format_rate(fastest_bps)} sends a trimmed packet of {shortest_bytes} bytes in less "
            f"than 1 ns, which is as fine as virtual time is; up to {format_rate(most_bps)} is exact"
        )


def declared_compute(workload: str, text: str | None) -> str:
    """The time that a step computes, as mrc-torch reads it: ns, or the path of a profile."""
    if text is None:
        raise UsageError(f"workload {workload}: {UNDECLARED}", hint=HOW_TO_DECLARE)
    path = Path(text)
    if path.is_file():
        return str(path.resolve())
    try:
        return str(parse_duration_ns(text))
    except UsageError as error:
        raise UsageError(f"workload {workload}: compute: there is no such file; {error.message}") from error


def check_programs(plan: Plan) -> None:
    """Raise UsageError if what a step computes is not declared, or there are too many ranks."""
    for workload in plan.workloads:
        if workload.program is not None:
            declared_compute(workload.name, workload.program.compute)
            check_connected(len(workload.program.hosts))


def memory_bytes(plan: Plan) -> int:
    """Memory that a run takes, about: its messages' memory, its QPs, and what each NIC and port has."""
    clos = resolve_topology(plan.topology)
    loads = [workload.load for workload in plan.workloads]
    layouts = place(loads, dict.fromkeys((host.name for host in clos.hosts()), plan.topology.nic.memory))
    regions_bytes = 0
    qps = sum(len(load.flows) * (1 if load.trace else 2) for load in loads)
    for load in loads:
        if load.program is not None:
            regions_bytes += len(load.hosts) * load.program.peer_memory_bytes
            qps += len(load.hosts) * (len(load.hosts) - 1)
        elif load.trace is not None:
            regions_bytes += len(load.flows) * PEER_BYTES
        elif load.collective is not None:
            regions_bytes += len(load.hosts) * load.collective.memory_bytes()
        else:
            layout = layouts[load.name]
            regions_bytes += len(load.flows) * (layout.local_bytes + layout.remote_bytes)
    number = clos.numbering
    return (
        _LAB_BYTES
        + regions_bytes
        + qps * sizeof(Qp)
        + number.host_count * _NIC_BYTES
        + number.port_count * _PORT_BYTES
    )


def allowed_bytes() -> int:
    """Memory that this process may still take."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    available = available_bytes()
    return available if allowed == resource.RLIM_INFINITY else min(available, allowed)


def problems_of(plan: Plan) -> list[Problem]:
    """Obstacles to a run of a plan in virtual time, each with its place in the scenario file."""
    problems = [
        *_refused(("spec", "topology", "port_rate"), lambda: check_ports(plan.topology)),
        *_refused(("spec", "workloads"), lambda: check_programs(plan)),
    ]
    if problems:
        return problems
    needed, available = memory_bytes(plan), allowed_bytes()
    if needed > available:
        hosts = resolve_topology(plan.topology).numbering.host_count
        problems.append(
            Problem(
                ("spec", "topology"),
                f"{hosts} hosts take about {format_size(needed)} of memory in virtual time, and "
                f"{format_size(available)} is available: enough for about {hosts * available // needed}",
            )
        )
    return problems


def duration_ns(plan: Plan) -> int | None:
    """Time of this machine that a run may take, at most; None where it ends by iterations."""
    if plan.end_ns is None:
        return None
    rate = _HOPS_PER_S if plan.topology.numbering.host_count <= _CACHED_NICS else _HOPS_PER_S // 2
    return round(plan_demand(plan).frame_hops_per_s * (plan.end_ns - plan.start_ns) / rate)


def _refused(where: Location, check: Callable[[], None]) -> list[Problem]:
    try:
        check()
    except UsageError as error:
        return [Problem(where, "; ".join(filter(None, (error.message, error.hint))))]
    return []
