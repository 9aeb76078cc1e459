"""Quantiles that Prometheus computes from our buckets, against those of the fine histogram."""

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence

import pytest
from histograms import histogram_of
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.metric import Metric

RATIOS = (0.5, 0.9, 0.99, 0.999)
HISTOGRAMS = [metric for metric in METRICS if metric.buckets is not None]
SAMPLES = 20_000

SHAPES: dict[str, Callable[[random.Random], float]] = {
    "idle fabric": lambda chance: chance.gauss(40_000, 3_000),
    "exponential": lambda chance: 5_000 + chance.expovariate(1 / 200_000),
    "log-normal": lambda chance: chance.lognormvariate(11.5, 1.2),
    "heavy tail": lambda chance: 20_000 * chance.paretovariate(1.3),
    "full queue beside an empty one": lambda chance: chance.gauss(
        *chance.choice([(30_000, 900), (9e6, 1e5)])
    ),
    "time-outs, one in 700": lambda chance: chance.gauss(
        *((2e8, 1e6) if chance.random() < 1 / 700 else (6e4, 5e3))
    ),
    "all the same": lambda _: 123_456,
}


def quantile_ns(metric: Metric, histogram: Histogram, ratio: float) -> float:
    """The result of Prometheus's histogram_quantile() for the metric's buckets."""
    assert metric.buckets is not None
    reached = histogram.cumulative(metric.buckets.indices)
    rank = ratio * histogram.count
    index = bisect_left(reached, rank)
    below, lower_ns = (reached[index - 1], metric.buckets.bounds_ns[index - 1]) if index else (0, 0)
    share = (rank - below) / (reached[index] - below)
    return lower_ns + share * (metric.buckets.bounds_ns[index] - lower_ns)


def compare(metric: Metric, times_ns: Sequence[int]) -> None:
    """Fails when a quantile is further from the fine one than the widest bucket is wide."""
    assert metric.buckets is not None
    histogram = histogram_of(times_ns)
    fine_ns = histogram.percentiles_ns(RATIOS)
    assert fine_ns is not None
    classic_ns = [quantile_ns(metric, histogram, ratio) for ratio in RATIOS]
    assert classic_ns == pytest.approx(fine_ns, rel=metric.buckets.widest_ratio)


@pytest.mark.parametrize("metric", HISTOGRAMS, ids=lambda metric: metric.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_quantiles_of_known_shapes_are_near_the_fine_ones(metric: Metric, shape: str) -> None:
    assert metric.buckets is not None
    lowest, highest = metric.buckets.bounds_ns[0], metric.buckets.bounds_ns[-1]
    chance = random.Random(shape)
    draws = (int(SHAPES[shape](chance)) for _ in range(SAMPLES))
    compare(metric, [min(max(lowest, time_ns), highest - 1) for time_ns in draws])


@given(st.lists(st.integers(70_000, 10**9), min_size=1, max_size=200))
def test_quantiles_of_anything_are_near_the_fine_ones(times_ns: list[int]) -> None:
    for metric in HISTOGRAMS:
        compare(metric, times_ns)
