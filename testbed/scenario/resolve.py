"""From a scenario to its plan: names bound to the fabric, random choices made, times laid out. Pure.

The same scenario, topology and seed give the same plan, on any machine and with any Python. Every fault
draws from a stream of its own, named by its id, so that adding one does not change another.
"""

import hashlib
from typing import Final

from testbed.document import Problem
from testbed.errors import UsageError
from testbed.faults.flap import Flap
from testbed.faults.spec import Fault, LinkFlap, Loss, NicPortDown
from testbed.scenario.expression import parse_expectation
from testbed.scenario.load import Scenario
from testbed.scenario.plan import Plan, PlannedFault, PlannedTransport, PlannedWorkload
from testbed.scenario.spec import TransportSpec
from testbed.topology.clos import Clos
from testbed.topology.selector import select_links
from testbed.topology.spec import TopologySpec
from testbed.workloads.flow import bind_flows
from testbed.workloads.spec import Workload, WriteLat

OCCURRENCES_MAX: Final = 10_000
"""Of one fault: beyond this a plan is an accident (a flap every microsecond), not a wish."""

ITERATIONS_TIMEOUT_NS: Final = 5 * 60 * 10**9
"""How long a workload by iterations may take when it does not say."""


def resolve(scenario: Scenario, *, seed: int | None = None) -> Plan:
    """The plan of *scenario*.

    Args:
        scenario: as loaded.
        seed: in place of the file's.

    Raises:
        UsageError: something does not fit the fabric; lists all of it, each with its line and key.
    """
    clos = Clos(scenario.topology)
    spec = scenario.spec
    run_seed = spec.seed if seed is None else seed
    problems: list[Problem] = []
    transport = _resolve_transport(spec.transport, scenario.topology, problems)
    workloads = []
    for index, workload in enumerate(spec.workloads):
        try:
            workloads.append(_resolve_workload(workload, clos, spec.transport.qps))
        except UsageError as error:
            problems.append(Problem(("spec", "workloads", index), error.message))
    faults = []
    for index, fault in enumerate(spec.faults):
        try:
            links = _resolve_links(fault, clos, run_seed)
        except UsageError as error:
            problems.append(Problem(("spec", "faults", index, "select"), error.message))
            continue
        try:
            faults.append(_resolve_fault(fault, links, run_seed, spec.end_ns))
        except UsageError as error:
            problems.append(Problem(("spec", "faults", index), error.message))
    if not problems:
        problems += _shared_senders(spec.expect, workloads)
    if problems:
        raise scenario.document.usage_error(problems)
    return Plan(
        schema_version=1,
        scenario=scenario.metadata.name,
        description=scenario.metadata.description,
        seed=run_seed,
        topology=scenario.topology,
        transport=transport,
        workloads=tuple(workloads),
        faults=tuple(faults),
        expect=tuple(spec.expect),
        abort=tuple(spec.abort),
        end_ns=spec.end_ns,
    )


def derive_seed(run_seed: int, *names: str) -> int:
    """64 bits for one purpose, independent of those for any other.

    Args:
        run_seed: of the run.
        names: the purpose, such as a fault's id and what is drawn.
    """
    text = "/".join((str(run_seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _resolve_transport(
    spec: TransportSpec, topology: TopologySpec, problems: list[Problem]
) -> PlannedTransport:
    evs = topology.evs if spec.evs is None else spec.evs
    if evs % topology.planes:
        problems.append(
            Problem(
                ("spec", "transport", "evs"),
                f"{evs} EVs cannot be shared equally by {topology.planes} planes; "
                f"use a multiple of {topology.planes}",
            )
        )
    window = topology.nic.window_packets if spec.window is None else spec.window
    return PlannedTransport(kind=spec.kind, cc=spec.cc, evs=evs, window_packets=window)


def _resolve_workload(workload: Workload, clos: Clos, qps: int) -> PlannedWorkload:
    return PlannedWorkload(
        name=workload.name,
        kind=workload.kind,
        size_bytes=workload.size_bytes,
        depth=1 if isinstance(workload, WriteLat) else workload.depth,
        start_ns=-workload.warmup_ns,
        duration_ns=workload.duration_ns,
        iterations=workload.iterations,
        timeout_ns=None if workload.iterations is None else workload.timeout_ns or ITERATIONS_TIMEOUT_NS,
        flows=bind_flows(workload, [host.name for host in clos.hosts()], qps),
    )


def _resolve_links(fault: Fault, clos: Clos, run_seed: int) -> tuple[str, ...]:
    links = select_links(clos, fault.select, derive_seed(run_seed, "fault", fault.id, "pick"))
    if isinstance(fault, NicPortDown):
        for link in links:
            if not link.is_host_link:
                raise UsageError(
                    f"nic-port-down takes the carrier of a NIC port, but {link.name} joins two switches; "
                    "select host links, such as {between: [host, t0]}, or use link-down"
                )
    return tuple(link.name for link in links)


def _resolve_fault(
    fault: Fault, links: tuple[str, ...], run_seed: int, run_end_ns: int | None
) -> PlannedFault:
    return PlannedFault(
        fault_id=fault.id,
        kind=fault.kind,
        links=links,
        direction=fault.direction,
        loss_ratio=fault.ratio if isinstance(fault, Loss) else None,
        seed=derive_seed(run_seed, "fault", fault.id, "data-plane"),
        periods=_periods(fault, run_seed, run_end_ns),
    )


def _periods(fault: Fault, run_seed: int, run_end_ns: int | None) -> tuple[tuple[int, int | None], ...]:
    """(start, end) of every occurrence; a flap until cleared goes on to the end of the run."""
    if not isinstance(fault, LinkFlap):
        return ((fault.at_ns, None if fault.for_ns is None else fault.at_ns + fault.for_ns),)
    length_ns = fault.for_ns
    if length_ns is None:
        if run_end_ns is None:
            raise UsageError(
                "a flap until cleared needs a run that ends by time: give `for`, or every workload a duration"
            )
        length_ns = run_end_ns - fault.at_ns
    if length_ns // fault.every_ns > OCCURRENCES_MAX:
        raise UsageError(f"it would flap {length_ns // fault.every_ns} times; at most {OCCURRENCES_MAX}")
    flap = Flap(
        every_ns=fault.every_ns,
        down_ns=fault.down_ns,
        jitter_ratio=fault.jitter_ratio,
        seed=derive_seed(run_seed, "fault", fault.id, "jitter"),
    )
    return tuple((fault.at_ns + start, fault.at_ns + end) for start, end in flap.outages(length_ns))


def _shared_senders(expect: list[str], workloads: list[PlannedWorkload]) -> list[Problem]:
    """Goodput is counted per NIC: of two workloads with a common sender neither can be told."""
    problems = []
    for index, text in enumerate(expect):
        for quantity in parse_expectation(text).quantities():
            if quantity.name != "goodput":
                continue
            asked = next(workload for workload in workloads if workload.name == quantity.argument)
            for other in workloads:
                common = sorted(set(asked.sources) & set(other.sources))
                if other is not asked and common:
                    problems.append(
                        Problem(
                            ("spec", "expect", index),
                            f"column {quantity.column}: {common[0]} sends for {asked.name} and {other.name}, "
                            "but its NIC counts both as one; give each workload senders of its own",
                        )
                    )
    return problems
