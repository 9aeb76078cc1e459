"""Bounds within which each quantity of a late run would lie on a machine in time. Pure.

A frame that leaves late makes the RTT that it is part of longer by as much, so lateness stretches time by the
share of its mean in what the RTT is without. At each edge of a window one late frame comes on top.

docs/explanation/fidelity.md has the bounds of each quantity.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import Final, Self, assert_never

from mrc_testbed.metrics.fidelity import lateness_of, seconds_of
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.series import Reading
from mrc_testbed.scenario.measure.measurement import LOWEST_GOODPUT_READINGS, Measurement
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.measure.trust import lateness_readings, limits_of
from mrc_testbed.scenario.spec.expression_tree import Quantity, Term, fold
from mrc_testbed.scenario.spec.quantity import LATENCIES, WORKLOAD_TIMES, Dimension, percentile_ratio
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns


@dataclass(frozen=True, slots=True)
class Bounds:
    """A closed interval, in the base unit of what it bounds."""

    # low, high: its ends; infinite where there is none
    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> Self:
        """The narrowest that hold all *values*; unbounded if one of them has no value."""
        found = list(values)
        return cls(-inf, inf) if any(map(isnan, found)) else cls(min(found), max(found))

    @property
    def is_exact(self) -> bool:
        """Return True if one value alone lies within."""
        return self.low == self.high

    def __add__(self, other: Self) -> Self:
        return type(self)(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Self) -> Self:
        return self.around(one * two for one in (self.low, self.high) for two in (other.low, other.high))

    def __truediv__(self, other: Self) -> Self:
        if other.low <= 0 <= other.high:
            return type(self)(-inf, inf)
        return self.around(one / two for one in (self.low, self.high) for two in (other.low, other.high))


BoundsOf = Callable[[Quantity], Bounds]


def bound(term: Term, bounds_of: BoundsOf) -> Bounds:
    """Bounds of *term*; no narrower ones hold unless a quantity occurs twice in it."""
    return fold(term, lambda value: Bounds(value, value), bounds_of)


_TAIL_SHARE: Final = 0.1
"""Share of the times beyond a percentile that may be later than its bound: p99 is bounded by p99.9."""


class LatenessBounds:
    """The range of each figure of one recording, had no frame been late.

    Args:
        recording: of a shaped lab, with two readings of the lateness of frames at least.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._measurement = Measurement(recording)
        self._is_alone = len(recording.plan.workloads) == 1
        self._lateness = lateness_readings(recording)
        self._times_ns = [reading.time_ns for reading in self._lateness]
        times_ns = frozenset(self._times_ns)
        self._readings = [reading for reading in recording.readings if reading.time_ns in times_ns]
        self._idle_rtt_ns = max(1, base_rtt_ns(resolve_topology(recording.plan.topology)))
        self._is_still = recording.latest_ns > limits_of(recording).pause_ns

    def bounds(self, quantity: Quantity) -> Bounds:
        """Bounds of a quantity, in its base unit; its value lies within."""
        value, effect = self._measurement.measure(quantity), quantity.kind.by_lateness
        around = self._around(quantity)
        readings = self._lateness[around]
        lateness = lateness_of(readings)
        rtt_ns = self._rtt_in_time_ns(self._readings[around], lateness)
        share = (lateness.mean_ns() or 0.0) / rtt_ns
        # A time may be that of the worst second, and a fault lasts no longer.
        worst_share = max((each.mean_ns() or 0.0 for each in seconds_of(readings)), default=0.0) / rtt_ns
        still_ns = self._standstill_ns(quantity)
        edges = (still_ns + self._late_ns(lateness, 0.0)) / self._window_ns(quantity)
        ratio = 0.5 if effect == "mean time" else percentile_ratio(quantity.name)
        match effect:
            case "none":
                return Bounds(value, value)
            case "rate" | "pace":
                off = value * (share + edges)
            case "count":
                is_ratio = quantity.dimension is Dimension.RATIO
                off = value * (share + edges) + 1 / (
                    self._measurement.packets_sent(quantity) if is_ratio else 1
                )
            case "dip":
                off = value * (worst_share + edges)
            case "share":
                off = share + edges
            case "mean time":
                off = value * share + self._late_ns(lateness, 0.0, ratio) + still_ns
            case "time":
                off = value * worst_share + self._late_ns(lateness, value, ratio)
                # By Markov, what lies below a percentile is late by that multiple of the mean at most.
                most = off if ratio is None else value * share / (1 - ratio)
                off = still_ns + min(off, most + self._late_ns(lateness, 0.0, ratio))
            case "gap":
                step_ns = self._recording.plan.reading_interval_ns
                off = value * worst_share + self._late_ns(lateness, value) + still_ns + step_ns
            case "resent":
                duplicates = self._measurement.hosts(quantity).rx_duplicates
                return Bounds(max(0.0, value - duplicates), value * (1 + worst_share))
            case "added":
                return Bounds(0.0, value * (1 + worst_share))
            case _:
                assert_never(effect)
        least = value * edges
        if effect not in ("pace", "dip"):
            least = self._late_ns(lateness, 0.0, ratio) + still_ns
        return self._sides(quantity, value, off, least)

    def _sides(self, quantity: Quantity, value: float, off: float, least: float) -> Bounds:
        """Bounds of a value that lateness changes by *off*.

        Args:
            off: for the worse, and for the better where another workload may have lost what this one gained.
            least: for the better where there is no other workload.
        """
        below = above = off
        if self._is_alone and quantity.kind.by_lateness in ("pace", "dip"):
            below = least
        elif self._is_alone and quantity.argument in WORKLOAD_TIMES:
            above = least
        high = value + above
        if quantity.dimension is Dimension.RATIO:
            high = min(1.0, high)
        return Bounds(max(0.0, value - below), high)

    def _around(self, quantity: Quantity) -> slice:
        """Readings from the last one before the window to the first one after it; all if that leaves one."""
        span = self._measurement.span(quantity)
        first = max(0, bisect_right(self._times_ns, span.start_ns) - 1)
        found = slice(first, bisect_left(self._times_ns, span.end_ns) + 1)
        return found if len(self._times_ns[found]) > 1 else slice(None)

    def _standstill_ns(self, quantity: Quantity) -> int:
        """Longest time that the machine stood still while somebody was to act.

        The fabric goes on meanwhile, unless it was beyond its limit. What depends on the testbed's processes
        does not: workloads post no work, and a fault is injected later than it says.
        """
        if quantity.argument in LATENCIES and not self._is_still:
            return 0
        changes = [
            change
            for change in self._recording.fault_changes
            if quantity.kind.argument == "fault" and change.fault_id == quantity.argument
        ]
        took_ns = max((change.after_ns - change.before_ns for change in changes), default=0)
        return self._recording.latest_ns + took_ns

    def _window_ns(self, quantity: Quantity) -> int:
        if quantity.kind.by_lateness == "dip":
            return LOWEST_GOODPUT_READINGS * self._recording.plan.reading_interval_ns
        if quantity.kind.argument == "fault" and self._recording.occurrences(quantity.argument or ""):
            return self._recording.fault_span(quantity.argument or "").length_ns
        return self._measurement.span(quantity).length_ns

    def _rtt_in_time_ns(self, readings: Sequence[Reading], lateness: Histogram) -> float:
        """Mean RTT without lateness: the idle one, or, with what waits in queues, more."""
        pairs = zip(readings[-1].packet_rtt, readings[0].packet_rtt, strict=True)
        rtt_ns = merge(later.since(earlier) for later, earlier in pairs).mean_ns() or 0.0
        return max(self._idle_rtt_ns, rtt_ns - (lateness.mean_ns() or 0.0))

    def _late_ns(self, lateness: Histogram, value_ns: float, ratio: float | None = None) -> float:
        """Lateness that a percentile of times may have; without a ratio, the largest.

        A time of many RTTs meets the latest frames as many times as often.
        """
        tail = 0.0
        if ratio is not None:
            tail = (1 - ratio) * _TAIL_SHARE * self._idle_rtt_ns / max(value_ns, self._idle_rtt_ns)
        found = lateness.percentiles_ns((1 - tail,))
        return 0.0 if found is None else found[0]
