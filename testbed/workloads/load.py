"""What a workload asks of the NICs, with hosts bound and nothing left to choose. Pure."""

from dataclasses import dataclass

from testbed.topology.clos import Clos
from testbed.workloads.flow import Flow, bind_flows
from testbed.workloads.spec import Workload, WriteLat


@dataclass(frozen=True, slots=True)
class Load:
    """Messages between pairs of hosts.

    Attributes:
        name: of the workload.
        size_bytes: payload of a message.
        depth: messages outstanding per flow.
        iterations: messages per flow; None: send until stopped.
        flows: one per QP.
    """

    name: str
    size_bytes: int
    depth: int
    iterations: int | None
    flows: tuple[Flow, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that send or receive, each once."""
        return tuple(dict.fromkeys(host for flow in self.flows for host in (flow.source, flow.target)))

    @property
    def sources(self) -> tuple[str, ...]:
        """Hosts that send, each once."""
        return tuple(dict.fromkeys(flow.source for flow in self.flows))


def build_load(workload: Workload, clos: Clos, qps: int = 1) -> Load:
    """The load that a workload is in a fabric.

    Args:
        workload: as written.
        clos: the fabric.
        qps: QPs per pair of hosts when the workload does not say.

    Raises:
        UsageError: a host does not exist, sends to itself, or is named twice; or lists do not pair up.
    """
    return Load(
        name=workload.name,
        size_bytes=workload.size_bytes,
        depth=1 if isinstance(workload, WriteLat) else workload.depth,
        iterations=workload.iterations,
        flows=bind_flows(workload, [host.name for host in clos.hosts()], qps),
    )
