"""The switch program in each mode, hop by hop through a whole fabric, against the model's explanation."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from fabric_bench import FabricBench, frame_of
from program_bench import Verdict
from reference.frame import Frame, decode_frame, encode_frame

from mrc_agents.abi import PortCounter
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import explain_ev, uplink_of_ev
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.usid import Role, Usid, pack_carrier

HOSTS_PER_T0 = 2
NEAR, NEIGHBOUR, FAR = 0, 1, 2
HOP_LIMIT = 64


def fabric(forwarding: str, **changes: int) -> Clos:
    shape = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": HOSTS_PER_T0, "uplinks_per_pair": 2}
    return Clos(TopologySpec.model_validate({"forwarding": forwarding, **shape, **changes}))


def three_tiers(forwarding: str) -> Clos:
    """Pods of three T0s, two T1s and three lanes; each T1 has two lanes to each of three T2s."""
    tiers = [{"joins": 2}, {"joins": 3, "switches": 2, "links": 3}, {"joins": 2, "switches": 3, "links": 2}]
    return Clos(TopologySpec.model_validate({"forwarding": forwarding, "planes": 2, "tiers": tiers}))


@pytest.fixture(scope="module", params=["srv6", "stev", "ecmp"])
def bench(request: pytest.FixtureRequest) -> Iterator[FabricBench]:
    with FabricBench(fabric(request.param)) as switches:
        yield switches


@pytest.fixture(scope="module", params=["srv6", "stev", "ecmp", "srv6 of three tiers", "ecmp of three tiers"])
def any_bench(request: pytest.FixtureRequest) -> Iterator[FabricBench]:
    forwarding, *more = request.param.split(maxsplit=1)
    with FabricBench(three_tiers(forwarding) if more else fabric(forwarding)) as switches:
        yield switches


@pytest.fixture(scope="module", params=["stev", "ecmp"])
def plain(request: pytest.FixtureRequest) -> Iterator[FabricBench]:
    with FabricBench(fabric(request.param)) as switches:
        yield switches


def test_every_ev_takes_the_path_that_the_model_explains(any_bench: FabricBench) -> None:
    bench, clos = any_bench, any_bench.clos
    for source in range(clos.numbering.host_count):
        for destination in set(range(clos.numbering.host_count)) - {source}:
            for ev in build_ev_set(clos, source, destination, 20, seed=source):
                frame = frame_of(clos, source, destination, ev)
                path = explain_ev(clos, ev, source, destination)
                journey = bench.send(encode_frame(frame), source, path.plane)
                assert journey.reason is None
                assert journey.end == clos.host_link(destination, path.plane).lower
                assert journey.links == tuple(link.id for link in path.links)
                arrived = decode_frame(journey.frame)
                outermost = arrived.outer or arrived.inner
                assert outermost.hop_limit == HOP_LIMIT - (len(path.links) - 1)
                assert arrived.packet == frame.packet
                assert arrived.ev == ev


@pytest.mark.parametrize("seed", [1, 0xFFFF_FFFF])
def test_seed_of_the_fabric_changes_the_paths_and_the_model_knows(seed: int) -> None:
    usual, clos = fabric("ecmp"), fabric("ecmp", hash_seed=seed)
    evs = build_ev_set(clos, NEAR, FAR, 64)
    with FabricBench(clos) as bench:
        for ev in evs:
            journey = bench.send(encode_frame(frame_of(clos, NEAR, FAR, ev)), NEAR, ev >> 28)
            assert journey.links == tuple(link.id for link in explain_ev(clos, ev, NEAR, FAR).links)
    moved = [uplink_of_ev(clos, ev, NEAR, FAR) != uplink_of_ev(usual, ev, NEAR, FAR) for ev in evs]
    assert any(moved)


def test_hash_uses_every_field_and_spreads_over_every_uplink() -> None:
    clos = fabric("ecmp")
    ports = range(400)
    with FabricBench(clos) as bench:

        def uplinks(change: Frame) -> list[int]:
            frames = (encode_frame(replace(change, source_port=port)) for port in ports)
            return [bench.send(frame, NEAR, 0).links[1] for frame in frames]

        frame = frame_of(clos, NEAR, FAR, 0)
        usual = uplinks(frame)
        count = Counter(usual)
        assert len(count) == clos.numbering.uplink_count
        assert min(count.values()) > len(ports) / clos.numbering.uplink_count / 2
        label = replace(frame, inner=replace(frame.inner, flow_label=0x8_0000))
        other_source = replace(frame, inner=replace(frame.inner, source=clos.inner_address(NEIGHBOUR, 0)))
        for changed in (label, other_source, replace(frame, destination_port=4792)):
            assert uplinks(changed) != usual


@pytest.mark.parametrize(
    ("ev", "where"),
    [(4 << 16, "p0-t0-0"), (0xFFF << 16, "p0-t0-0"), (1 << 16 | 2 << 8, "p0-t1-0"), (0xFF00, "p0-t1-0")],
    ids=["uplink 4", "uplink 4095", "lane 2", "lane 255"],
)
def test_structured_ev_that_names_no_link_is_dropped_where_it_is_read(ev: int, where: str) -> None:
    clos = fabric("stev")
    with FabricBench(clos) as bench:
        journey = bench.send(encode_frame(frame_of(clos, NEAR, FAR, ev)), NEAR, 0)
    assert (journey.reason, journey.end.node.name) == (PortCounter.DROP_NO_ROUTE, where)


def test_address_of_no_host_or_of_another_plane_is_dropped(plain: FabricBench) -> None:
    clos = plain.clos
    frame = frame_of(clos, NEAR, FAR, 0)
    last = clos.numbering.host_count
    strangers = [f"fd6d:7263::{last + 1:x}", "fd6d:7263::", "fd6d:7263::1:0:0:1", "fd6d:7263:0:1::3"]
    for address in strangers:
        changed = replace(frame, inner=replace(frame.inner, destination=IPv6Address(address)))
        journey = plain.send(encode_frame(changed), NEAR, 0)
        assert (journey.reason, len(journey.links)) == (PortCounter.DROP_NO_ROUTE, 1)


def test_what_is_not_mrc_is_left_to_the_kernel(plain: FabricBench) -> None:
    clos = plain.clos
    good = encode_frame(frame_of(clos, NEAR, FAR, 0))
    carrier = pack_carrier((Usid(Role.T0, 0, 0), Usid(Role.DOWNLINK, 0, 1)))
    port = clos.host_link(NEAR, 0).upper
    for octets in (
        good[:38] + carrier.packed + good[54:],
        good[:38] + IPv6Address("fe80::1").packed + good[54:],
        good[:12] + b"\x08\x00" + good[14:],
        good[:20] + b"\x3a" + good[21:],
    ):
        assert plain.receive(octets, port) == (Verdict.PASS, octets)


def test_frame_without_ports_is_malformed(plain: FabricBench) -> None:
    good = encode_frame(frame_of(plain.clos, NEAR, FAR, 0))
    for length in (15, 53, 54, 61):
        journey = plain.send(good[:length], NEAR, 0)
        assert (journey.reason, len(journey.links)) == (PortCounter.DROP_MALFORMED, 1)
    assert plain.send(good[:62], NEAR, 0).reason is None


def test_hop_limit_ends_a_packet(plain: FabricBench) -> None:
    clos = plain.clos
    frame = frame_of(clos, NEAR, FAR, 0)
    for hop_limit, crossed in ((1, 1), (2, 2), (3, 3)):
        changed = replace(frame, inner=replace(frame.inner, hop_limit=hop_limit))
        journey = plain.send(encode_frame(changed), NEAR, 0)
        assert (journey.reason, len(journey.links)) == (PortCounter.DROP_HOP_LIMIT, crossed)


def test_what_came_down_does_not_go_up_again(plain: FabricBench) -> None:
    clos = plain.clos
    uplink = clos.fabric_link(0, 0, 0).lower
    stray = encode_frame(frame_of(clos, NEAR, FAR, 0))
    assert plain.receive(stray, uplink)[0] is Verdict.DROP
    home = encode_frame(frame_of(clos, FAR, NEAR, 0))
    assert plain.receive(home, uplink)[0] is Verdict.REDIRECT
