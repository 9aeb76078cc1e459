"""The load of a workload on the hosts, with hosts bound and nothing left to choose. Pure."""

from dataclasses import dataclass

from mrc_testbed.topology.clos import Clos
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.flow import Flow, bind_collective, bind_flows, bind_program, bind_victim
from mrc_testbed.workloads.program import Program
from mrc_testbed.workloads.spec import (
    CollectiveSpec,
    Incast,
    ProgramSpec,
    Training,
    Workload,
    WriteLat,
    victim_name,
)


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

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that send or receive, each once."""
        if self.program is not None:
            return self.program.hosts
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
