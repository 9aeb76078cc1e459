"""Histograms of given times."""

from array import array
from collections.abc import Iterable

from mrc_agents.nic.histogram import bucket_index
from mrc_testbed.metrics.histogram import BUCKET_COUNT, Histogram
from mrc_testbed.metrics.queue_delay import LINEAR_BITS, UNIT_NS


def histogram_of(times_ns: Iterable[int]) -> Histogram:
    """The histogram of *times_ns*, counted as the data plane does it."""
    counts = array("Q", bytes(8 * BUCKET_COUNT))
    sum_ns = max_ns = 0
    for time_ns in times_ns:
        counts[bucket_index(time_ns)] += 1
        sum_ns += time_ns
        max_ns = max(max_ns, time_ns)
    return Histogram(int.from_bytes(counts.tobytes(), "little"), sum_ns, max_ns)


def delay_index(value_ns: int) -> int:
    """Bucket of a coarse histogram in which *value_ns* (0 or more) is counted.

    Source: mrc_agents/queue/delay.h, delay_index.
    """
    value = min(value_ns // UNIT_NS, (1 << 24) - 1)
    shift = max(0, value.bit_length() - LINEAR_BITS - 1)
    return (shift << LINEAR_BITS) + (value >> shift)
