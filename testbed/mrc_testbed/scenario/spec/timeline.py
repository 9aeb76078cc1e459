"""A plan as one list of things to do in order, and as text for people. Pure."""

from dataclasses import dataclass
from typing import Literal

from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.scenario.spec.plan import Plan, PlannedWorkload
from mrc_testbed.shown import format_rate
from mrc_testbed.topology.port_selection import other_rates
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.units import format_duration_ns, format_size_bytes

_LINKS_SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class StartWorkload:
    at_ns: int
    name: str


@dataclass(frozen=True, slots=True)
class EndWarmup:
    """Time 0: what is measured begins here."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class StopWorkload:
    at_ns: int
    name: str


@dataclass(frozen=True, slots=True)
class ChangeFault:
    """A fault begins or ceases to act; *index* is that of the period."""

    at_ns: int
    action: Literal["apply", "clear"]
    fault: ScheduledFault
    index: int


Action = StartWorkload | EndWarmup | StopWorkload | ChangeFault


def build_timeline(plan: Plan) -> tuple[Action, ...]:
    """All that is to be done, in order.

    At one instant: faults are cleared, workloads stop, warm-up ends, workloads start, and what is applied
    comes last, in the order of the file. Occurrences without an end are not cleared here.
    """
    actions: list[Action] = [EndWarmup(0)]
    for workload in plan.workloads:
        actions.append(StartWorkload(workload.start_ns, workload.name))
        if workload.duration_ns is not None:
            actions.append(StopWorkload(workload.duration_ns, workload.name))
    for fault in plan.faults:
        for index, (start_ns, end_ns) in enumerate(fault.periods):
            actions.append(ChangeFault(start_ns, "apply", fault, index))
            if end_ns is not None:
                actions.append(ChangeFault(end_ns, "clear", fault, index))
    return tuple(sorted(actions, key=lambda action: (action.at_ns, _rank(action))))


def _rank(action: Action) -> int:
    match action:
        case ChangeFault(action="clear"):
            return 0
        case StopWorkload():
            return 1
        case EndWarmup():
            return 2
        case StartWorkload():
            return 3
        case ChangeFault():
            return 4


def format_plan(plan: Plan) -> str:
    """The text of `--dry-run`: the fabric, the workloads and every occurrence of every fault."""
    clos = resolve_topology(plan.topology)
    number = clos.numbering
    rate = (
        "unshaped"
        if plan.topology.port_rate is None
        else format_rate(plan.topology.port_rate) + other_rates(clos)
    )
    end = "the last workload ends" if plan.end_ns is None else format_duration_ns(plan.end_ns)
    lines = [
        f"scenario   {plan.scenario}, seed {plan.seed}",
        f"fabric     {plan.topology.planes} planes x ({number.switches_by_tier}), "
        f"{number.host_count} hosts, {rate}",
        f"transport  {plan.transport.describe_paths()}, {plan.transport.congestion.describe()}",
        f"run        {format_duration_ns(-plan.start_ns)} of warm-up, then until {end}",
        "",
    ]
    lines += [_format_workload(workload) for workload in plan.workloads]
    lines += [line for fault in plan.faults for line in _format_fault(fault)]
    lines += [f"expect     {text}" for text in plan.expect]
    lines += [f"abort      {text}" for text in plan.abort]
    return "\n".join(lines) + "\n"


def format_instant(time_ns: int) -> str:
    """A time on the run's axis in seconds with all nine decimals, such as `3.074226580s`."""
    sign = "-" if time_ns < 0 else ""
    return f"{sign}{abs(time_ns) // 10**9}.{abs(time_ns) % 10**9:09d}s"


def _format_workload(workload: PlannedWorkload) -> str:
    if workload.program is not None:
        limit = format_duration_ns(workload.timeout_ns or 0)
        return f"workload   {workload.name}: {workload.describe()}; at most {limit}"
    if workload.trace is not None:
        return f"workload   {workload.name}: {workload.describe()}"
    end = (
        f"{workload.iterations} messages per QP"
        if workload.duration_ns is None
        else f"for {format_duration_ns(workload.duration_ns)}"
    )
    first = workload.flows[0]
    more = f" and {len(workload.flows) - 1} more" if len(workload.flows) > 1 else ""
    return (
        f"workload   {workload.name}: {workload.kind}, messages of {format_size_bytes(workload.size_bytes)}, "
        f"{end}; {first.source} > {first.target}{more}"
    )


def _format_fault(fault: ScheduledFault) -> list[str]:
    detail = f" {fault.detail}" if fault.detail else ""
    way = "" if fault.direction == "both" else f", {fault.direction}"
    places = fault.nodes or fault.links
    shown = ", ".join(places[:_LINKS_SHOWN_MAX])
    more = len(places) - _LINKS_SHOWN_MAX
    lines = [
        f"fault      {fault.fault_id}: {fault.kind}{detail}{way} on {shown}"
        + (f" and {more} more" if more > 0 else "")
    ]
    for start_ns, end_ns in fault.periods:
        end = "the end of the run" if end_ns is None else format_instant(end_ns)
        lines.append(f"             {format_instant(start_ns)} to {end}")
    return lines
