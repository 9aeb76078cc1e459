"""Plans: what `up` is going to do, as values, in order; and what of it `down` has to take back.

An operation says what comes to exist. Taking it away (removal.py) needs fewer kinds, because things go with
what contains them: links, addresses, XDP programs and device map entries with the nodes, programs and maps
with the lab's pins. Operations of one kind stand together, because the kernel, Docker and the agents' start
all take them in batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mrc_testbed.topology.clos import Clos


class OperationKind(StrEnum):
    """What comes to exist. The values stand in the ledger."""

    PREPARE_PINS = "PreparePins"  # the BPF file system is mounted and holds a folder for the lab
    CREATE_NODE = "CreateNode"  # a switch or host: a container or nothing, and a named network namespace
    CREATE_LINK = "CreateLink"  # a veth pair between two nodes
    LOAD_FABRIC = "LoadFabric"  # the switch program and the maps the fabric shares, filled and pinned
    LOAD_NIC = "LoadNic"  # program and maps of one host's NIC, pinned
    CONNECT_NODE = (
        "ConnectNode"  # its interfaces have addresses and XDP programs, are up, get redirected frames
    )
    START_DRAINER = "StartDrainer"  # the process that moves frames out of the queues of a shaped fabric
    START_AGENT = "StartAgent"  # the control process of one host's NIC


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that comes to exist."""

    kind: OperationKind
    target: str = ""  # name of the node, link or host; "" if it is for all of the lab


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Operations of one kind, and why they are done."""

    reason: str
    kind: OperationKind
    targets: tuple[str, ...] = ("",)

    def operations(self) -> tuple[Operation, ...]:
        return tuple(Operation(self.kind, target) for target in self.targets)


def build_plan(clos: Clos) -> tuple[PlanStep, ...]:
    """The steps that lead from nothing to the lab; each needs only those before it."""
    hosts = tuple(host.name for host in clos.hosts())
    nodes = tuple(node.name for node in clos.nodes())
    links = tuple(link.name for link in clos.links())
    steps = [
        PlanStep("a place for pinned maps", OperationKind.PREPARE_PINS),
        PlanStep("switches and hosts", OperationKind.CREATE_NODE, nodes),
        PlanStep("links", OperationKind.CREATE_LINK, links),
        PlanStep("switch data plane", OperationKind.LOAD_FABRIC),
        PlanStep("NIC data planes", OperationKind.LOAD_NIC, hosts),
        PlanStep("ports", OperationKind.CONNECT_NODE, nodes),
    ]
    if clos.spec.is_shaped:
        steps.append(PlanStep("queue drainer", OperationKind.START_DRAINER))
    steps.append(PlanStep("NIC agents", OperationKind.START_AGENT, hosts))
    return tuple(steps)


def created_nodes_backwards(performed: Sequence[Operation]) -> tuple[str, ...]:
    """Nodes that *performed* made or was about to make, the last one first, each once."""
    created = (entry.target for entry in reversed(performed) if entry.kind is OperationKind.CREATE_NODE)
    return tuple(dict.fromkeys(created))
