"""Plans: what `up` is going to do, as values, in order; and what of it `down` has to take back.

Operations of one kind stand together, because the kernel, Docker and the agents' start all take them in
batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mrc_testbed.fabric.operation import (
    ConnectNode,
    CreateLink,
    CreateNode,
    LoadFabric,
    LoadNic,
    Operation,
    PreparePins,
    StartAgent,
    StartDrainer,
)
from mrc_testbed.topology.clos import Clos


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Operations of one kind, and why they are done."""

    reason: str
    operations: tuple[Operation, ...]


def build_plan(clos: Clos) -> tuple[PlanStep, ...]:
    """The steps that lead from nothing to the lab; each needs only those before it."""
    hosts = tuple(host.name for host in clos.hosts())
    nodes = tuple(node.name for node in clos.nodes())
    links = tuple(link.name for link in clos.links())
    steps = [
        PlanStep("a place for pinned maps", (PreparePins(),)),
        PlanStep("switches and hosts", tuple(CreateNode(node) for node in nodes)),
        PlanStep("links", tuple(CreateLink(link) for link in links)),
        PlanStep("switch data plane", (LoadFabric(),)),
        PlanStep("NIC data planes", tuple(LoadNic(host) for host in hosts)),
        PlanStep("ports", tuple(ConnectNode(node) for node in nodes)),
    ]
    if clos.spec.is_shaped:
        steps.append(PlanStep("queue drainer", (StartDrainer(),)))
    steps.append(PlanStep("NIC agents", tuple(StartAgent(host) for host in hosts)))
    return tuple(steps)


def created_nodes_backwards(performed: Sequence[Operation]) -> tuple[str, ...]:
    """Nodes that *performed* made or was about to make, the last one first, each once."""
    created = (operation.node for operation in reversed(performed) if isinstance(operation, CreateNode))
    return tuple(dict.fromkeys(created))
