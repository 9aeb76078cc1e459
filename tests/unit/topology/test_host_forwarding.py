"""Paths without source routes: structured EVs name them, hashes choose them; the model knows both ways."""

from collections import Counter
from ipaddress import IPv6Address

import pytest
from clos_strategies import Route, any_closes, routes, small_closes, three_tier_closes
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mrc_agents.abi import PortKind
from mrc_testbed.errors import UsageError
from mrc_testbed.topology import timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import ev_parts, stev_value
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.forwarding import Action
from mrc_testbed.topology.host_forwarding import FlowKey, flow_hash, hash_share
from mrc_testbed.topology.path import build_path, explain_ev, find_ev, uplink_of_ev
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import IdleFabric

FLOW = FlowKey(IPv6Address("fd6d:7263::1"), IPv6Address("fd6d:7263::6"), 0x1002, 0xABCD, 4791)
KINDS = (
    (PortKind.NIC, PortKind.T0_DOWN),
    (PortKind.NIC, PortKind.T0_UP, PortKind.T1_DOWN, PortKind.T0_DOWN),
    (*(PortKind.NIC, PortKind.T0_UP, PortKind.T1_UP), PortKind.T2_DOWN, PortKind.T1_DOWN, PortKind.T0_DOWN),
)
"""The ports that a packet leaves by, by distance."""


def in_mode(clos: Clos, forwarding: str, hash_seed: int = 0) -> Clos:
    """The same fabric with other switches."""
    return Clos(clos.spec.model_copy(update={"forwarding": forwarding, "hash_seed": hash_seed}))


def hash_by_hand(seed: int, node_id: int, flow: FlowKey) -> int:
    """docs/reference/protocol.md, "Forwarding modes", written out."""
    mask = 2**64 - 1
    source, destination = int(flow.source), int(flow.destination)
    x = (seed << 32) + node_id
    for word in (
        (flow.flow_label << 32) + (flow.source_port << 16) + flow.destination_port,
        source >> 64,
        source & mask,
        destination >> 64,
        destination & mask,
    ):
        x = ((x ^ word) * 0x9E3779B97F4A7C15) % 2**64
        x = x ^ (x >> 32)
    return (x * 0xBF58476D1CE4E5B9) % 2**64 // 2**32


def test_worked_example_of_the_protocol_page() -> None:
    value = flow_hash(0, 0, FLOW)
    assert value == hash_by_hand(0, 0, FLOW) == 0x1A23DB2B
    assert hash_share(value, 2) == value >> 31
    assert [hash_share(v, 3) for v in (0, 0x5555_5555, 0x5555_5556, 0xFFFF_FFFF)] == [0, 0, 1, 2]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**20), st.integers(0, 2**20 - 1), st.integers(0, 2**16 - 1))
def test_hash_is_the_written_one(seed: int, node_id: int, label: int, port: int) -> None:
    flow = FLOW._replace(flow_label=label, source_port=port)
    assert flow_hash(seed, node_id, flow) == hash_by_hand(seed, node_id, flow)


def test_switches_choose_independently_of_one_another() -> None:
    """Packets that one switch sends by one uplink spread over all of the next one's: no polarisation."""
    ports = [
        port for port in range(4096) if hash_share(flow_hash(0, 0, FLOW._replace(source_port=port)), 4) == 1
    ]
    spread = Counter(hash_share(flow_hash(0, 1, FLOW._replace(source_port=port)), 4) for port in ports)
    assert 900 < len(ports) < 1150
    assert all(0.8 < count / len(ports) * 4 < 1.2 for count in spread.values())


@settings(max_examples=examples(150))
@given(routes(any_closes()))
def test_structured_ev_leads_over_the_links_of_the_source_route(route: Route) -> None:
    clos = in_mode(route.clos, "stev")
    args = (route.source, route.destination, route.plane, route.uplink)
    ev = find_ev(clos, *args)
    path = explain_ev(clos, ev, route.source, route.destination)
    assert path.links == build_path(route.clos, *args).links
    assert (path.usids, path.carrier, path.plane, path.uplink) == ((), None, route.plane, route.uplink)
    assert path == build_path(clos, *args)
    back = explain_ev(clos, ev, route.destination, route.source)
    assert back.links == path.links[::-1]


@settings(max_examples=examples(150))
@given(routes(small_closes() | three_tier_closes()), st.integers(0, 2**32 - 1), st.integers(0, 2**28 - 1))
def test_hashed_path_is_one_of_the_fabric(route: Route, seed: int, ev: int) -> None:
    clos = in_mode(route.clos, "ecmp", seed)
    path = explain_ev(clos, route.plane << 28 | ev, route.source, route.destination)
    ports = [hop.egress for hop in path.hops if hop.egress is not None]
    assert tuple(port.kind for port in ports) == KINDS[clos.distance(route.source, route.destination)]
    assert {port.plane for port in ports} == {route.plane}
    assert path.hops[0].node == clos.host(route.source)
    assert path.hops[-1].node == clos.host(route.destination)
    assert path.hops[-1].action is Action.DELIVER
    for before, after in zip(path.hops, path.hops[1:], strict=False):
        assert before.egress is not None
        assert after.ingress == clos.peer(before.egress)
    assert path.uplink == uplink_of_ev(clos, route.plane << 28 | ev, route.source, route.destination)


