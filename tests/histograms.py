"""Histograms of given times."""

from array import array
from collections.abc import Iterable

from mrc_agents.nic.histogram import bucket_index
from mrc_testbed.metrics.histogram import BUCKET_COUNT, Histogram


def histogram_of(times_ns: Iterable[int]) -> Histogram:
    """The histogram of *times_ns*, counted as the data plane does it."""
    counts = array("Q", bytes(8 * BUCKET_COUNT))
    sum_ns = max_ns = 0
    for time_ns in times_ns:
        counts[bucket_index(time_ns)] += 1
        sum_ns += time_ns
        max_ns = max(max_ns, time_ns)
    return Histogram(int.from_bytes(counts.tobytes(), "little"), sum_ns, max_ns)
