"""A plan makes everything of the topology once, and each thing after what it needs."""

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
from mrc_testbed.fabric.plan import build_plan, created_nodes_backwards
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec())
SHAPED = Clos(TopologySpec(port_rate=100_000_000))


def _kinds(clos: Clos) -> list[type[Operation]]:
    return [type(step.operations[0]) for step in build_plan(clos)]


def test_steps_come_in_the_order_of_their_needs() -> None:
    unshaped = [PreparePins, CreateNode, CreateLink, LoadFabric, LoadNic, ConnectNode, StartAgent]
    assert _kinds(CLOS) == unshaped
    assert _kinds(SHAPED) == [*unshaped[:-1], StartDrainer, StartAgent]


def test_a_step_holds_operations_of_one_kind() -> None:
    for step in build_plan(SHAPED):
        assert len({type(operation) for operation in step.operations}) == 1


def test_the_plan_makes_every_node_link_and_nic_once() -> None:
    operations = [operation for step in build_plan(CLOS) for operation in step.operations]
    assert len(set(operations)) == len(operations)
    nodes = {node.name for node in CLOS.nodes()}
    hosts = {host.name for host in CLOS.hosts()}
    assert {operation.node for operation in operations if isinstance(operation, CreateNode)} == nodes
    assert {operation.node for operation in operations if isinstance(operation, ConnectNode)} == nodes
    links = {operation.link for operation in operations if isinstance(operation, CreateLink)}
    assert links == {link.name for link in CLOS.links()}
    assert {operation.host for operation in operations if isinstance(operation, LoadNic)} == hosts
    assert {operation.host for operation in operations if isinstance(operation, StartAgent)} == hosts


def test_nodes_are_taken_away_in_reverse_each_once() -> None:
    performed: list[Operation] = [PreparePins(), CreateNode("a"), CreateNode("b"), CreateNode("a")]
    performed.append(StartAgent("b"))
    assert created_nodes_backwards(performed) == ("a", "b")
