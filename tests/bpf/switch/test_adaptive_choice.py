"""Adaptive choice of an uplink by the real switch program, against the reference and a plain simulation."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import Structure, addressof, c_uint32, memset, sizeof

import pytest
from exploring import examples
from fabric_bench import FabricBench, frame_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.adaptive_choice import UplinkLoad, choose_adaptively
from reference.frame import encode_frame
from switch_bench import now_ns

from mrc_agents.abi import (
    FaultAction,
    LosslessLink,
    LosslessSettings,
    PortCounter,
    PortEntry,
    PortFault,
    QueuePool,
    QueuePort,
    QueueState,
    TrafficClass,
)
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node, Port
from mrc_testbed.topology.forwarding import FIB_STRIDE
from mrc_testbed.topology.host_forwarding import trace_packet
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.usid import PLANE_SHIFT, Role

NEAR, FAR = 0, 2
BYTE_PER_NS = 8 * 10**9


def fabric(flow_control: str) -> Clos:
    shape = {"planes": 1, "t0": 2, "t1": 2, "hosts_per_t0": 2, "uplinks_per_pair": 2}
    mode = {"forwarding": "ecmp", "uplink_choice": "adaptive", "port_rate": BYTE_PER_NS}
    return Clos(TopologySpec.model_validate({**shape, **mode, "flow_control": flow_control}))


class ChoosingSwitch:
    """The links that one switch has to choose from, with the state that the choice looks at."""

    def __init__(self, bench: FabricBench) -> None:
        self.bench, self.clos = bench, bench.clos
        self.queues = ArrayMap(bench.map_fd("queue_ports"), QueuePort, locked=True)
        self.state = MappedArray(bench.map_fd("queue_state"), QueueState)
        self.links = MappedArray(bench.map_fd("lossless_links"), LosslessLink)
        self.flow = MappedArray(bench.map_fd("lossless_settings"), LosslessSettings)
        self.table = MappedArray(bench.map_fd("port_table"), PortEntry)
        self.faults = MappedArray(bench.map_fd("port_fault"), PortFault)
        self._pool = ArrayMap(bench.map_fd("queue_pool"), QueuePool, locked=True)
        self.t0 = self.clos.t0_of(NEAR, 0)
        uplinks = range(self.clos.numbering.uplink_count)
        self.uplinks = [self.clos.fabric_link(0, 0, uplink).lower for uplink in uplinks]

    def reset(self) -> None:
        """Empties every port."""
        self._pool.write(0, QueuePool())
        for port in self.clos.ports():
            self.queues.write(port.id, QueuePort())
            for entry in (self.state[port.id], self.links[port.id], self.faults[port.id]):
                memset(addressof(entry), 0, sizeof(entry))
            self.table[port.id].is_faulted = 0

    def cut(self, port_id: int) -> None:
        """Takes the link down that a port sends into."""
        self.faults[port_id].rule[3].action = FaultAction.DOWN
        self.table[port_id].is_faulted = 1

    def load(self, port_id: int, load: UplinkLoad, at_ns: int) -> None:
        """Makes a port look like *load* at *at_ns*; nothing of it moves."""
        self.queues.write(port_id, QueuePort(free_at_ns=at_ns + load.free_in_ns))
        self.state[port_id].depth_bytes[TrafficClass.DATA] = load.waiting_bytes
        self.links[port_id].is_paused = load.is_held and load.used_credit_bytes is None
        self.links[port_id].used_bytes = load.used_credit_bytes or 0
        if not load.is_up:
            self.cut(port_id)

    def send(self, ev: int, at_ns: int, *, length_bytes: int = 0) -> int:
        """Which uplink a packet took."""
        before = self._seen()
        frame = encode_frame(frame_of(self.clos, NEAR, FAR, ev))
        frame += bytes(max(0, length_bytes - len(frame)))
        self.bench.receive(frame, self.clos.host_link(NEAR, 0).upper, at_ns)
        after = self._seen()
        (chosen,) = (number for number, old in enumerate(before) if after[number] != old)
        return chosen

    def _seen(self) -> list[tuple[int, ...]]:
        queues = [self.queues.read(port.id) for port in self.uplinks]
        return [(q.wire_tail, q.tail[0], q.tail[1]) for q in queues]

    def usual(self, ev: int) -> int:
        """The uplink that the hash falls on."""
        return self.uplinks.index(self.usual_egress(self.t0, ev))

    def usual_egress(self, switch: Node, ev: int) -> Port:
        """The port by which packets on that EV leave a switch in the idle fabric."""
        hops = trace_packet(self.clos, NEAR, FAR, 0, ev)
        (egress,) = (hop.egress for hop in hops if hop.node == switch and hop.egress is not None)
        return egress


@contextmanager
def choosing(flow_control: str) -> Iterator[ChoosingSwitch]:
    with FabricBench(fabric(flow_control)) as bench:
        yield ChoosingSwitch(bench)


@pytest.fixture(scope="module", params=["none", "pfc", "credits"])
def switch(request: pytest.FixtureRequest) -> Iterator[ChoosingSwitch]:
    with choosing(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[ChoosingSwitch]:
    with choosing("none") as made:
        yield made


def loads_like(switch: ChoosingSwitch, drawn: tuple[int, int, int, bool, bool]) -> UplinkLoad:
    waiting, free_in_ns, used, is_held, is_up = drawn
    kind = switch.clos.spec.flow_control
    return UplinkLoad(
        waiting_bytes=waiting,
        free_in_ns=free_in_ns,
        rate_bps=BYTE_PER_NS,
        used_credit_bytes=used if kind == "credits" else None,
        keeps_sending=kind == "none",
        is_held=is_held and kind == "pfc",
        is_up=is_up,
    )


# few values, so that links are often equally loaded
DRAWN = st.tuples(
    st.sampled_from([0, 1500, 1501, 9000]),
    st.sampled_from([-4000, -1500, -1, 0, 1, 1500, 2**31]),
    st.sampled_from([0, 2190, 4380]),
    st.sampled_from([False, False, True]),
    st.sampled_from([True, True, True, False]),
)


@settings(max_examples=examples(150))
@given(drawn=st.lists(DRAWN, min_size=4, max_size=4), port=st.integers(0, 2**16 - 1))
def test_least_loaded_link_that_is_up_is_taken(
    switch: ChoosingSwitch, drawn: list[tuple[int, int, int, bool, bool]], port: int
) -> None:
    switch.reset()
    at_ns = now_ns() + 10**10
    loads = [loads_like(switch, each) for each in drawn]
    for uplink, load in zip(switch.uplinks, loads, strict=True):
        switch.load(uplink.id, load, at_ns)
    assert switch.send(port, at_ns) == choose_adaptively(loads, switch.usual(port))


@settings(max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.integers(0, 3000), st.integers(128, 2190), st.integers(0, 2**16 - 1)),
        min_size=2,
        max_size=40,
    )
)
def test_packets_follow_what_truly_waits(plain: ChoosingSwitch, packets: list[tuple[int, int, int]]) -> None:
    """A port that sends a byte per nanosecond has as many bytes to send as nanoseconds until it is idle."""
    plain.reset()
    at_ns = now_ns() + 10**10
    idle_ns = [0] * len(plain.uplinks)
    for gap_ns, length_bytes, port in packets:
        at_ns += gap_ns
        order = [(plain.usual(port) + n) % len(idle_ns) for n in range(len(idle_ns))]
        expected = min(order, key=lambda uplink: max(0, idle_ns[uplink] - at_ns))
        assert plain.send(port, at_ns, length_bytes=length_bytes) == expected
        idle_ns[expected] = max(at_ns, idle_ns[expected]) + length_bytes


def test_a_link_cut_at_either_end_is_left_and_taken_again(switch: ChoosingSwitch) -> None:
    switch.reset()
    at_ns = now_ns() + 10**10
    usual = switch.usual(7)
    near = switch.uplinks[usual].id
    far = switch.clos.peer(switch.uplinks[usual]).id
    for cut in (near, far):
        switch.reset()
        switch.cut(cut)
        assert switch.send(7, at_ns) == (usual + 1) % len(switch.uplinks)
        switch.reset()
        assert switch.send(7, at_ns) == usual
    for uplink in switch.uplinks:
        switch.cut(uplink.id)
    switch.load(near, loads_like(switch, (9000, 0, 0, False, True)), at_ns)
    assert switch.send(7, at_ns) == usual, "with all links down the hash decides, and the link drops it"


def test_a_fault_that_takes_no_carrier_goes_unseen(plain: ChoosingSwitch) -> None:
    plain.reset()
    usual = plain.usual(7)
    port_id = plain.uplinks[usual].id
    plain.faults[port_id].rule[0].action = FaultAction.LOSE
    plain.table[port_id].is_faulted = 1
    assert plain.send(7, now_ns() + 10**10) == usual


def test_a_t1_chooses_among_parallel_links_too(plain: ChoosingSwitch) -> None:
    plain.reset()
    clos, at_ns = plain.clos, now_ns() + 10**10
    t1 = clos.peer(plain.uplinks[plain.usual(7)])
    lanes = [port for port in clos.ports_of(t1.node) if clos.peer(port).node.index == 1]
    assert len(lanes) == 2
    usual = lanes.index(plain.usual_egress(t1.node, 7))
    plain.queues.write(lanes[usual].id, QueuePort(free_at_ns=at_ns + 1000))
    plain.bench.receive(encode_frame(frame_of(clos, NEAR, FAR, 7)), t1, at_ns)
    assert [plain.queues.read(port.id).wire_tail != 0 for port in lanes] == [usual == 1, usual == 0]


class Entry(Structure):
    """Entry of the forwarding table."""

    _fields_ = (("value", c_uint32),)


def test_an_empty_table_drops_as_ever(plain: ChoosingSwitch) -> None:
    """A switch that has rebooted: nothing to choose from."""
    plain.reset()
    with ExitStack() as undo:
        fib = ArrayMap(plain.bench.map_fd("fib"), Entry)
        for uplink in range(len(plain.uplinks)):
            index = plain.t0.id * FIB_STRIDE + (Role.T1 << PLANE_SHIFT | uplink)
            undo.callback(fib.write, index, fib.read(index))
            fib.write(index, Entry(0))
        journey = plain.bench.send(encode_frame(frame_of(plain.clos, NEAR, FAR, 7)), NEAR, 0)
    assert journey.reason is PortCounter.DROP_NO_ROUTE
