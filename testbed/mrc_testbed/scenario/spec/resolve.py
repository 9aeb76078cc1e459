"""From a scenario to its plan: names bound to the fabric, random choices made, times laid out. Pure.

The same scenario, topology and seed give the same plan, on any machine and with any Python. Every fault
draws from a stream of its own, named by its id, so that adding one does not change another.
"""

from collections.abc import Callable, Mapping, Sequence

from mrc_testbed.document.problem import Problem
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.figure_spec import DRAWN, READINGS_PER_VALUE, FigureSpec, PlannedFigure
from mrc_testbed.scenario.spec.load import Scenario
from mrc_testbed.scenario.spec.plan import (
    PLAN_SCHEMA_VERSION,
    Plan,
    PlannedTransport,
    PlannedWorkload,
    reading_interval_ns,
)
from mrc_testbed.scenario.spec.resolve_faults import derive_seed, resolve_faults
from mrc_testbed.scenario.spec.scenario_spec import (
    ScenarioSpec,
    TransportSpec,
    compared_quantities,
    published_comparisons,
)
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.transport.congestion import CongestionControl
from mrc_testbed.transport.transport_kind import choose_congestion
from mrc_testbed.units import format_duration_ns
from mrc_testbed.workloads.load import DoesNotFitError, build_loads, check_qps, place
from mrc_testbed.workloads.spec import ITERATIONS_TIMEOUT_NS, PROGRAM_TRANSPORTS, ProgramSpec, Workload


def resolve(scenario: Scenario, *, seed: int | None = None) -> Plan:
    """The plan of *scenario*.

    Args:
        seed: in place of the file's.
    """
    clos = resolve_topology(scenario.topology)
    spec = scenario.spec
    run_seed = spec.seed if seed is None else seed
    problems: list[Problem] = []
    transport = _resolve_transport(spec.transport, clos, problems)
    workloads: list[PlannedWorkload] = []
    line_of: dict[str, int] = {}
    for index, workload in enumerate(spec.workloads):
        try:
            planned = _resolve_workload(workload, clos, spec.transport, run_seed)
        except UsageError as error:
            problems.append(Problem(("spec", "workloads", index), error.message))
            continue
        workloads += planned
        line_of |= dict.fromkeys((each.name for each in planned), index)
    problems += _without_room(workloads, line_of, clos)
    faults = resolve_faults(spec, clos, run_seed, problems)
    length_ns = None
    if workloads and spec.end_ns is not None:
        length_ns = spec.end_ns - min(workload.start_ns for workload in workloads)
    traces = [(workload.trace, workload.iterations or 1) for workload in workloads if workload.trace]
    if traces and clos.spec.port_rate is not None:
        rate_bps = clos.spec.port_rate * clos.spec.planes
        length_ns = max(trace.least_ns(rate_bps) * iterations for trace, iterations in traces)
    if any(workload.program for workload in workloads):  # it ends by itself, after the faults
        length_ns = max((end_ns for fault in faults for _, end_ns in fault.periods if end_ns), default=None)
    interval_ns = reading_interval_ns(length_ns)
    problems += _figures_too_fine(spec.figure, interval_ns)
    if problems:
        raise scenario.document.usage_error(problems)
    return Plan(
        schema_version=PLAN_SCHEMA_VERSION,
        scenario=scenario.metadata.name,
        description=scenario.metadata.description,
        seed=run_seed,
        topology=scenario.topology,
        transport=transport,
        workloads=tuple(workloads),
        faults=tuple(faults),
        expect=tuple(text for text in spec.expect if not parse_expectation(text).is_across_variants),
        abort=tuple(spec.abort),
        end_ns=spec.end_ns,
        figure=tuple(_resolve_figure(figure, workloads, interval_ns) for figure in spec.figure),
        variant=None if scenario.variant is None else scenario.variant.name,
        measures=_measures(spec, None if scenario.variant is None else scenario.variant.name),
        late_ratio=spec.fidelity.late,
        reading_interval_ns=interval_ns,
    )


def _figures_too_fine(figures: Sequence[FigureSpec], interval_ns: int) -> list[Problem]:
    """A problem for each curve that asks for more values than there are readings."""
    return [
        Problem(
            ("spec", "figure", index, "every"),
            f"{format_duration_ns(figure.every_ns)} is less than the "
            f"{format_duration_ns(interval_ns)} from one reading of this run to the next",
        )
        for index, figure in enumerate(figures)
        if figure.every_ns is not None and figure.every_ns < interval_ns
    ]


