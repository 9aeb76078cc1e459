"""The load of workloads on hosts that are bound and need room for it; nothing is left to choose. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.units import format_size_bytes
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.flow import (
    Flow,
    bind_collective,
    bind_flows,
    bind_program,
    bind_trace,
    bind_victim,
)
from mrc_testbed.workloads.layout import Layout, plan_layout
from mrc_testbed.workloads.program import PEER_BYTES, Program
from mrc_testbed.workloads.spec import (
    CollectiveSpec,
    Incast,
    ProgramSpec,
    TraceSpec,
    Training,
    Workload,
    WriteLat,
    victim_name,
)
from mrc_testbed.workloads.trace import JobTrace


@dataclass(frozen=True, slots=True)
class Load:
    """Messages between pairs of hosts, a collective, or a program, of which nothing else is known."""

    name: str  # of the workload
    size_bytes: int  # payload of a message; of a collective, data of a rank; of a program 0
    depth: int  # messages outstanding per flow
    iterations: int | None  # messages per flow, or operations; None: go on until stopped
    flows: tuple[Flow, ...]  # one per connection; those of a program are its own
    collective: Collective | None = None  # what the flows do together; None: each is on its own
    program: Program | None = None  # whose ranks send what they please; None: there is none
    trace: JobTrace | None = None  # whose ranks the flows connect; None: there is none

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that send or receive, each once."""
        if ranked := self.program or self.trace:
            return ranked.hosts
        return tuple(dict.fromkeys(host for flow in self.flows for host in (flow.source, flow.target)))

    @property
    def sources(self) -> tuple[str, ...]:
        """Hosts that send, each once."""
        return tuple(dict.fromkeys(flow.source for flow in self.flows))


def build_loads(workload: Workload, clos: Clos, *, qps: int = 1, seed: int = 1) -> tuple[Load, ...]:
    """The loads that a workload is in a fabric: one, and another for the victim of an incast."""
    hosts = [host.name for host in clos.hosts()]
    if isinstance(workload, (CollectiveSpec, Training)):
        collective, flows = bind_collective(workload, hosts, qps)
        return (Load(workload.name, workload.size_bytes, 1, workload.iterations, flows, collective),)
    if isinstance(workload, ProgramSpec):
        return (Load(workload.name, 0, 1, None, (), program=bind_program(workload, hosts)),)
    if isinstance(workload, TraceSpec):
        trace, flows = bind_trace(workload, hosts)
        return (Load(workload.name, 0, 1, workload.iterations, flows, trace=trace),)
    own = Load(
        name=workload.name,
        size_bytes=workload.size_bytes,
        depth=1 if isinstance(workload, WriteLat) else workload.depth,
        iterations=workload.iterations,
        flows=bind_flows(workload, hosts, qps, seed),
    )
    if not isinstance(workload, Incast) or workload.victim is None:
        return (own,)
    return own, Load(
        name=victim_name(workload.name),
        size_bytes=workload.size_bytes,
        depth=workload.depth,
        iterations=workload.iterations,
        flows=bind_victim(workload, workload.victim, hosts, qps),
    )


class DoesNotFitError(UsageError):
    """A workload has no room at a host."""

    def __init__(self, load: Load, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.load = load  # which one


def place(loads: Sequence[Load], memory_bytes: Mapping[str, int]) -> dict[str, Layout]:
    """The layout of each workload of flows by name: collectives take what they need, flows the rest."""
    left_bytes = dict(memory_bytes)
    for load in loads:
        if load.program is not None:
            for host in load.hosts:
                left_bytes[host] = max(0, left_bytes[host] - load.program.peer_memory_bytes)
        if load.trace is not None:
            for flow in load.flows:
                left_bytes[flow.source] = max(0, left_bytes[flow.source] - PEER_BYTES)
        if load.collective is None:
            continue
        need = load.collective.memory_bytes()
        for host in load.hosts:
            if need > left_bytes[host]:
                raise DoesNotFitError(
                    load,
                    f"{load.collective.kind} of {format_size_bytes(load.size_bytes)} needs "
                    f"{format_size_bytes(need)} of memory at {host}, which has "
                    f"{format_size_bytes(left_bytes[host])} for it",
                    hint="make `size` smaller, or give the NICs more memory (topology: nic: memory)",
                )
            left_bytes[host] -= need
    of_flows = [load for load in loads if not (load.collective or load.program or load.trace)]
    sharing = Counter(host for load in of_flows for host in load.hosts)
    layouts = {}
    for load in of_flows:
        share_bytes = {host: left_bytes[host] // sharing[host] for host in load.hosts}
        try:
            layouts[load.name] = plan_layout(load.size_bytes, load.flows, share_bytes)
        except UsageError as error:
            raise DoesNotFitError(load, error.message, error.hint) from error
    return layouts


def check_qps(loads: Sequence[Load], qps_max: int) -> None:
    """Raises DoesNotFitError when a host needs more QPs than its NIC holds: one for each end of a flow."""
    used: Counter[str] = Counter()
    for load in loads:
        for flow in load.flows:  # those of a trace come in pairs, and each pair has one connection
            used.update((flow.source,) if load.trace else (flow.source, flow.target))
        worst = max(load.hosts, key=lambda host: used[host])
        if used[worst] > qps_max:
            raise DoesNotFitError(
                load,
                f"{worst} would need {used[worst]} QPs; a NIC holds {qps_max}",
                hint="use fewer QPs or hosts, or make NICs larger (topology: nic: qps_max)",
            )
