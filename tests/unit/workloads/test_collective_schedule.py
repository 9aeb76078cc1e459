"""Schedules of collectives, carried out by a plain simulation in which arrivals come in any order."""

import random
from collections import deque
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.abi import Transfer
from mrc_testbed.workloads.collective import COLLECTIVE_KINDS, bus_factor, connections_of
from mrc_testbed.workloads.collective_schedule import SLICE_BYTES_MIN, build_schedule


@st.composite
def schedules(draw):
    ranks, channels = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    count = draw(st.integers(ranks * channels, 400))
    element_bytes = draw(st.sampled_from([1, 8, SLICE_BYTES_MIN]))  # the last makes slices of one element
    return build_schedule(
        draw(st.sampled_from(COLLECTIVE_KINDS)),
        ranks=ranks,
        count=count,
        element_bytes=element_bytes,
        channels=channels,
        root=draw(st.integers(0, ranks - 1)),
    )


def value(rank, element):
    """The input of a rank: a power per rank, so that every sum reports which ranks are in it."""
    return (element + 1) * 1000**rank


def transfers_of(schedule):
    return [Transfer(*each) for each in schedule.transfers.tolist()]


def carry_out(schedule, seed):
    """The ranks' memories after one operation; connections keep their order, nothing else does."""
    memory = [[None] * schedule.memory_count for _ in range(schedule.ranks)]
    for rank, start, count in schedule.inputs:
        memory[rank][start : start + count] = [value(rank, start + i) for i in range(count)]
    transfers = transfers_of(schedule)
    carried = [schedule.carried().of(index).tolist() for index in range(len(schedule.connections))]
    followers = schedule.followers()
    wires: list[deque[Any]] = [deque() for _ in schedule.connections]
    sent_on = [0] * len(wires)
    drawn = random.Random(seed)

    def send(index):
        transfer = transfers[index]
        assert carried[transfer.connection][sent_on[transfer.connection]] == index, "out of order"
        sent_on[transfer.connection] += 1
        source = schedule.connections[transfer.connection].source
        data = memory[source][transfer.source_start : transfer.source_start + transfer.count]
        assert None not in data
        wires[transfer.connection].append((index, data))

    for index in followers.members[: followers.first[0]].tolist():
        send(index)
    while busy := [wire for wire in wires if wire]:
        index, data = drawn.choice(busy).popleft()
        transfer = transfers[index]
        target = memory[schedule.connections[transfer.connection].target]
        target[transfer.target_start : transfer.target_start + transfer.count] = data
        if transfer.reduce_start >= 0:
            for i, each in enumerate(data):
                target[transfer.reduce_start + i] += each
        for follower in followers.of(index).tolist():
            send(follower)
    assert sent_on == [len(each) for each in carried]
    return memory


@given(schedules(), st.integers(0, 9))
def test_every_rank_ends_with_what_the_results_say(schedule, seed):
    memory = carry_out(schedule, seed)
    for interval in schedule.results:
        found = memory[interval.rank][interval.start : interval.start + interval.count]
        origins = range(schedule.ranks) if interval.origin is None else [interval.origin]
        expected = [
            sum(value(rank, interval.origin_start + i) for rank in origins) for i in range(interval.count)
        ]
        assert found == expected


@given(schedules())
def test_results_do_not_overlap_and_came_over_the_connection_they_name(schedule):
    seen: set[tuple[int, int]] = set()
    for interval in schedule.results:
        assert schedule.connections[interval.connection].target == interval.rank
        places = {(interval.rank, interval.start + i) for i in range(interval.count)}
        assert not places & seen
        seen |= places


@pytest.mark.parametrize(
    ("kind", "each_rank_holds"),
    [("all-reduce", 24), ("reduce-scatter", 6), ("all-gather", 18), ("all-to-all", 18), ("broadcast", 24)],
)
def test_results_cover_what_a_rank_must_receive(kind, each_rank_holds):
    schedule = build_schedule(kind, ranks=4, count=24, element_bytes=4, channels=1)
    held = [sum(s.count for s in schedule.results if s.rank == rank) for rank in range(1, 4)]
    assert held == [each_rank_holds] * 3


@pytest.mark.parametrize("kind", COLLECTIVE_KINDS)
def test_the_busiest_connection_carries_the_bus_factor_times_the_data(kind):
    schedule = build_schedule(kind, ranks=4, count=4000, element_bytes=4, channels=1)
    sent = [0] * 4
    for transfer in transfers_of(schedule):
        sent[schedule.connections[transfer.connection].source] += transfer.count
    assert max(sent) == 4000 * bus_factor(kind, 4)


@pytest.mark.parametrize("kind", COLLECTIVE_KINDS)
def test_channels_share_the_data(kind):
    one, two = (
        build_schedule(kind, ranks=3, count=600, element_bytes=4, channels=channels) for channels in (1, 2)
    )
    assert len(two.connections) == 2 * len(one.connections)
    assert two.connections == connections_of(kind, 3, 2)
    for channel in (0, 1):
        carried = [t.count for t in transfers_of(two) if two.connections[t.connection].channel == channel]
        assert sum(carried) == sum(t.count for t in transfers_of(one)) // 2


def test_a_large_chunk_goes_in_slices_and_a_small_one_whole():
    large, small = (
        build_schedule("all-reduce", ranks=4, count=count, element_bytes=4, channels=1)
        for count in (1 << 20, 1 << 10)
    )
    assert len(large.transfers) == 4 * len(small.transfers) == 4 * 4 * 6
    assert list(accumulate(t.count for t in transfers_of(large)[:4]))[-1] == (1 << 20) // 4
