"""The coarse histogram's layout, its edges in the fine one, and the way from one to the other."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.delay import delay_index

from mrc_agents.abi import QueueDelay
from mrc_agents.nic.histogram import bucket_index
from mrc_testbed.metrics.histogram import DELAY_BUCKETS, bucket_lower_ns, delay_lower_ns, merge_delays
from mrc_testbed.metrics.metric import QUEUE_DELAY


@pytest.mark.parametrize(
    ("value_ns", "index"),
    [
        (0, 0),
        (255, 0),
        (256, 1),
        (4095, 15),
        (4096, 16),
        (8191, 23),
        (8192, 24),
        (2**32 - 1, 175),
        (2**40, 175),
    ],
)
def test_layout_is_that_of_the_drawing(value_ns: int, index: int) -> None:
    assert delay_index(value_ns) == index


@given(st.integers(0, 2**32 - 1))
def test_a_time_lies_in_its_bucket_and_buckets_are_narrow(value_ns: int) -> None:
    index = delay_index(value_ns)
    lower_ns, upper_ns = delay_lower_ns(index), delay_lower_ns(index + 1)
    assert lower_ns <= value_ns < upper_ns
    assert upper_ns - lower_ns <= max(256, lower_ns / 8)


def test_every_edge_is_one_of_the_fine_histogram() -> None:
    edges_ns = [delay_lower_ns(index) for index in range(DELAY_BUCKETS)]
    assert all(earlier < later for earlier, later in pairwise(edges_ns))
    assert [bucket_lower_ns(bucket_index(edge_ns)) for edge_ns in edges_ns] == edges_ns
    assert set(QUEUE_DELAY.bounds_ns) <= set(edges_ns)


def counted(*times_ns: int) -> QueueDelay:
    delay = QueueDelay(sum_ns=sum(times_ns), max_ns=max(times_ns))
    for time_ns in times_ns:
        delay.buckets[delay_index(time_ns)] += 1
    return delay


def test_ports_are_added_up_bucket_by_bucket() -> None:
    merged = merge_delays([counted(0, 100, 5_000), counted(5_100, 10**9)])
    assert (merged.count, merged.sum_ns, merged.max_ns) == (5, 10_200 + 10**9, 10**9)
    bounds = [bucket_index(delay_lower_ns(delay_index(time_ns))) for time_ns in (5_000, 10**9)]
    assert merged.cumulative(bounds) == [2, 4]
    assert merge_delays([]).count == 0
