"""Ids are dense, names and addresses are unique, and each leads back to what it came from."""

from collections import Counter
from ipaddress import IPv6Address
from itertools import product

import pytest
from clos_strategies import any_closes, small_closes, three_tier_closes
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_agents.abi import PortKind
from mrc_testbed.errors import UsageError
from mrc_testbed.topology import addressing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import Tier, parse_node_name
from mrc_testbed.topology.spec import TopologySpec


@settings(max_examples=examples(60))
@given(small_closes() | three_tier_closes())
def test_node_ids_and_names_are_bijective(clos: Clos) -> None:
    nodes = list(clos.nodes())
    assert [node.id for node in nodes] == list(range(clos.numbering.node_count))
    assert len({node.name for node in nodes}) == len(nodes)
    assert [clos.node(node.name) for node in nodes] == nodes
    assert nodes == [*clos.switches(), *clos.hosts()]


@settings(max_examples=examples(60))
@given(small_closes() | three_tier_closes())
def test_port_ids_names_and_addresses_are_bijective(clos: Clos) -> None:
    ports = list(clos.ports())
    assert [port.id for port in ports] == list(range(clos.numbering.port_count))
    assert [clos.port(port.name) for port in ports] == ports
    assert len({port.name for port in ports}) == len({port.mac for port in ports}) == len(ports)
    assert len({addressing.link_local(port.id) for port in ports}) == len(ports)
    by_node = {port.id: port for node in clos.nodes() for port in clos.ports_of(node)}
    assert by_node == {port.id: port for port in ports}
    for node in clos.nodes():
        own = list(clos.ports_of(node))
        assert [port.index for port in own] == list(range(node.port_count))
        assert len({port.interface for port in own}) == len(own)


