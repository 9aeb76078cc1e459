"""A shaped port of the real programs against the reference, frame by frame and nanosecond by nanosecond."""

from collections.abc import Iterator

import pytest
from port_faults import write_port_fault
from program_bench import Verdict
from switch_bench import SwitchBench, frame_for, label_of, now_ns

from mrc_agents.abi import PortCounter, QueueLimit, TrafficClass

CONTROL, DATA = TrafficClass.CONTROL, TrafficClass.DATA
MBIT = 10**6
SECOND = 10**9
DATA_BYTES, CONTROL_BYTES = 2186, 150


@pytest.fixture
def bench() -> Iterator[SwitchBench]:
    with SwitchBench(3) as switch:
        yield switch


@pytest.fixture
def past_ns() -> int:
    """A time long enough ago for all that follows to be due."""
    return now_ns() - SECOND


@pytest.mark.parametrize("length_bytes", [60, 127, CONTROL_BYTES, 1514, DATA_BYTES, 3014, 3072])
def test_length_and_bytes_survive(bench: SwitchBench, past_ns: int, length_bytes: int) -> None:
    bench.shape(1, rate_bps=1000 * MBIT)
    sent = frame_for(1, length_bytes, traffic_class=DATA, label=length_bytes)
    bench.receive(sent, past_ns)
    (left,) = bench.drain()
    assert len(left.frame) == length_bytes
    assert left.frame[54:] == sent[54:]


def test_frame_that_exceeds_a_pool_element_is_counted_as_malformed(bench: SwitchBench, past_ns: int) -> None:
    bench.shape(1, rate_bps=100 * MBIT)
    before = bench.counter(1, PortCounter.DROP_MALFORMED)
    bench.receive(frame_for(1, QueueLimit.FRAME_BYTES + 1, traffic_class=DATA), past_ns)
    assert bench.counter(1, PortCounter.DROP_MALFORMED) == before + 1
    assert bench.pool.read(0).used == 0


def test_control_that_comes_after_the_start_of_transmission_waits(bench: SwitchBench, past_ns: int) -> None:
    """Service is lazy: both are looked at together, long after the second data frame had begun."""
    bench.shape(1, rate_bps=100 * MBIT)
    for label in (1, 2, 3):
        bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=label), past_ns)
    second_begins_ns = past_ns + DATA_BYTES * 80
    bench.receive(frame_for(1, CONTROL_BYTES, traffic_class=CONTROL, label=4), second_begins_ns + 1)
    assert [label_of(left.frame) for left in bench.drain()] == [1, 2, 4, 3]


def test_full_buffer_drops_the_newest_and_counts_it(bench: SwitchBench, past_ns: int) -> None:
    bench.shape(1, rate_bps=100 * MBIT, buffer_bytes=(1000, 2 * DATA_BYTES))
    before = bench.counter(1, PortCounter.DROP_QUEUE_FULL)
    for label in range(5):
        bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=label), past_ns)
    assert bench.counter(1, PortCounter.DROP_QUEUE_FULL) == before + 2
    assert list(bench.state[1].depth_bytes) == [0, 2 * DATA_BYTES]
    # the other class has a buffer of its own
    for label in range(9, 18):
        bench.receive(frame_for(1, CONTROL_BYTES, traffic_class=CONTROL, label=label), past_ns)
    assert bench.counter(1, PortCounter.DROP_CONTROL_FULL) == 3
    assert list(bench.state[1].depth_bytes) == [6 * CONTROL_BYTES, 2 * DATA_BYTES]
    assert [label_of(left.frame) for left in bench.drain()] == [0, *range(9, 15), 1, 2]
    assert list(bench.state[1].depth_bytes) == [0, 0]


def test_frame_without_model_time_starts_from_the_clock(bench: SwitchBench) -> None:
    bench.shape(1, rate_bps=10_000 * MBIT)
    before_ns = now_ns()
    bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA))
    after_ns = now_ns()
    (left,) = bench.drain()
    serialisation_ns = DATA_BYTES * 8 // 10
    assert before_ns + serialisation_ns <= left.arrival_ns <= after_ns + serialisation_ns


def test_frames_back_to_back_take_what_the_rate_says_however_long_they_are(
    bench: SwitchBench, past_ns: int
) -> None:
    """A frame takes 5829 1/3 ns: were the third forgotten, the port would be faster than its rate."""
    bench.shape(1, rate_bps=3000 * MBIT)
    for label in range(7):
        bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=label), past_ns)
    arrivals_ns = [left.arrival_ns - past_ns for left in bench.drain()]
    assert arrivals_ns == [DATA_BYTES * 8 * (label + 1) // 3 for label in range(7)]


def test_a_frame_that_finds_the_port_idle_owes_nothing(bench: SwitchBench, past_ns: int) -> None:
    bench.shape(1, rate_bps=3000 * MBIT)
    frame_ns = DATA_BYTES * 8 // 3
    for label in range(3):
        bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA), past_ns + label * (frame_ns + 1))
        (left,) = bench.drain()
        assert left.arrival_ns == past_ns + label * (frame_ns + 1) + frame_ns


def test_what_a_frame_owes_at_a_higher_rate_it_does_not_owe_at_a_lower(
    bench: SwitchBench, past_ns: int
) -> None:
    bench.shape(1, rate_bps=30_000 * MBIT)
    bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA), past_ns)
    bench.drain()
    bench.shape(1, rate_bps=8 * MBIT)
    bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA), past_ns)
    (left,) = bench.drain()
    assert left.arrival_ns == past_ns + DATA_BYTES * 8 // 30 + DATA_BYTES * 1000


