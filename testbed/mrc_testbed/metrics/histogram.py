"""Log-linear histograms of times: the reading twin of mrc_agents/include/mrc/histogram.h. Pure.

Buckets are 32 to the octave: no time is more than 1.6 % from the middle of its bucket, and below 64 ns they
are exact. The drawing of the layout is in the C header; a test compares the two.

A histogram is *one* integer with a lane of 64 bits per bucket, as the map value has it in memory:

    bucket         2               1               0
    lanes   ... | 0000000000000000 | 0000000000000003 | 0000000000000001 |      bucket 1: 3, bucket 0: 1

So adding two histograms is one addition and the difference of two readings one subtraction, a few
microseconds for 1024 buckets. Lanes never overflow (2**63 packets take centuries) and a difference never
borrows, because counts only grow; `since` checks that.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Final, Self

from mrc_agents.abi import Limit, QueueDelay, QueueLimit
from mrc_agents.nic.histogram import LINEAR_BITS, bucket_index

BUCKET_COUNT: Final = int(Limit.HISTOGRAM_BUCKETS)
_LANE_BITS: Final = 64
_LANE_BYTES: Final = _LANE_BITS // 8
_LANES_BYTES: Final = BUCKET_COUNT * _LANE_BYTES
_HEAD_BYTES: Final = 2 * _LANE_BYTES
VALUE_BYTES: Final = _HEAD_BYTES + _LANES_BYTES
"""Size of struct mrc_histogram: sum_ns, max_ns, buckets."""

_IMPOSSIBLE: Final = sum(0xFF << (_LANE_BITS * lane + _LANE_BITS - 8) for lane in range(BUCKET_COUNT))
"""Bits that no count reaches: 2**56 packets take a NIC a thousand years."""

_TOP_BITS: Final = sum(1 << (_LANE_BITS * lane + _LANE_BITS - 1) for lane in range(BUCKET_COUNT))

DELAY_BUCKETS: Final = int(QueueLimit.DELAY_BUCKETS)
DELAY_UNIT_NS: Final = 256
DELAY_LINEAR_BITS: Final = 3


def bucket_lower_ns(index: int) -> int:
    """Smallest value of bucket *index*; for BUCKET_COUNT, the first value beyond the last bucket's nominal
    end.
    """
    shift = max(0, (index >> LINEAR_BITS) - 1)
    return (index - (shift << LINEAR_BITS)) << shift


@dataclass(frozen=True, slots=True)
class Histogram:
    """Times counted by bucket."""

    lanes: int = 0  # BUCKET_COUNT counts, 64 bits each, bucket 0 lowest
    sum_ns: int = 0  # sum of all times, exact
    max_ns: int = 0  # largest time; exact for a map's reading, else at most its bucket's upper end

    @classmethod
    def from_map_values(cls, values: bytes | memoryview) -> Self:
        """The sum over CPUs of a per-CPU map's element; empty if any count in it is impossible.

        Who can write to the map can write anything: what comes of it must not spoil a sum over NICs.
        """
        lanes = sum_ns = max_ns = 0
        for start in range(0, len(values), VALUE_BYTES):
            value = values[start : start + VALUE_BYTES]
            sum_ns += int.from_bytes(value[:_LANE_BYTES], "little")
            max_ns = max(max_ns, int.from_bytes(value[_LANE_BYTES:_HEAD_BYTES], "little"))
            cpu_lanes = int.from_bytes(value[_HEAD_BYTES:], "little")
            if cpu_lanes & _IMPOSSIBLE:
                return cls()
            lanes += cpu_lanes
        return cls(lanes, sum_ns, max_ns)

    @classmethod
    def of_counts(cls, counts: Iterable[tuple[int, int]], sum_ns: int, max_ns: int) -> Self:
        """A histogram that was kept.

        Raises:
            ValueError: there is no such bucket, or no such count.
        """
        lanes = 0
        for index, count in counts:
            if not (0 <= index < BUCKET_COUNT and 0 <= count < 1 << (_LANE_BITS - 8)):
                raise ValueError(f"no histogram has {count} times in bucket {index}")
            lanes += count << (_LANE_BITS * index)
        return cls(lanes, sum_ns, max_ns)

    @classmethod
    def of_times(cls, times_ns: Sequence[int]) -> Self:
        counts = Counter(bucket_index(time_ns) for time_ns in times_ns)
        return cls.of_counts(counts.items(), sum(times_ns), max(times_ns, default=0))

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.lanes + other.lanes, self.sum_ns + other.sum_ns, max(self.max_ns, other.max_ns)
        )

    def follows(self, earlier: Self) -> bool:
        """Return True if this can be a later reading of the same histogram: no count is lower."""
        return ((self.lanes | _TOP_BITS) - earlier.lanes) & _TOP_BITS == _TOP_BITS

    def since(self, earlier: Self) -> Self:
        """The times counted after *earlier*, an older reading of the same histogram.

        Raises:
            ValueError: a count is lower than it was, so the two are not readings of one histogram.
        """
        if not self.follows(earlier):
            raise ValueError("a bucket's count went down between two readings")
        lanes = self.lanes - earlier.lanes
        return type(self)(lanes, max(0, self.sum_ns - earlier.sum_ns), min(_top_ns(lanes), self.max_ns))

    @property
    def count(self) -> int:
        return sum(self.counts())

    def counts(self) -> "array[int]":
        """Count of each bucket: (BUCKET_COUNT,) packets or messages."""
        counts = array("Q")
        counts.frombytes(self.lanes.to_bytes(_LANES_BYTES, "little"))
        return counts

    def mean_ns(self) -> float | None:
        """Arithmetic mean, exact; None when nothing was counted."""
        count = self.count
        return self.sum_ns / count if count else None

    def percentiles_ns(self, ratios: Sequence[float]) -> tuple[float, ...] | None:
        """The times below which the given shares of all times lie; None when nothing was counted.

        Inside a bucket times are taken as evenly spread; no result exceeds `max_ns`.
        """
        counts = self.counts()
        reached = list(accumulate(counts))
        if not reached[-1]:
            return None
        return tuple(self._percentile_ns(ratio, counts, reached) for ratio in ratios)

    def _percentile_ns(self, ratio: float, counts: Sequence[int], reached: Sequence[int]) -> float:
        rank = ratio * reached[-1]
        # the first bucket that reaches a rank of zero would be an empty one: start from the first time
        index = bisect_left(reached, max(rank, 1e-9))
        lower_ns = bucket_lower_ns(index)
        upper_ns = bucket_lower_ns(index + 1)
        if index == BUCKET_COUNT - 1:
            upper_ns = max(upper_ns, self.max_ns)
        share = (rank - reached[index] + counts[index]) / counts[index]
        return min(lower_ns + share * (upper_ns - lower_ns), float(self.max_ns))

    def cumulative(self, bounds: Sequence[int]) -> list[int]:
        """Counts of the times below each bound.

        Args:
            bounds: bucket indices, the bound being the lower end of that bucket; BUCKET_COUNT counts all.
        """
        reached = [0, *accumulate(self.counts())]
        return [reached[bound] for bound in bounds]


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """All histograms' times together; empty without any."""
    return reduce(add, histograms, Histogram())


def _top_ns(lanes: int) -> int:
    """Largest time that the highest occupied bucket may hold; 0 when all are empty."""
    if not lanes:
        return 0
    top = (lanes.bit_length() - 1) // _LANE_BITS
    if top == BUCKET_COUNT - 1:
        return (1 << _LANE_BITS) - 1
    return bucket_lower_ns(top + 1) - 1


def delay_lower_ns(index: int) -> int:
    """Smallest value of bucket *index*."""
    shift = max(0, (index >> DELAY_LINEAR_BITS) - 1)
    return (index - (shift << DELAY_LINEAR_BITS) << shift) * DELAY_UNIT_NS


_FINE_INDICES: Final = tuple(bucket_index(delay_lower_ns(index)) for index in range(DELAY_BUCKETS))


def merge_delays(delays: Iterable[QueueDelay]) -> Histogram:
    """The times of all *delays*, coarse histograms of queueing delays, together as a fine one.

    They are small enough for every port and class. Buckets are 8 to the octave, in units of 256 ns; each edge
    is also an edge of the fine histogram, so one becomes a fine one without a guess, all its times at the
    lower ends of their buckets. Values of 2**32 ns and more share the last bucket.

    Source: mrc_agents/queue/delay.h.
    """
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
