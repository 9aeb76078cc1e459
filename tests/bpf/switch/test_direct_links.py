"""Links whose frames go on inside the engine: as exact as veths, and veths whenever somebody has to look.

Port 0 is where frames come in at switch A, which sends them by port 1; port 2 is the far end, at switch B,
which sends them by port 3 to a NIC.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate

import pytest
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.port import Arrival, Delivery, ReferencePort
from switch_bench import NODE_ID, SwitchBench, frame_for, label_of, now_ns

from mrc_agents.abi import PortCounter, PortKind, QueueLimit, TrafficClass

MBIT = 10**6
DATA, CONTROL = TrafficClass.DATA, TrafficClass.CONTROL
HOP_LIMIT_AT = 21
NAMED_PORT = 1


@pytest.fixture(scope="module")
def bench() -> Iterator[SwitchBench]:
    with SwitchBench(4) as switch:
        switch.route(NODE_ID + 1, NAMED_PORT, 3)
        yield switch


@pytest.fixture(autouse=True)
def pair(bench: SwitchBench) -> SwitchBench:
    """Two switches with a direct link between them."""
    bench.shape(1, rate_bps=100 * MBIT, delay_ns=5_000)
    bench.shape(3, rate_bps=100 * MBIT, delay_ns=7_000)
    for port_id, kind in enumerate((PortKind.NIC, PortKind.T0_UP, PortKind.T1_DOWN, PortKind.T1_DOWN)):
        port = bench.port_table[port_id]
        port.kind, port.peer_port, port.is_configured = kind, port_id ^ 3, 1
        port.node_id = NODE_ID + port_id // 2
        port.is_faulted = port.capture_bytes = 0
        port.is_direct = 1
    return bench


def frame(label: int, length_bytes: int = 999, kind: TrafficClass = DATA) -> bytes:
    return frame_for(NAMED_PORT, length_bytes, traffic_class=kind, label=label)


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    gap_ns = st.sampled_from([0, 1, 900, 20_000, 180_000])
    rows = draw(
        st.lists(
            st.tuples(gap_ns, st.sampled_from([CONTROL, DATA]), st.sampled_from([60, 150, 2186])),
            min_size=1,
            max_size=30,
        )
    )
    times = accumulate(gap for gap, _, _ in rows)
    return [
        Arrival(time, kind, length, label)
        for label, (time, (_, kind, length)) in enumerate(zip(times, rows, strict=True))
    ]


@given(
    rows=arrivals(),
    rates_bps=st.tuples(*[st.sampled_from([25 * MBIT, 100 * MBIT, 999_999_937])] * 2),
    buffer_bytes=st.integers(0, 20_000),
)
@settings(max_examples=examples(60))
def test_two_hops_are_two_reference_ports(
    bench: SwitchBench, rows: list[Arrival], rates_bps: tuple[int, int], buffer_bytes: int
) -> None:
    start_ns = now_ns()
    buffers = (buffer_bytes, buffer_bytes)
    bench.shape(1, rate_bps=rates_bps[0], delay_ns=5_000, buffer_bytes=buffers)
    bench.shape(3, rate_bps=rates_bps[1], delay_ns=7_000, buffer_bytes=buffers)
    by_label = {row.label: row for row in rows}
    first = ReferencePort(rates_bps[0], 5_000, buffers).carry(rows).deliveries
    between = [
        Arrival(
            each.time_ns, by_label[each.label].traffic_class, by_label[each.label].length_bytes, each.label
        )
        for each in first
    ]
    expected = ReferencePort(rates_bps[1], 7_000, buffers).carry(between).deliveries
    before = [bench.counter(1, which) for which in (PortCounter.TX_PACKETS, PortCounter.TX_BYTES)]

    sent = {row.label: frame(row.label, row.length_bytes, TrafficClass(row.traffic_class)) for row in rows}
    bench.drainer.scan = (
        start_ns >> QueueLimit.BUCKET_SHIFT
    )  # as far behind the clock as the model: order holds
    for row in rows:
        bench.receive(sent[row.label], start_ns + row.time_ns)
    left = bench.drain()

    assert [Delivery(each.arrival_ns - start_ns, label_of(each.frame)) for each in left] == expected
    for each in left:
        original = sent[label_of(each.frame)]
        assert each.port_id == 3
        assert len(each.frame) == len(original)
        assert each.frame[HOP_LIMIT_AT] == original[HOP_LIMIT_AT] - 2
        assert each.frame[12:HOP_LIMIT_AT] == original[12:HOP_LIMIT_AT]
        assert each.frame[HOP_LIMIT_AT + 1 :] == original[HOP_LIMIT_AT + 1 :]
    tx_bytes = sum(by_label[each.label].length_bytes for each in first)
    after = [bench.counter(1, which) for which in (PortCounter.TX_PACKETS, PortCounter.TX_BYTES)]
    assert after == [before[0] + len(first), before[1] + tx_bytes]


REASONS: dict[str, Callable[[SwitchBench], object]] = {
    "veth link": lambda bench: setattr(bench.port_table[1], "is_direct", 0),
    "captured link": lambda bench: setattr(bench.port_table[1], "capture_bytes", 64),
    "faulted link": lambda bench: setattr(bench.port_table[1], "is_faulted", 1),
    "far end is a NIC": lambda bench: setattr(bench.port_table[2], "kind", PortKind.NIC),
    "next port is captured": lambda bench: setattr(bench.port_table[3], "capture_bytes", 64),
    "next port is unshaped": lambda bench: setattr(bench.port_table[3], "rate_bps", 0),
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_frame_that_somebody_has_to_see_takes_the_veth(pair: SwitchBench, reason: str) -> None:
    REASONS[reason](pair)
    start_ns = now_ns()
    sent = frame(7)
    pair.receive(sent, start_ns)
    (left,) = pair.drain()
    assert (left.port_id, left.arrival_ns) == (1, start_ns + 999 * 80 + 5_000)
    assert left.frame[12:HOP_LIMIT_AT] == sent[12:HOP_LIMIT_AT]
    assert left.frame[HOP_LIMIT_AT] == sent[HOP_LIMIT_AT] - 1
    assert left.frame[HOP_LIMIT_AT + 1 :] == sent[HOP_LIMIT_AT + 1 :]


def test_a_frame_without_a_way_on_is_counted_where_it_came_in(pair: SwitchBench) -> None:
    pair.port_table[2].node_id = NODE_ID + 1
    sent = bytearray(frame(1))
    sent[HOP_LIMIT_AT] = 2
    before = pair.counter(2, PortCounter.DROP_HOP_LIMIT)
    pair.receive(bytes(sent), now_ns())
    assert pair.drain() == []
    assert pair.counter(2, PortCounter.DROP_HOP_LIMIT) == before + 1


def test_the_mode_changes_from_one_frame_to_the_next(pair: SwitchBench) -> None:
    start_ns = now_ns()
    for label in range(4):
        pair.receive(frame(label), start_ns)
    left = []
    while pair.pool.read(0).used:
        pair.port_table[1].is_direct ^= 1
        departure = pair.drain_one()
        if departure:
            left.append(departure)
    assert sorted(label_of(each.frame) for each in left) == [0, 1, 2, 3]
    assert {each.port_id for each in left} == {1, 3}