def test_frame_is_not_sent_before_it_is_due(bench: SwitchBench) -> None:
    bench.shape(1, rate_bps=100 * MBIT, delay_ns=20_000_000)
    bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA))
    left = None
    while left is None:
        left = bench.drain_one()
    assert left.arrival_ns <= now_ns()


@pytest.mark.parametrize("kind", [CONTROL, DATA])
def test_frame_that_comes_late_to_a_port_already_emptied_is_sent(
    bench: SwitchBench, past_ns: int, kind: TrafficClass
) -> None:
    """The model is behind the clock: a frame leaves before one that came during its transmission is seen."""
    bench.shape(1, rate_bps=100 * MBIT)
    for label in (1, 2):
        bench.receive(frame_for(1, DATA_BYTES, traffic_class=kind, label=label), past_ns + label)
        left = [departure for departure in (bench.drain_one() for _ in range(10)) if departure]
        assert [label_of(departure.frame) for departure in left] == [label]
        assert left[0].arrival_ns == past_ns + 1 + label * DATA_BYTES * 80


def test_shortened_delay_does_not_reorder(bench: SwitchBench, past_ns: int) -> None:
    bench.shape(1, rate_bps=100 * MBIT, delay_ns=1_000_000)
    bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=1), past_ns)
    bench.shape(1, rate_bps=100 * MBIT, delay_ns=0)
    bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=2), past_ns + 200_000)
    first, second = bench.drain()
    assert (label_of(first.frame), label_of(second.frame)) == (1, 2)
    assert first.arrival_ns == second.arrival_ns == past_ns + DATA_BYTES * 80 + 1_000_000


def test_changed_rate_holds_from_the_next_frame_on(bench: SwitchBench, past_ns: int) -> None:
    bench.shape(1, rate_bps=100 * MBIT)
    for label in (1, 2):
        bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=label), past_ns)
    bench.shape(1, rate_bps=50 * MBIT)
    assert [left.arrival_ns - past_ns for left in bench.drain()] == [DATA_BYTES * 80, DATA_BYTES * (80 + 160)]


def test_link_that_goes_down_loses_what_is_queued_and_in_flight(bench: SwitchBench, past_ns: int) -> None:
    bench.shape(1, rate_bps=100 * MBIT)
    for label in (1, 2, 3):
        bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=label), past_ns)
    before = [bench.counter(1, which) for which in (PortCounter.DROP_LINK_DOWN, PortCounter.TX_PACKETS)]
    write_port_fault(bench, 1, is_down=True)
    assert bench.drain() == []
    write_port_fault(bench, 1)
    after = [bench.counter(1, which) for which in (PortCounter.DROP_LINK_DOWN, PortCounter.TX_PACKETS)]
    assert after == [before[0] + 3, before[1]]


def test_frames_sent_are_counted_when_they_leave(bench: SwitchBench, past_ns: int) -> None:
    bench.shape(1, rate_bps=100 * MBIT)
    before = [bench.counter(1, which) for which in (PortCounter.TX_PACKETS, PortCounter.TX_BYTES)]
    bench.receive(frame_for(1, DATA_BYTES, traffic_class=DATA), past_ns)
    assert [bench.counter(1, w) for w in (PortCounter.TX_PACKETS, PortCounter.TX_BYTES)] == before
    bench.drain()
    assert bench.counter(1, PortCounter.TX_PACKETS) == before[0] + 1
    assert bench.counter(1, PortCounter.TX_BYTES) == before[1] + DATA_BYTES


def test_empty_pool_is_counted_and_recovers() -> None:
    with SwitchBench(2, pool_frames=8) as small:
        small.shape(1, rate_bps=100 * MBIT)
        start_ns = now_ns() - SECOND
        for turn in range(3):
            for label in range(11):
                small.receive(frame_for(1, DATA_BYTES, traffic_class=DATA, label=label), start_ns)
            assert small.pool.read(0).used == 8
            assert small.counter(1, PortCounter.DROP_POOL_EMPTY) == 3 * (turn + 1)
            assert [label_of(left.frame) for left in small.drain()] == list(range(8))
            start_ns += SECOND // 100
        assert small.pool.read(0).used_peak == 8


def test_unshaped_port_redirects_at_once(bench: SwitchBench) -> None:
    bench.shape(2, rate_bps=0)
    assert bench.receive(frame_for(2, DATA_BYTES, traffic_class=DATA)) == Verdict.REDIRECT
    assert bench.pool.read(0).used == 0


def test_frames_of_several_ports_leave_in_order_of_time(bench: SwitchBench) -> None:
    """To the bucket of the wheel: within 1.024 us the order is free. How late they leave changes nothing."""
    assert bench.drain_one() is None  # the wheel has its position now
    bench.shape(1, rate_bps=100 * MBIT)
    bench.shape(2, rate_bps=70 * MBIT)
    start_ns = bench.drainer.scan << QueueLimit.BUCKET_SHIFT
    for label in range(8):
        for port_id in (1, 2):
            bench.receive(frame_for(port_id, 1000, traffic_class=DATA, label=label), start_ns)
    while now_ns() < start_ns + 2_000_000:
        pass
    left = bench.drain()
    buckets = [departure.arrival_ns >> QueueLimit.BUCKET_SHIFT for departure in left]
    assert len(buckets) == 16
    assert buckets == sorted(buckets)
    assert {departure.port_id for departure in left[:8]} == {1, 2}
