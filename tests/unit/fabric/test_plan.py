"""A plan makes everything of the topology once, and each thing after what it needs."""

from mrc_testbed.fabric.plan import BuildOperation, OperationKind, build_plan, created_nodes_backwards
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec())
SHAPED = Clos(TopologySpec(port_rate=100_000_000))


def _kinds(clos: Clos) -> list[OperationKind]:
    return [step.kind for step in build_plan(clos)]


def test_steps_come_in_the_order_of_their_needs() -> None:
    unshaped = [kind for kind in OperationKind if kind is not OperationKind.START_DRAINER]
    assert _kinds(CLOS) == unshaped
    assert _kinds(SHAPED) == list(OperationKind)


def test_the_plan_makes_every_node_link_and_nic_once() -> None:
    operations = [operation for step in build_plan(CLOS) for operation in step.operations()]
    assert len(set(operations)) == len(operations)
    made = {kind: {entry.target for entry in operations if entry.kind is kind} for kind in OperationKind}
    nodes = {node.name for node in CLOS.nodes()}
    hosts = {host.name for host in CLOS.hosts()}
    assert made[OperationKind.CREATE_NODE] == made[OperationKind.CONNECT_NODE] == nodes
    assert made[OperationKind.CREATE_LINK] == {link.name for link in CLOS.links()}
    assert made[OperationKind.LOAD_NIC] == made[OperationKind.START_AGENT] == hosts


def test_nodes_are_taken_away_in_reverse_each_once() -> None:
    performed = [BuildOperation(OperationKind.PREPARE_PINS)]
    performed += [BuildOperation(OperationKind.CREATE_NODE, node) for node in ("a", "b", "a")]
    performed.append(BuildOperation(OperationKind.START_AGENT, "b"))
    assert created_nodes_backwards(performed) == ("a", "b")
