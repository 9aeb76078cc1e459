"""Any sequence of arrivals at a shaped port of the real programs, against the reference, to a nanosecond."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, count

import pytest
from exploring import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference.delay import delay_index
from reference.frame import trim_frame, trimmed_bytes
from reference.layout import WireError
from reference.port import DROPS, Arrival, Delivery, Marking, ReferencePort, Verdict
from switch_bench import SwitchBench, frame_for, label_of, now_ns

from mrc_agents.abi import Dscp, PortCounter, PortKind, TrafficClass

MBIT = 10**6
SECOND = 10**9
ECT0, CE = 2, 3
TUNNEL, OTHER = 41, 0xFD
COUNTERS = {
    Verdict.MARKED: PortCounter.ECN_MARKS,
    Verdict.TRIMMED: PortCounter.TRIMS,
    Verdict.DROPPED_DATA: PortCounter.DROP_QUEUE_FULL,
    Verdict.DROPPED_CONTROL: PortCounter.DROP_CONTROL_FULL,
}


@pytest.fixture(scope="module")
def bench() -> Iterator[SwitchBench]:
    with SwitchBench(2) as switch:
        yield switch


@pytest.fixture(scope="module")
def past_times_ns() -> Iterator[int]:
    """Times long enough ago for all that follows to be due, each 0.1 s after the one before."""
    return count(now_ns() - 120 * SECOND, SECOND // 10)


@dataclass(frozen=True, slots=True)
class Sent:
    """A frame, and the reference's view of it."""

    arrival: Arrival
    frame: bytes = field(repr=False)


def sent(time_ns: int, label: int, length_bytes: int, dscp: Dscp, ecn: int, next_header: int) -> Sent:
    traffic_class = TrafficClass.CONTROL if dscp == Dscp.CONTROL else TrafficClass.DATA
    frame = frame_for(
        1, length_bytes, traffic_class=traffic_class, label=label, dscp=dscp, ecn=ecn, next_header=next_header
    )
    left = 0
    if dscp in {Dscp.TRIMMABLE, Dscp.TRIMMABLE_RETX}:
        with suppress(WireError):  # ends within its headers: nothing to trim
            left = trimmed_bytes(with_known_opcode(frame, next_header))
    is_ect = ecn != 0 and traffic_class == TrafficClass.DATA
    trims_to = left if left < length_bytes else 0
    frame = with_known_opcode(frame, next_header)
    return Sent(Arrival(time_ns, traffic_class, length_bytes, label, is_ect, trims_to), frame)


def with_known_opcode(frame: bytes, next_header: int) -> bytes:
    """*frame* with one of the opcodes of data in its BTH, by its label."""
    bth_at = 102 if next_header == TUNNEL else 62
    if len(frame) <= bth_at:
        return frame
    opcode = 0xC6 + label_of(frame) % 6
    return frame[:bth_at] + bytes([opcode]) + frame[bth_at + 1 :]


@st.composite
def frames(draw: st.DrawFn) -> list[Sent]:
    gap_ns = st.sampled_from([0, 0, 1, 900, 20_000, 180_000, 400_000])
    dscp = st.sampled_from([Dscp.CONTROL, Dscp.NO_TRIM, Dscp.TRIMMABLE, Dscp.TRIMMABLE, Dscp.TRIMMABLE_RETX])
    length_bytes = st.sampled_from([60, 95, 150, 999, 2186])
    ecn = st.sampled_from([0, ECT0, ECT0, CE])
    next_header = st.sampled_from([TUNNEL, OTHER])
    rows = draw(st.lists(st.tuples(gap_ns, length_bytes, dscp, ecn, next_header), min_size=1, max_size=40))
    times = accumulate(gap for gap, *_ in rows)
    return [sent(time, label, *row[1:]) for label, (time, row) in enumerate(zip(times, rows, strict=True))]


def expected_frame(sent_frame: bytes, verdict: Verdict | None, *, is_last_hop: bool) -> bytes:
    """The frame at the far end, from the traffic class on but for the hop limit."""
    octets = sent_frame
    if verdict is Verdict.TRIMMED:
        octets = trim_frame(octets, is_last_hop=is_last_hop)
    if verdict is Verdict.MARKED:
        octets = octets[:15] + bytes([octets[15] | CE << 4]) + octets[16:]
    return octets[12:21] + octets[22:]


