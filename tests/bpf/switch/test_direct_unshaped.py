"""Direct links without rates: one run of the program is the journey that a frame would make hop by hop."""

from collections.abc import Callable, Iterator

import pytest
from fabric_bench import FabricBench, frame_of
from program_bench import Verdict
from reference.frame import encode_frame

from mrc_agents.abi import PortCounter
from mrc_testbed.fabric.netlink import mac_bytes
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.spec import TopologySpec

NEAR, NEIGHBOUR, FAR = 0, 1, 2
SOURCE_MAC = slice(6, 12)
HOP_LIMIT_AT = 21

Counts = tuple[tuple[int, ...], ...]


@pytest.fixture(scope="module", params=["srv6", "stev", "ecmp"])
def bench(request: pytest.FixtureRequest) -> Iterator[FabricBench]:
    shape = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2, "uplinks_per_pair": 2}
    spec = TopologySpec.model_validate({"forwarding": request.param, "queue": {"links": "direct"}, **shape})
    with FabricBench(Clos(spec)) as switches:
        yield switches


@pytest.fixture(autouse=True)
def all_direct(bench: FabricBench) -> Iterator[None]:
    yield
    for port in bench.port_table:
        port.is_direct = port.is_configured = 1
        port.is_faulted = port.capture_bytes = 0


def counted_since(bench: FabricBench, before: Counts) -> Counts:
    pairs = zip(bench.counts(), before, strict=True)
    return tuple(tuple(new - old for new, old in zip(*both, strict=True)) for both in pairs)


def arrive(bench: FabricBench, frame: bytes, host: int = NEAR) -> tuple[Verdict, bytes, Counts]:
    """One run at the T0 of *host*, in plane 0: verdict, frame, and what each port counted."""
    before = bench.counts()
    verdict, left = bench.receive(frame, bench.clos.host_link(host, 0).upper)
    return verdict, left, counted_since(bench, before)


def egress_of(bench: FabricBench, frame: bytes) -> Port:
    """The port that a frame leaves by, from its source address."""
    (port,) = (port for port in bench.clos.ports() if mac_bytes(port.mac) == frame[SOURCE_MAC])
    return port


def sent_by(counted: Counts) -> set[int]:
    return {port_id for port_id, counts in enumerate(counted) if counts[PortCounter.TX_PACKETS]}


def hop_by_hop(bench: FabricBench, frame: bytes, host: int) -> tuple[bytes, Counts]:
    for port in bench.port_table:
        port.is_direct = 0
    before = bench.counts()
    journey = bench.send(frame, host, 0)
    assert journey.reason is None
    for port in bench.port_table:
        port.is_direct = 1
    return journey.frame, counted_since(bench, before)


def test_frame_and_counters_are_those_of_the_journey_hop_by_hop(bench: FabricBench) -> None:
    clos = bench.clos
    for destination in (FAR, NEIGHBOUR):
        evs = [ev for ev in build_ev_set(clos, NEAR, destination, 32) if not ev >> 28]
        assert len(evs) == 16
        for ev in evs:
            frame = encode_frame(frame_of(clos, NEAR, destination, ev))
            usual, usually_counted = hop_by_hop(bench, frame, NEAR)
            verdict, left, counted = arrive(bench, frame)
            assert verdict is Verdict.REDIRECT
            assert left == usual
            assert counted == usually_counted
            assert egress_of(bench, left) == clos.host_link(destination, 0).upper


def uplink(bench: FabricBench) -> Port:
    """The first T0's port on the path of EV 0."""
    return explain_ev(bench.clos, 0, NEAR, FAR).links[1].lower


def t1_ingress(bench: FabricBench) -> Port:
    return bench.clos.peer(uplink(bench))


def t1_egress(bench: FabricBench) -> Port:
    return explain_ev(bench.clos, 0, NEAR, FAR).links[2].upper


def set_at(which: Callable[[FabricBench], Port], field: str, value: int) -> Callable[[FabricBench], None]:
    return lambda bench: setattr(bench.port_table[which(bench).id], field, value)


LEAVES_AT: dict[str, tuple[Callable[[FabricBench], None], Callable[[FabricBench], Port]]] = {
    "veth link": (set_at(uplink, "is_direct", 0), uplink),
    "captured link": (set_at(uplink, "capture_bytes", 64), uplink),
    "faulted link": (set_at(uplink, "is_faulted", 1), uplink),
    "second link is veth": (set_at(t1_egress, "is_direct", 0), t1_egress),
    "second link is captured": (set_at(t1_egress, "capture_bytes", 64), t1_egress),
    "second switch is the kernel's": (set_at(t1_ingress, "is_configured", 0), uplink),
}


@pytest.mark.parametrize("reason", LEAVES_AT)
def test_a_frame_takes_the_first_veth_where_somebody_has_to_see_it(bench: FabricBench, reason: str) -> None:
    change, where = LEAVES_AT[reason]
    change(bench)
    verdict, left, counted = arrive(bench, encode_frame(frame_of(bench.clos, NEAR, FAR, 0)))
    assert verdict is Verdict.REDIRECT
    assert egress_of(bench, left) == where(bench)
    assert sent_by(counted) == {uplink(bench).id, where(bench).id}


def test_a_frame_that_ends_on_its_way_is_counted_where_it_came_in(bench: FabricBench) -> None:
    frame = bytearray(encode_frame(frame_of(bench.clos, NEAR, FAR, 0)))
    frame[HOP_LIMIT_AT] = 2
    verdict, _, counted = arrive(bench, bytes(frame))
    assert verdict is Verdict.DROP
    assert sent_by(counted) == {uplink(bench).id}
    assert counted[t1_ingress(bench).id][PortCounter.DROP_HOP_LIMIT] == 1


def test_what_is_not_mrc_stays_with_the_first_switch(bench: FabricBench) -> None:
    frame = bytearray(encode_frame(frame_of(bench.clos, NEAR, FAR, 0)))
    frame[12:14] = b"\x08\x06"
    verdict, left, counted = arrive(bench, bytes(frame))
    assert (verdict, left) == (Verdict.PASS, bytes(frame))
    assert sent_by(counted) == set()
