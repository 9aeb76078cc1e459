"""Plans: what `up` is going to do, as values, in order; and what of it `down` has to take back.

An operation says what comes to exist. Taking it away (removal.py) needs fewer kinds, because things go with
what contains them: links, addresses, XDP programs and device map entries with the nodes, programs and maps
with the lab's pins. Operations of one kind stand together, because the kernel, Docker and the agents' start
all take them in batches.

The ledger has one JSON line per operation. A line is in the file before its operation begins, so the ledger
names at least everything that exists; read backwards it is the order in which to take things away. It is not
synced to disk: it must outlive a killed process, and when the machine itself dies, so does all that the
ledger could name.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from mrc_agents.closing import Closing
from mrc_testbed.fabric.state_file import private_descriptor
from mrc_testbed.topology.clos import Clos


class OperationKind(StrEnum):
    """Kinds of operations; the values stand in the ledger."""

    PREPARE_PINS = "PreparePins"  # the BPF file system is mounted and holds a folder for the lab
    CREATE_NODE = "CreateNode"  # a switch or host: a container or nothing, and a named network namespace
    CREATE_LINK = "CreateLink"  # a veth pair between two nodes
    LOAD_FABRIC = "LoadFabric"  # the switch program and the maps the fabric shares, filled and pinned
    LOAD_NIC = "LoadNic"  # program and maps of one host's NIC, pinned
    CONNECT_NODE = "ConnectNode"  # its interfaces have addresses and programs, are up, take redirected frames
    START_DRAINER = "StartDrainer"  # the process that moves frames out of the queues of a shaped fabric
    START_AGENT = "StartAgent"  # the control process of one host's NIC


@dataclass(frozen=True, slots=True)
class BuildOperation:
    """One thing that comes to exist."""

    kind: OperationKind
    target: str = ""  # name of the node, link or host; "" if it is for all of the lab


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Operations of one kind, and why they are done."""

    reason: str
    kind: OperationKind
    targets: tuple[str, ...] = ("",)

    def operations(self) -> tuple[BuildOperation, ...]:
        return tuple(BuildOperation(self.kind, target) for target in self.targets)


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


def created_nodes_backwards(performed: Sequence[BuildOperation]) -> tuple[str, ...]:
    """Nodes that *performed* made or was about to make, the last one first, each once."""
    created = (entry.target for entry in reversed(performed) if entry.kind is OperationKind.CREATE_NODE)
    return tuple(dict.fromkeys(created))


_TARGET_KEYS: Final[Mapping[OperationKind, str]] = {
    OperationKind.CREATE_NODE: "node",
    OperationKind.CREATE_LINK: "link",
    OperationKind.LOAD_NIC: "host",
    OperationKind.CONNECT_NODE: "node",
    OperationKind.START_AGENT: "host",
}
"""Key of the target of the operations that have one."""


class BuildLedger(Closing):
    """The ledger of a lab, open for appending."""

    def __init__(self, path: Path) -> None:
        self._file = os.fdopen(private_descriptor(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0)

    def close(self) -> None:
        self._file.close()

    def announce(self, operations: Sequence[BuildOperation]) -> None:
        """Records *operations* in one write; call it before performing the first."""
        lines = [json.dumps(encode_operation(operation)) + "\n" for operation in operations]
        self._file.write("".join(lines).encode())


def encode_operation(operation: BuildOperation) -> dict[str, str]:
    key = _TARGET_KEYS.get(operation.kind)
    return {"operation": operation.kind} | ({key: operation.target} if key else {})


def decode_operation(value: object) -> BuildOperation:
    """The operation that `encode_operation` made *value* of.

    Raises:
        ValueError: it made nothing of the kind.
    """
    if isinstance(value, dict):
        for kind in OperationKind:
            operation = BuildOperation(kind, str(value.get(_TARGET_KEYS.get(kind), "")))
            if encode_operation(operation) == value:
                return operation
    raise ValueError(f"not an operation: {value!r}")


def read_ledger(path: Path) -> tuple[BuildOperation, ...]:
    """All operations that can be read, in the order of the file.

    A line that cannot be read is passed over: the last one may be cut short by SIGKILL, and `down` looks for
    leftovers by label and name as well.
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    operations = []
    for line in lines:
        try:
            operations.append(decode_operation(json.loads(line)))
        except ValueError:
            continue
    return tuple(operations)
