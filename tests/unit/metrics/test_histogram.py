"""Log-linear histograms against the times they were made of."""

import math

import pytest
from histograms import histogram_of
from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.nic.histogram import VALUE_BITS, bucket_index
from mrc_testbed.metrics.histogram import BUCKET_COUNT, VALUE_BYTES, Histogram, bucket_lower_ns, merge

times = st.integers(0, 2 ** (VALUE_BITS + 4)) | st.integers(0, 200)
time_lists = st.lists(times, max_size=60)


def map_value(histogram: Histogram) -> bytes:
    lanes = histogram.lanes.to_bytes(8 * BUCKET_COUNT, "little")
    return histogram.sum_ns.to_bytes(8, "little") + histogram.max_ns.to_bytes(8, "little") + lanes


@given(st.integers(0, 2**VALUE_BITS - 1))
def test_a_value_lies_between_its_bucket_and_the_next(value_ns: int) -> None:
    index = bucket_index(value_ns)
    assert bucket_lower_ns(index) <= value_ns < bucket_lower_ns(index + 1)


def test_buckets_cover_all_values_without_gap_or_overlap() -> None:
    lowers = [bucket_lower_ns(index) for index in range(BUCKET_COUNT + 1)]
    assert lowers[0] == 0
    assert lowers[-1] == 2**VALUE_BITS
    assert [bucket_index(lower) for lower in lowers[:-1]] == list(range(BUCKET_COUNT))
    assert [bucket_index(lower - 1) for lower in lowers[1:]] == list(range(BUCKET_COUNT))


def test_no_value_is_further_than_two_percent_from_the_middle_of_its_bucket() -> None:
    for index in range(64, BUCKET_COUNT):
        lower, upper = bucket_lower_ns(index), bucket_lower_ns(index + 1)
        assert (upper - lower) / 2 / lower <= 0.016


def test_the_worked_example_of_the_drawing_holds() -> None:
    assert bucket_index(41_000) == 360
    assert (bucket_lower_ns(360), bucket_lower_ns(361)) == (40_960, 41_984)


@pytest.mark.parametrize("value_ns", [2**VALUE_BITS, 2**40, 2**64 - 1])
def test_what_is_too_long_falls_into_the_last_bucket(value_ns: int) -> None:
    assert bucket_index(value_ns) == BUCKET_COUNT - 1


@given(st.lists(time_lists, max_size=4))
def test_a_map_element_is_the_sum_of_its_cpus(cpus: list[list[int]]) -> None:
    element = b"".join(map_value(histogram_of(times_ns)) for times_ns in cpus)
    assert len(element) == VALUE_BYTES * len(cpus)
    everything = [time_ns for times_ns in cpus for time_ns in times_ns]
    assert Histogram.from_map_values(memoryview(element)) == histogram_of(everything)


@given(time_lists, time_lists)
def test_merging_is_counting_together(some: list[int], others: list[int]) -> None:
    merged = merge([histogram_of(some), histogram_of(others)])
    assert merged == histogram_of(some + others)
    assert merged.count == len(some) + len(others)


@given(time_lists, time_lists)
def test_the_difference_of_two_readings_is_what_came_between(early: list[int], late: list[int]) -> None:
    before = histogram_of(early)
    interval = (before + histogram_of(late)).since(before)
    expected = histogram_of(late)
    assert interval.lanes == expected.lanes
    assert interval.sum_ns == expected.sum_ns
    # the exact maximum of an interval is not kept, but its bucket is
    assert bucket_index(interval.max_ns) == bucket_index(expected.max_ns)
    assert interval.max_ns >= expected.max_ns


def test_the_maximum_of_an_interval_is_exact_when_it_is_the_largest_so_far() -> None:
    before = histogram_of([1_000_000])
    assert (before + histogram_of([5_000_001])).since(before).max_ns == 5_000_001


@pytest.mark.parametrize(("later", "earlier"), [([], [5]), ([7], [5]), ([5, 6], [5, 5]), ([2**40] * 3, [0])])
def test_a_count_that_went_down_is_refused(later: list[int], earlier: list[int]) -> None:
    with pytest.raises(ValueError, match="went down"):
        histogram_of(later).since(histogram_of(earlier))


def test_percentiles_of_nothing_are_none() -> None:
    assert Histogram().percentiles_ns((0.5, 0.99)) is None
    assert Histogram().mean_ns() is None


def nearest_rank_ns(times_ns: list[int], ratio: float) -> int:
    """The textbook percentile: the smallest time that at least this share does not exceed."""
    return sorted(times_ns)[max(0, math.ceil(ratio * len(times_ns)) - 1)]


@given(st.lists(st.integers(0, 2**VALUE_BITS - 1), min_size=1, max_size=60), st.floats(0, 1))
def test_a_percentile_lies_in_the_bucket_of_the_time_with_that_rank(
    times_ns: list[int], ratio: float
) -> None:
    percentiles_ns = histogram_of(times_ns).percentiles_ns((ratio,))
    assert percentiles_ns is not None
    index = bucket_index(nearest_rank_ns(times_ns, ratio))
    # the upper end of the bucket belongs to it here: all of its times may lie below a bound
    assert bucket_lower_ns(index) <= percentiles_ns[0] <= bucket_lower_ns(index + 1)
    assert percentiles_ns[0] <= max(times_ns)


@given(st.lists(times, min_size=1, max_size=60))
def test_percentiles_rise_up_to_the_maximum(times_ns: list[int]) -> None:
    ratios = (0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0)
    percentiles_ns = histogram_of(times_ns).percentiles_ns(ratios)
    assert percentiles_ns is not None
    assert list(percentiles_ns) == sorted(percentiles_ns)
    assert percentiles_ns[-1] <= max(times_ns)


def test_times_inside_a_bucket_are_interpolated() -> None:
    # 1024 ns to 1055 ns is one bucket, 32 ns wide, and all of its values occur
    histogram = histogram_of(range(1024, 1056))
    assert histogram.percentiles_ns((0.25, 0.5, 1.0)) == (1032.0, 1040.0, 1055.0)


def test_the_mean_is_exact() -> None:
    assert histogram_of([1, 2, 1_000_000]).mean_ns() == 1_000_003 / 3


@given(time_lists, st.lists(st.integers(0, BUCKET_COUNT - 1), max_size=8))
def test_cumulative_counts_are_times_below_each_bound(times_ns: list[int], bounds: list[int]) -> None:
    reached = histogram_of(times_ns).cumulative((*bounds, BUCKET_COUNT))
    below = [sum(time_ns < bucket_lower_ns(bound) for time_ns in times_ns) for bound in bounds]
    assert reached == [*below, len(times_ns)]
