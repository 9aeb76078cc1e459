"""Bounds within which each quantity of a late run would lie on a machine in time. Pure.

A frame that leaves late makes the RTT that it is part of longer by as much, so lateness stretches time by the
share of its mean in the idle RTT. At each edge of a window one late frame comes on top.

docs/explanation/fidelity.md has the bounds of each quantity.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, assert_never

from mrc_testbed.metrics.fidelity import LatenessReading, lateness_of, seconds_of
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.scenario.measure.bounds import Bounds
from mrc_testbed.scenario.measure.measurement import LOWEST_GOODPUT_READINGS, Measurement
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.measure.trust import lateness_readings, limits_of
from mrc_testbed.scenario.spec.expression_tree import Quantity
from mrc_testbed.scenario.spec.quantity import Dimension, percentile_ratio
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns

_TAIL_SHARE: Final = 0.1
"""Share of the times beyond a percentile that may be later than its bound: p99 is bounded by p99.9."""


class Doubt:
    """Bounds of the quantities of one recording.

    Args:
        recording: of a shaped lab whose frames were late.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._measurement = Measurement(recording)
        self._readings = lateness_readings(recording)
        self._times_ns = [reading.time_ns for reading in self._readings]
        self._idle_rtt_ns = max(1, base_rtt_ns(resolve_topology(recording.plan.topology)))
        is_beyond = recording.latest_ns > limits_of(recording).pause_ns
        self._standstill_ns = recording.latest_ns if is_beyond else 0

    def bounds(self, quantity: Quantity) -> Bounds:
        """Bounds of a quantity, in its base unit; its value lies within.

        Raises:
            NotMeasured: it has no value in this run.
        """
        value = self._measurement.measure(quantity)
        readings = self._around(quantity)
        lateness = lateness_of(readings)
        share = self._stretch(lateness)
        # A percentile may be about the worst second alone, a fault lasts no longer.
        worst_share = max(map(self._stretch, seconds_of(readings)), default=0.0)
        step_ns = self._recording.plan.reading_interval_ns
        match effect := quantity.kind.by_lateness:
            case "none":
                off = 0.0
            case "rate" | "count":
                off = value * (share + self._edges(lateness, self._window_ns(quantity)))
                off += effect == "count"
            case "dip":
                off = value * (worst_share + self._edges(lateness, LOWEST_GOODPUT_READINGS * step_ns))
            case "share":
                off = share + self._edges(lateness, self._window_ns(quantity))
            case "time":
                off = value * worst_share + self._late_ns(lateness, value, percentile_ratio(quantity.name))
            case "mean time":
                off = value * share + self._late_ns(lateness, value, 0.5)
            case "gap":
                off = value * worst_share + self._late_ns(lateness, value) + step_ns
            case "resent":
                duplicates = self._measurement.hosts(quantity).rx_duplicates
                return Bounds(max(0.0, value - duplicates), value * (1 + worst_share))
            case "added":
                return Bounds(0.0, value * (1 + worst_share))
            case _:
                assert_never(effect)
        low, high = value - off, value + off
        if quantity.dimension is Dimension.RATIO:
            high = min(1.0, high)
        return Bounds(low if effect == "none" else max(0.0, low), high)

    def _around(self, quantity: Quantity) -> Sequence[LatenessReading]:
        """Readings from the last one before the window to the first one after it."""
        span = self._measurement.span(quantity)
        first = max(0, bisect_right(self._times_ns, span.start_ns) - 1)
        found = self._readings[first : bisect_left(self._times_ns, span.end_ns) + 1]
        return found if len(found) > 1 else self._readings

    def _window_ns(self, quantity: Quantity) -> int:
        if quantity.kind.argument == "fault":
            return self._recording.fault_span(quantity.argument or "").length_ns
        return self._measurement.span(quantity).length_ns

    def _stretch(self, lateness: Histogram) -> float:
        """Share by which lateness makes all times longer."""
        return (lateness.mean_ns() or 0.0) / self._idle_rtt_ns

    def _edges(self, lateness: Histogram, window_ns: int) -> float:
        """Share of a window that a late frame at an edge may cost."""
        return self._late_ns(lateness, 0.0) / window_ns

    def _late_ns(self, lateness: Histogram, value_ns: float, ratio: float | None = None) -> float:
        """Lateness that a percentile of times may have; without a ratio, the largest.

        A time of many RTTs meets the latest frames as many times as often.
        """
        tail = 0.0
        if ratio is not None:
            tail = (1 - ratio) * _TAIL_SHARE * self._idle_rtt_ns / max(value_ns, self._idle_rtt_ns)
        found = lateness.percentiles_ns((1 - tail,))
        return self._standstill_ns + (0.0 if found is None else found[0])