@settings(max_examples=examples(60))
@given(routes(small_closes()), st.integers(0, 3))
def test_ev_of_a_hashed_path_is_found_again(route: Route, copy: int) -> None:
    clos = in_mode(route.clos, "ecmp")
    args = (route.source, route.destination, route.plane, route.uplink)
    evs = [find_ev(clos, *args, copy=i) for i in range(copy + 1)]
    assert evs == sorted(set(evs))
    for ev in evs:
        assert ev >> 28 == route.plane
        assert uplink_of_ev(clos, ev, route.source, route.destination) == route.uplink
    assert build_path(clos, *args).uplink == route.uplink


@settings(max_examples=examples(40))
@given(routes(small_closes()), st.sampled_from(["stev", "ecmp"]))
def test_ev_sets_name_paths_of_their_plane_and_no_ev_twice(route: Route, forwarding: str) -> None:
    clos = in_mode(route.clos, forwarding)
    per_plane = 12
    evs = build_ev_set(clos, route.source, route.destination, per_plane * clos.spec.planes)
    assert len(set(evs)) == len(evs)
    for index, ev in enumerate(evs):
        assert explain_ev(clos, ev, route.source, route.destination).plane == index // per_plane


def test_hashed_ev_set_reaches_every_uplink() -> None:
    clos = Clos(TopologySpec(forwarding="ecmp", t1=4))
    evs = build_ev_set(clos, 0, 5)
    used = {(ev >> 28, uplink_of_ev(clos, ev, 0, 5)) for ev in evs}
    assert used == {(plane, uplink) for plane in range(4) for uplink in range(4)}
    assert build_ev_set(clos, 0, 5, seed=1) != evs


def test_structured_ev_may_choose_another_lane_on_the_way_down() -> None:
    clos = Clos(TopologySpec(forwarding="stev", uplinks_per_pair=2))
    path = explain_ev(clos, stev_value(1, uplink=2, lane=1, copy=9), 0, 5)
    assert [link.name for link in path.links] == [
        "h0:1~p1-t0-0:0",
        "p1-t0-0:6~p1-t1-1:0",
        "p1-t0-1:7~p1-t1-1:3",
        "h5:1~p1-t0-1:1",
    ]


@pytest.mark.parametrize(
    ("forwarding", "ev", "complaint"),
    [
        ("stev", 0x00020000, "dropped at p0-t0-0: the EV names uplink 2, which does not exist"),
        ("stev", 0x00010100, "dropped at p0-t1-1: .* lane 1, which does not exist"),
        ("stev", 0x40000000, "plane 4 does not exist"),
        ("ecmp", 0xF0000000, "plane 15 does not exist"),
    ],
)
def test_ev_that_leads_nowhere_is_refused_with_the_reason(forwarding: str, ev: int, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        explain_ev(Clos(TopologySpec.model_validate({"forwarding": forwarding})), ev, 0, 5)


def test_where_switches_hash_no_ev_names_an_uplink_by_itself() -> None:
    clos = Clos(TopologySpec(forwarding="ecmp"))
    with pytest.raises(UsageError, match="where switches hash"):
        clos.ev(0, 1)
    with pytest.raises(UsageError, match="leads from h0 to h5 by uplink 1"):
        find_ev(clos, 0, 5, 0, 1, copy=65535)
    with pytest.raises(UsageError, match="copy 256 does not fit"):
        find_ev(Clos(TopologySpec(forwarding="stev")), 0, 5, 0, 1, copy=256)


def test_parts_of_an_ev() -> None:
    assert ev_parts(0x2001ABCD, "srv6") == {"plane": 2, "uplink": 1, "copy": 0xABCD}
    assert ev_parts(0x2001ABCD, "stev") == {"plane": 2, "uplink": 1, "lane": 0xAB, "copy": 0xCD}
    assert ev_parts(0x2001ABCD, "ecmp") == {"plane": 2, "hashed": 0x001ABCD}


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ({"hash_seed": 1}, "hash_seed"),
        ({"hash_seed": 1 << 32, "forwarding": "ecmp"}, "hash_seed"),
        ({"forwarding": "stev", "uplinks_per_pair": 257}, "uplinks_per_pair"),
        ({"forwarding": "ospf"}, "forwarding"),
    ],
)
def test_limits_of_the_modes(spec: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TopologySpec.model_validate(spec)
    assert [error["loc"] for error in caught.value.errors()] == [(key,)]


def test_frames_are_an_ipv6_header_shorter_without_the_tunnel() -> None:
    shaped = {"port_rate": "100Mbit"}
    tunnelled = Clos(TopologySpec.model_validate(shaped))
    plain = Clos(TopologySpec.model_validate({**shaped, "forwarding": "ecmp"}))
    assert timing.full_frame_bytes(tunnelled) - timing.full_frame_bytes(plain) == 40
    per_link_ns = 2 * 40 * 8 * 10
    assert IdleFabric(tunnelled).rtt_ns(0, 5) - IdleFabric(plain).rtt_ns(0, 5) == 4 * per_link_ns
