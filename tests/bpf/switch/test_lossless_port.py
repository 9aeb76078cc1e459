r"""Single rules of flow control, one situation each; sequences at random are in test_lossless_model.py.

source 1 -> port 3 \              / port 5 -> NIC
                     one switch
source 2 -> port 4 /              \ port 6 -> NIC
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from lossless_bench import LosslessBench
from reference.lossless import CONTROL, DATA, FlowKind, Frame, PortShape
from switch_bench import now_ns

from mrc_agents.abi import LosslessLimit, QueueLimit
from mrc_testbed.fabric.deadlock import Deadlock
from mrc_testbed.fabric.lossless import LosslessReader

MBIT = 10**6
SECOND = 10**9
BUCKET_NS = 1 << QueueLimit.BUCKET_SHIFT
FRAME_BYTES = 1000
FAST_NS, SLOW_NS = 80_000, 800_000  # a frame at 100 and at 10 Mbit/s
DELAY_NS = 20_000
SOURCE = PortShape(10**12, 0, ends_at_nic=False)


@pytest.fixture(scope="module")
def shared_bench() -> Iterator[LosslessBench]:
    with LosslessBench(6) as switch:
        yield switch


@pytest.fixture
def bench(shared_bench: LosslessBench) -> Iterator[LosslessBench]:
    """The bench, with the ports of its switch as in the picture but for the two uplinks."""
    yield shared_bench
    assert shared_bench.pool.read(0).used == 0


@pytest.fixture(scope="module")
def past_times_ns() -> Iterator[int]:
    """Times long enough ago for all that follows to be due, each the start of a bucket of the wheel."""
    return count((now_ns() - 300 * SECOND) // BUCKET_NS * BUCKET_NS, SECOND // BUCKET_NS * BUCKET_NS)


def uplink(kind: FlowKind, *, xoff: int = 0, xon: int = 0, buffer_bytes: int = 1 << 20) -> PortShape:
    return PortShape(
        100 * MBIT,
        DELAY_NS,
        DELAY_NS,
        ends_at_nic=False,
        kind=kind,
        xoff_bytes=xoff,
        xon_bytes=xon,
        buffer_bytes=buffer_bytes,
    )


def network(up: PortShape) -> dict[int, PortShape]:
    held: dict[str, Any] = {"kind": up.kind, "buffer_bytes": 1 << 20, "xoff_bytes": 1 << 20}
    slow = PortShape(10 * MBIT, 0, **held)
    fast = PortShape(100 * MBIT, 0, **held)
    return {1: SOURCE, 2: SOURCE, 3: up, 4: up, 5: slow, 6: fast}


def frame(label: int, end: int, *, side: int = 0, traffic_class: int = DATA) -> Frame:
    return Frame(label, traffic_class, FRAME_BYTES, ((1, 2)[side], (3, 4)[side], end))


def test_a_pause_takes_effect_one_propagation_delay_after_the_frame_that_filled_the_buffer(
    bench: LosslessBench, past_times_ns: Iterator[int]
) -> None:
    """The second frame waits and fills the buffer; the third is being sent when the pause comes."""
    bench.shape_all(network(uplink(FlowKind.PFC, xoff=FRAME_BYTES, xon=0)))
    arrivals = [(0, frame(n, 5)) for n in range(4)]
    arrived = {label: time for time, label in bench.carry(next(past_times_ns), arrivals)}
    source_ns = FRAME_BYTES * 8 // 1000
    filled_ns = source_ns + 2 * FAST_NS + DELAY_NS  # the second frame is there, and waits
    drained_ns = arrived[1]  # then the third begins to leave, and nothing waits
    ready_ns = source_ns + 3 * FAST_NS
    account = bench.account(3)
    assert (account.pause_frames, account.resume_frames) == (2, 2)  # the last frame has to wait as well
    assert account.buffered_peak_bytes == 2 * FRAME_BYTES
    last_waits_ns = drained_ns + DELAY_NS + FAST_NS + DELAY_NS
    assert account.paused_ns == drained_ns - filled_ns + arrived[2] - last_waits_ns
    assert account.blocked_ns == drained_ns + DELAY_NS - ready_ns
    assert arrived[3] == arrived[2] + SLOW_NS


def test_a_victim_waits_behind_frames_that_are_held(
    bench: LosslessBench, past_times_ns: Iterator[int]
) -> None:
    """Head-of-line blocking: its own way is free."""
    shapes = network(uplink(FlowKind.PFC, xoff=FRAME_BYTES, xon=0))
    arrivals = [(0, frame(n, 5)) for n in range(8)] + [(100, frame(99, 6))]
    bench.shape_all(shapes)
    held = {label: time for time, label in bench.carry(next(past_times_ns), arrivals)}
    bench.shape_all(network(uplink(FlowKind.PFC, xoff=1 << 20, xon=0)))
    free = {label: time for time, label in bench.carry(next(past_times_ns), arrivals)}
    assert free[99] < 9 * FAST_NS + 2 * DELAY_NS + FAST_NS + 10
    assert held[99] > 4 * SLOW_NS


def test_control_passes_a_port_that_is_paused(bench: LosslessBench, past_times_ns: Iterator[int]) -> None:
    bench.shape_all(network(uplink(FlowKind.PFC, xoff=FRAME_BYTES, xon=0)))
    paused_ns = 1_000_000
    arrivals = [(0, frame(n, 5)) for n in range(8)]
    arrivals.append((paused_ns, frame(99, 6, traffic_class=CONTROL)))
    arrived = {label: time for time, label in bench.carry(next(past_times_ns), arrivals)}
    assert paused_ns < arrived[99] <= paused_ns + 3 * FAST_NS + DELAY_NS + 10


def test_too_little_headroom_loses_frames_and_counts_them(
    bench: LosslessBench, past_times_ns: Iterator[int]
) -> None:
    bench.shape_all(network(uplink(FlowKind.PFC, xoff=FRAME_BYTES, xon=0, buffer_bytes=FRAME_BYTES)))
    before = bench.drops(5)
    deliveries = bench.carry(next(past_times_ns), [(0, frame(n, 5)) for n in range(6)])
    assert len(deliveries) < 6
    assert bench.drops(5) - before == 6 - len(deliveries)


def test_with_credits_no_more_is_under_way_than_the_buffer_holds(
    bench: LosslessBench, past_times_ns: Iterator[int]
) -> None:
    bench.shape_all(network(uplink(FlowKind.CREDITS, buffer_bytes=2 * FRAME_BYTES)))
    deliveries = bench.carry(next(past_times_ns), [(0, frame(n, 5)) for n in range(5)])
    # two are sent; the first leaves at once, the second when the first is through, and so on
    first_out_ns = FAST_NS + DELAY_NS
    assert deliveries[0][0] in range(first_out_ns + SLOW_NS, first_out_ns + SLOW_NS + 10)
    assert [label for _, label in deliveries] == list(range(5))
    assert bench.account(3).blocks >= 1
    assert bench.links[3].used_bytes == sum(
        updates.value
        for updates in bench.links[3].updates[: bench.links[3].update_tail - bench.links[3].update_head]
    )


@pytest.mark.parametrize("kind", [FlowKind.PFC, FlowKind.CREDITS])
def test_a_port_whose_far_end_is_forced_sends_no_data_until_that_ends(
    bench: LosslessBench, past_times_ns: Iterator[int], kind: FlowKind
) -> None:
    shapes = network(uplink(kind, xoff=1 << 19))
    bench.shape_all(shapes)
    bench.flow_control[3].is_forced = 1
    start_ns = next(past_times_ns)
    arrivals = [(0, frame(n, 6)) for n in range(3)] + [(1000, frame(9, 6, traffic_class=CONTROL))]
    forced_ns = 0

    def end_force(now_ns: int) -> None:
        nonlocal forced_ns
        if now_ns >= 5_000_000 and not forced_ns:
            forced_ns = now_ns
            bench.flow_control[3].is_forced = 0

    deliveries = bench.carry(start_ns, arrivals, meanwhile=end_force)
    arrived = {label: time for time, label in deliveries}
    assert arrived[9] < 1_000_000
    data_ns = min(arrived[label] for label in range(3))
    assert forced_ns < data_ns <= forced_ns + 2 * LosslessLimit.REFRESH_NS + 2 * FAST_NS + DELAY_NS
    account = bench.account(3)
    assert account.blocks == 1
    if kind is FlowKind.PFC:
        assert account.pause_frames >= forced_ns // LosslessLimit.REFRESH_NS - 1
        assert account.resume_frames == 1
        assert account.paused_ns >= 4_000_000


def test_credit_comes_back_from_a_frame_that_the_switch_could_not_forward(
    bench: LosslessBench, past_times_ns: Iterator[int]
) -> None:
    """With room for one frame, a single lost credit would end everything."""
    bench.shape_all(network(uplink(FlowKind.CREDITS, buffer_bytes=FRAME_BYTES)))
    nowhere = 0x3F  # no route
    arrivals = [(0, Frame(0, DATA, FRAME_BYTES, (1, 3, nowhere))), (1, frame(1, 6)), (2, frame(2, 6))]
    deliveries = bench.carry(next(past_times_ns), arrivals)
    assert [label for _, label in deliveries] == [1, 2]


def test_credit_comes_back_from_a_frame_that_the_link_lost(
    bench: LosslessBench, past_times_ns: Iterator[int]
) -> None:
    bench.shape_all(network(uplink(FlowKind.CREDITS, buffer_bytes=FRAME_BYTES)))
    bench.take_link_down(3)
    assert bench.carry(next(past_times_ns), [(n, frame(n, 6)) for n in range(3)]) == []
    bench.take_link_up(3)
    deliveries = bench.carry(next(past_times_ns), [(n, frame(n, 6)) for n in range(3)])
    assert [label for _, label in deliveries] == [0, 1, 2]


def test_a_switch_that_does_not_look_is_sent_no_more_than_the_headroom_allows_for(
    past_times_ns: Iterator[int],
) -> None:
    """However late the switch runs: what would overrun its buffer is not sent before it has looked."""
    with LosslessBench(6) as switch:
        switch.shape_all(network(uplink(FlowKind.PFC, xoff=1 << 19)))
        count_sent = switch.drain_unseen(
            next(past_times_ns), [(n, frame(n, 6)) for n in range(40)], port_id=3
        )
    assert count_sent == LosslessLimit.TRANSIT_MAX


def far_ports_of(ring: tuple[int, ...]) -> dict[int, list[int]]:
    """Each port of the ring sends to a switch that sends on by the next one."""
    return {port: [ring[(place + 1) % len(ring)]] for place, port in enumerate(ring)}


@pytest.mark.parametrize("kind", [FlowKind.PFC, FlowKind.CREDITS])
def test_a_ring_of_full_buffers_is_a_deadlock_and_is_found(
    past_times_ns: Iterator[int], kind: FlowKind
) -> None:
    """Three ports in a ring, each with traffic that goes two hops on: each waits for the next one."""
    ring = (4, 5, 6)
    held = uplink(kind, xoff=2 * FRAME_BYTES, xon=FRAME_BYTES, buffer_bytes=4 * FRAME_BYTES)
    with LosslessBench(6) as switch:
        reader = LosslessReader(far_ports_of(ring), switch.map_fd)
        switch.shape_all({1: SOURCE, 2: SOURCE, 3: SOURCE} | dict.fromkeys(ring, held))
        arrivals = [
            (
                n * 100 + side,
                Frame(
                    3 * n + side, DATA, FRAME_BYTES, (side + 1, *(ring[(side + hop) % 3] for hop in range(3)))
                ),
            )
            for n in range(20)
            for side in range(3)
        ]
        start_ns = next(past_times_ns)
        deliveries = switch.carry(start_ns, arrivals)
        assert len(deliveries) < len(arrivals)
        found = reader.deadlock()
        assert found is not None
        assert (found.port_ids, found.cycle) == (ring, ring)
        assert start_ns < found.since_ns < start_ns + 100_000_000


def test_a_ring_with_room_to_spare_is_no_deadlock(
    shared_bench: LosslessBench, past_times_ns: Iterator[int]
) -> None:
    ring = (4, 5, 6)
    reader = LosslessReader(far_ports_of(ring), shared_bench.map_fd)
    held = uplink(FlowKind.PFC, xoff=2 * FRAME_BYTES, xon=FRAME_BYTES, buffer_bytes=40 * FRAME_BYTES)
    shared_bench.shape_all({1: SOURCE, 2: SOURCE, 3: SOURCE} | dict.fromkeys(ring, held))
    found: list[Deadlock | None] = []
    arrivals = [(n * 100, Frame(n, DATA, FRAME_BYTES, (1, 4, 5, 6))) for n in range(30)]
    deliveries = shared_bench.carry(
        next(past_times_ns), arrivals, meanwhile=lambda _: found.append(reader.deadlock())
    )
    assert len(deliveries) == 30
    assert found
    assert set(found) == {None}