@given(
    rows=frames(),
    rate_bps=st.sampled_from([25 * MBIT, 100 * MBIT, 999_999_937]),
    delay_ns=st.sampled_from([0, 5_000, 3_000_000]),
    buffer_bytes=st.tuples(st.integers(0, 1000), st.integers(0, 20_000)),
    trim_bytes=st.one_of(st.just(0), st.integers(1, 10_000)),
    marking=st.builds(
        Marking,
        st.integers(0, 5_000),
        st.one_of(st.just(0), st.integers(5_001, 15_000)),
        st.integers(0, 1 << 32),
        st.integers(0, (1 << 32) - 1),
    ),
    is_last_hop=st.booleans(),
)
# twenty frames are to begin at once when the next one comes
@example(
    rows=[
        *(sent(0, label, 150, Dscp.TRIMMABLE, ECT0, OTHER) for label in range(30)),
        sent(400_000, 30, 2186, Dscp.TRIMMABLE, ECT0, OTHER),
        sent(400_000, 31, 2186, Dscp.TRIMMABLE, ECT0, OTHER),
        sent(400_000, 32, 150, Dscp.CONTROL, 0, OTHER),
    ],
    rate_bps=100 * MBIT,
    delay_ns=3_000_000,
    buffer_bytes=(1000, 20_000),
    trim_bytes=0,
    marking=Marking(1000, 1001, 0, 0),
    is_last_hop=False,
)
@settings(max_examples=examples(150))
def test_any_sequence_of_arrivals_is_served_as_the_reference_says(
    bench: SwitchBench,
    past_times_ns: Iterator[int],
    rows: list[Sent],
    rate_bps: int,
    delay_ns: int,
    buffer_bytes: tuple[int, int],
    trim_bytes: int,
    marking: Marking,
    is_last_hop: bool,
) -> None:
    start_ns = next(past_times_ns)
    bench.shape(1, rate_bps=rate_bps, delay_ns=delay_ns, buffer_bytes=buffer_bytes)
    bench.port_table[1].kind = PortKind.T0_DOWN if is_last_hop else PortKind.T0_UP
    bench.settings[1].trim_bytes = trim_bytes
    bench.mark(
        1,
        min_bytes=marking.min_bytes,
        max_bytes=marking.max_bytes,
        probability_q32=marking.probability_q32,
        seed=marking.seed,
    )
    port = ReferencePort(rate_bps, delay_ns, buffer_bytes, trim_bytes, marking)
    carried = port.carry((row.arrival for row in rows), bench.ports.read(1).draws)
    verdicts = carried.verdicts
    bench.forget_delays(1)
    before = {verdict: bench.counter(1, which) for verdict, which in COUNTERS.items()}
    for row in rows:
        bench.receive(row.frame, start_ns + row.arrival.time_ns)
    left = bench.drain()

    assert [Delivery(each.arrival_ns - start_ns, label_of(each.frame)) for each in left] == carried.deliveries
    for each in left:
        label = label_of(each.frame)
        wanted = expected_frame(rows[label].frame, verdicts.get(label), is_last_hop=is_last_hop)
        assert each.frame[12:21] + each.frame[22:] == wanted
    happened = Counter(verdicts.values())
    for verdict, which in COUNTERS.items():
        assert bench.counter(1, which) - before[verdict] == happened[verdict], verdict
    assert len(left) + sum(happened[drop] for drop in DROPS) == len(rows)
    assert list(bench.state[1].depth_bytes) == [0, 0]
    for delays_ns, counted in zip(carried.delays_ns, bench.delays[1].of_class, strict=True):
        assert (counted.sum_ns, counted.max_ns) == (sum(delays_ns), max(delays_ns, default=0))
        by_bucket = Counter(delay_index(delay_ns) for delay_ns in delays_ns)
        assert {index: count for index, count in enumerate(counted.buckets) if count} == by_bucket