def _resolve_figure(
    figure: FigureSpec, workloads: Sequence[PlannedWorkload], interval_ns: int
) -> PlannedFigure:
    of = DRAWN.get(figure.kind)
    drawable = [
        workload.name
        for workload in workloads
        if of is None or (workload.flows if of == "flows" else workload.shared_work)
    ]
    chosen = drawable if figure.workloads is None else figure.workloads
    return PlannedFigure(
        kind=figure.kind,
        title=figure.title or "",
        workloads=tuple(name for name in drawable if name in chosen),
        by=figure.by or "workload",
        every_ns=READINGS_PER_VALUE * interval_ns if figure.every_ns is None else figure.every_ns,
        published=tuple((change.at_ns, change.share) for change in figure.published),
    )


def _measures(spec: ScenarioSpec, variant: str | None) -> tuple[str, ...]:
    """The quantities that variants and published figures are compared by, as far as *variant* has them."""
    named = [
        quantity.within_run
        for text in (*(spec.expect if variant is not None else ()), *published_comparisons(spec).values())
        for quantity in parse_expectation(text).quantities()
        if quantity.variant == variant
    ]
    return tuple(dict.fromkeys([*compared_quantities(spec), *named]))


def _resolve_transport(spec: TransportSpec, clos: Clos, problems: list[Problem]) -> PlannedTransport:
    topology = clos.spec
    evs = topology.evs if spec.evs is None else spec.evs
    if evs % topology.planes:
        problems.append(
            Problem(
                ("spec", "transport", "evs"),
                f"{evs} EVs cannot be shared equally by {topology.planes} planes; "
                f"use a multiple of {topology.planes}",
            )
        )
    if spec.ev_selector is not None and spec.kind != "mrc":
        problems.append(Problem(("spec", "transport", "ev_selector"), f"{spec.kind} has no EVs to select"))
    try:
        congestion = choose_congestion(
            clos, spec.kind, spec.cc, window_packets=spec.window, evs=spec.evs, settings=spec.cc_profile
        )
    except UsageError as error:
        key, _, complaint = error.message.partition(": ")
        is_of_key = key in TransportSpec.model_fields  # then the message is about its line
        where = ("spec", "transport", key) if is_of_key else ("spec", "transport")
        problems.append(Problem(where, complaint if is_of_key else error.message))
        congestion = CongestionControl("fixed", topology.nic.window_packets)
    return PlannedTransport(kind=spec.kind, evs=evs, congestion=congestion)


def _resolve_workload(
    workload: Workload, clos: Clos, transport: TransportSpec, run_seed: int
) -> list[PlannedWorkload]:
    """The workload, and the victim of an incast as another."""
    if isinstance(workload, ProgramSpec) and transport.kind not in PROGRAM_TRANSPORTS:
        raise UsageError(
            f"kind: the NIC of a program sends by {' or '.join(PROGRAM_TRANSPORTS)}, not by {transport.kind}"
        )
    seed = derive_seed(run_seed, "workload", workload.name)
    return [
        PlannedWorkload(
            name=load.name,
            kind=workload.kind if load.name == workload.name else "write-bw",
            size_bytes=load.size_bytes,
            depth=load.depth,
            start_ns=-workload.warmup_ns,
            duration_ns=workload.duration_ns,
            iterations=workload.iterations,
            timeout_ns=workload.timeout_ns or (ITERATIONS_TIMEOUT_NS if workload.iterations else None),
            flows=load.flows,
            collective=load.collective,
            program=load.program,
            trace=load.trace,
        )
        for load in build_loads(workload, clos, qps=transport.qps, seed=seed)
    ]


def _without_room(workloads: list[PlannedWorkload], line_of: Mapping[str, int], clos: Clos) -> list[Problem]:
    """The first workload that finds no memory, and the first that finds no QPs."""
    loads = [workload.load for workload in workloads]
    nic = clos.spec.nic
    memory_bytes = {host.name: nic.memory for host in clos.hosts()}
    checks: tuple[Callable[[], object], ...] = (
        lambda: place(loads, memory_bytes),
        lambda: check_qps(loads, nic.qps_max),
    )
    problems = []
    for check in checks:
        try:
            check()
        except DoesNotFitError as error:
            hint = f"; {error.hint}" if error.hint else ""
            location = ("spec", "workloads", line_of[error.load.name])
            problems.append(Problem(location, f"{error.message}{hint}"))
    return problems
