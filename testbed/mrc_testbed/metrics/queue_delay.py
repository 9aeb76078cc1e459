"""Coarse histograms of queueing delays: the reading twin of mrc_agents/queue/delay.h. Pure.

They are small enough for every port and class. Buckets are 8 to the octave, in units of 256 ns; each edge is
also an edge of the fine histogram, so a coarse one becomes a fine one without a guess, all its times at the
lower ends of their buckets.
"""

from array import array
from collections.abc import Iterable
from typing import Final

from mrc_agents.abi import QueueDelay, QueueLimit
from mrc_agents.nic.histogram import bucket_index
from mrc_testbed.metrics.histogram import BUCKET_COUNT, Histogram

DELAY_BUCKETS: Final = int(QueueLimit.DELAY_BUCKETS)
UNIT_NS: Final = 256
LINEAR_BITS: Final = 3


def delay_lower_ns(index: int) -> int:
    """Smallest value of bucket *index*."""
    shift = max(0, (index >> LINEAR_BITS) - 1)
    return (index - (shift << LINEAR_BITS) << shift) * UNIT_NS


_FINE_INDICES: Final = tuple(bucket_index(delay_lower_ns(index)) for index in range(DELAY_BUCKETS))


def merge_delays(delays: Iterable[QueueDelay]) -> Histogram:
    """The times of all *delays* together, as a fine histogram."""
    lanes = sum_ns = max_ns = 0
    for delay in delays:
        lanes += int.from_bytes(bytes(delay.buckets), "little")
        sum_ns += delay.sum_ns
        max_ns = max(max_ns, delay.max_ns)
    coarse = array("Q", lanes.to_bytes(DELAY_BUCKETS * 8, "little"))
    fine = array("Q", bytes(BUCKET_COUNT * 8))
    for index, count in zip(_FINE_INDICES, coarse, strict=True):
        fine[index] = count
    return Histogram(int.from_bytes(fine.tobytes(), "little"), sum_ns, max_ns)