@settings(max_examples=examples(60))
@given(small_closes())
def test_links_join_neighbouring_tiers_of_one_plane_exactly_once(clos: Clos) -> None:
    links = list(clos.links())
    assert [link.id for link in links] == list(range(clos.numbering.link_count))
    spec = clos.spec
    host_pairs, switch_pairs = [], []
    for link in links:
        assert clos.link(link.name) == link
        assert clos.link(f"{link.upper.name}~{link.lower.name}") == link
        assert clos.peer(link.lower) == link.upper
        assert clos.peer(link.upper) == link.lower
        kinds = (link.lower.kind, link.upper.kind)
        pair = (link.plane, link.lower.node.index, link.upper.node.index)
        assert link.upper.node.plane == link.plane
        if link.is_host_link:
            assert kinds == (PortKind.NIC, PortKind.T0_DOWN)
            host_pairs.append(pair)
        else:
            assert kinds == (PortKind.T0_UP, PortKind.T1_DOWN)
            assert link.lower.node.plane == link.plane
            switch_pairs.append(pair)
    planes, hosts = range(spec.planes), range(clos.numbering.host_count)
    assert sorted(host_pairs) == [(p, h, h // spec.hosts_per_t0) for p in planes for h in hosts]
    assert sorted(switch_pairs) == [
        (p, i, j)
        for p in planes
        for i in range(spec.t0)
        for j in range(spec.t1)
        for _ in range(spec.uplinks_per_pair)
    ]


@settings(max_examples=examples(60))
@given(three_tier_closes())
def test_three_tiers_join_hosts_to_t0s_t0s_to_pods_and_pods_to_a_plane(clos: Clos) -> None:
    hosts, t1, t2 = clos.numbering.tiers
    pairs = Counter((link.plane, link.lower.node.name, link.upper.node.name) for link in clos.links())
    wanted = Counter(
        (p, f"h{h}", f"p{p}-t0-{h // hosts.joins}")
        for p in range(clos.spec.planes)
        for h in range(clos.numbering.host_count)
    )
    for p, pod in product(range(clos.spec.planes), range(t2.joins)):
        for j in range(t1.switches):
            name = f"p{p}-t1-{pod * t1.switches + j}"
            for t0 in range(pod * t1.joins, (pod + 1) * t1.joins):
                wanted[p, f"p{p}-t0-{t0}", name] += t1.lanes
            for k in range(j * t2.switches, (j + 1) * t2.switches):
                wanted[p, name, f"p{p}-t2-{k}"] += t2.lanes
    assert pairs == wanted


@settings(max_examples=examples(100))
@given(any_closes() | three_tier_closes(), st.data())
def test_port_id_and_node_id_lead_back_in_a_fabric_of_any_size(clos: Clos, data: st.DataObject) -> None:
    port = clos.port(data.draw(st.integers(0, clos.numbering.port_count - 1)))
    assert clos.port_id(port.node, port.index) == port.id
    assert clos.port(port.name) == port
    assert clos.node(port.node.id) == port.node
    assert clos.link(port.link_id).ports[port.id % 2] == port
    assert len(port.interface) <= 15


def test_default_lab_has_the_documented_numbers() -> None:
    clos = Clos(TopologySpec())
    number = clos.numbering
    assert (number.switch_count, number.host_count, number.link_count) == (16, 8, 48)
    assert clos.node("p0-t0-0").id == 0
    assert clos.node("p1-t0-0").id == 4
    assert clos.node("p3-t1-1").id == 15
    assert clos.node("h0").id == 16
    assert clos.link("h3:0~p0-t0-0:3").id == 12
    assert clos.link("p0-t0-0:4~p0-t1-0:0").id == 32
    assert clos.link("p3-t0-1:5~p3-t1-1:1").id == 47
    assert clos.port("p0-t0-0:3").id == 25


def test_parallel_uplinks_are_neighbours_at_both_ends() -> None:
    clos = Clos(TopologySpec(planes=1, t0=3, t1=6, hosts_per_t0=2, uplinks_per_pair=2))
    names = [clos.fabric_link(0, 2, uplink).name for uplink in (10, 11)]
    assert names == ["p0-t0-2:12~p0-t1-5:4", "p0-t0-2:13~p0-t1-5:5"]


def test_addresses_are_the_documented_formulas() -> None:
    clos = Clos(TopologySpec())
    port = clos.port("p0-t0-0:3")
    assert (port.interface, port.mac) == ("down3", "02:4d:52:00:00:19")
    assert addressing.ifindex(port.id) == 1025
    assert addressing.link_local(port.id) == IPv6Address("fe80::1a")
    assert clos.inner_address(7, 3) == IPv6Address("fd6d:7263:0:3::8")
    assert [clos.port(p).interface for p in (0, 2, 2 * 47, 2 * 47 + 1)] == [
        "plane0",
        "plane1",
        "up1",
        "down1",
    ]


@pytest.mark.parametrize(
    "text", ["h01", "h", "h-1", "p0-t3-0", "p0-t0-", "P0-t0-0", "p0-t0-0 ", "h٣", "h12345678"]
)
def test_what_is_no_node_name_is_not_read_as_one(text: str) -> None:
    assert parse_node_name(text) is None


def test_a_node_name_says_tier_plane_and_index() -> None:
    name = parse_node_name("p3-t1-12")
    assert name is not None
    assert (name.tier, name.plane, name.index) == (Tier.T1, 3, 12)


RANGES = "(hosts are h0 to h7, switches p<plane>-t0-<0..1> and p<plane>-t1-<0..1> with planes 0 to 3)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h8", f"there is no node 'h8' {RANGES}"),
        ("host3", f"there is no node 'host3'; did you mean h3 {RANGES}"),
        ("p0t0-1", f"there is no node 'p0t0-1'; did you mean p0-t0-1 {RANGES}"),
        ("P2-T1-0", f"there is no node 'P2-T1-0'; did you mean p2-t1-0 {RANGES}"),
        ("p4-t0-0", f"there is no node 'p4-t0-0' {RANGES}"),
        ("leaf1", f"there is no node 'leaf1' {RANGES}"),
    ],
)
def test_unknown_nodes_are_refused_with_the_nearest_name(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Clos(TopologySpec()).node(text)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h0:4", "h0 has no port 4: its ports are 0 to 3"),
        ("h0:02", "'h0:02' is not a port name; write <node>:<port index>, such as h0:2"),
        ("h0", "'h0' is not a port name; write <node>:<port index>, such as h0:2"),
        (
            "h0:2~h0:2~h0:2",
            "'h0:2~h0:2~h0:2' is not a link name; write <port>~<port>, such as h0:2~p2-t0-0:0",
        ),
        ("h0:2~p1-t0-0:0", "there is no link 'h0:2~p1-t0-0:0': h0:2 leads to p2-t0-0:0, p1-t0-0:0 to h0:1"),
    ],
)
def test_unknown_links_are_refused_with_what_is_there(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Clos(TopologySpec()).link(text)
    assert refusal.value.message == message


@pytest.mark.parametrize("method", ["node", "host", "port", "link", "mac"])
@pytest.mark.parametrize("number", [-1, 10**6])
def test_numbers_out_of_range_are_refused(method: str, number: int) -> None:
    clos = Clos(TopologySpec())
    with pytest.raises(UsageError, match="does not exist: they are numbered 0 to"):
        getattr(clos, method)(number)
