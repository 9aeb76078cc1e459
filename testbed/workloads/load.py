"""What a workload asks of the NICs, with hosts bound and nothing left to choose. Pure."""

from dataclasses import dataclass

from testbed.workloads.flow import Flow


@dataclass(frozen=True, slots=True)
class Load:
    """Messages between pairs of hosts.

    Attributes:
        name: of the workload.
        size_bytes: payload of a message.
        depth: messages outstanding per flow.
        iterations: messages per flow after the warm-up; None: send until stopped.
        warmup_ns: with iterations, how long to send before they begin.
        flows: one per QP.
    """

    name: str
    size_bytes: int
    depth: int
    iterations: int | None
    warmup_ns: int
    flows: tuple[Flow, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that send or receive, each once."""
        return tuple(dict.fromkeys(host for flow in self.flows for host in (flow.source, flow.target)))
