"""Metric families. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import Final

from mrc_agents.nic.histogram import bucket_index
from mrc_testbed.metrics.histogram import bucket_lower_ns

_OCTAVE_STEPS: Final = (32, 35, 38, 41, 44, 47, 51, 55, 59)
"""Bounds within an octave in 32nds of its start: ratios as equal as the fine histogram's edges allow."""


@dataclass(frozen=True, slots=True)
class ClassicBuckets:
    """Bounds of one metric."""

    indices: tuple[int, ...]  # fine buckets whose lower ends are the bounds, rising
    bounds_ns: tuple[int, ...]  # the bounds
    labels: tuple[str, ...]  # the bounds in seconds as values of the label `le`, without +Inf

    @property
    def widest_ratio(self) -> float:
        """Width of the widest bucket by its lower bound: no quantile is wrong by more."""
        return max(later / earlier for earlier, later in pairwise(self.bounds_ns)) - 1


def octaves(first_power: int, last_power: int, steps: Sequence[int] = _OCTAVE_STEPS) -> ClassicBuckets:
    """Bounds from 2**first_power ns to 2**last_power ns.

    Args:
        first_power: at least 6.
        last_power: above first_power, at most 35.
        steps: bounds within an octave, in 32nds of its start.
    """
    bounds_ns = [step << (power - 5) for power in range(first_power, last_power) for step in steps]
    bounds_ns.append(1 << last_power)
    indices = tuple(bucket_index(bound_ns) for bound_ns in bounds_ns)
    if any(bucket_lower_ns(index) != bound for index, bound in zip(indices, bounds_ns, strict=True)):
        raise ValueError(f"2**{first_power} to 2**{last_power} ns leaves the fine histogram's edges")
    return ClassicBuckets(indices, tuple(bounds_ns), tuple(_seconds(bound_ns) for bound_ns in bounds_ns))


def _seconds(time_ns: int) -> str:
    """*time_ns* in seconds, exact and without an exponent."""
    text = format(Decimal(time_ns).scaleb(-9), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


PACKET_RTT: Final = octaves(10, 30)
"""1 us to 1.07 s: an idle unshaped fabric answers within 2 us, full queues at 25 Mbit/s within 0.1 s."""

MESSAGE_COMPLETION: Final = octaves(12, 35)
"""4 us to 34 s: from one packet unshaped to megabytes over a slow shaped port under loss."""

SENDER_COMPLETION: Final = octaves(12, 35, (32, 40, 51))
"""The same times by sender, three buckets to the octave, 27.5 % wide at most: they name slow hosts."""

QUEUE_DELAY: Final = octaves(12, 30, range(32, 64, 4))
"""4 us to 1.07 s, with the bounds that queues count by, eight to the octave: they have thousands of ports."""

COLLECTIVE: Final = octaves(16, 35)
"""66 us to 34 s: a step or a whole collective, each of many messages."""

LATENESS: Final = octaves(10, 30)
"""1 us to 1.07 s: beyond half a millisecond a shaped lab is not to be trusted."""


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str  # as it stands in the exposition, with `_total` for a counter
    unit: str  # what one of it is, for people; empty for a yes or no
    labels: tuple[str, ...]  # names of its labels
    help: str  # what it counts or shows
    buckets: ClassicBuckets | None = None  # bounds of a histogram
    # counters of the data plane that it shows, each with the value of its last label; None where its labels
    # only say where
    counters: Mapping[IntEnum, str | None] = field(default_factory=dict, hash=False)

    @property
    def type(self) -> MetricType:
        if self.buckets is not None:
            return MetricType.HISTOGRAM
        return MetricType.COUNTER if self.name.endswith("_total") else MetricType.GAUGE
