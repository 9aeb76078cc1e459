"""The windows of quantities in a recorded run, and what was counted in them. Pure.

A quantity without a window is of the whole run: rates and times from the end of warm-up to the workload's
end, counts to the last reading, so that an error while messages drain is not overlooked.
"""

from collections.abc import Sequence

from mrc_testbed.metrics.series import HostCounts, Interval
from mrc_testbed.scenario.measure.measures import Measures
from mrc_testbed.scenario.measure.operations_of_span import OperationsOfSpan
from mrc_testbed.scenario.measure.recording import FlowReading, NotMeasured, Recording, Span, nearest
from mrc_testbed.scenario.spec.expression_tree import Quantity


class Windows(Measures):
    """Counts of one recording by window; what is asked for twice is computed once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._intervals: dict[Span, Interval] = {}

    def _interval(self, span: Span) -> Interval:
        if span not in self._intervals:
            self._intervals[span] = self._recording.interval(span)
        return self._intervals[span]

    def _span(self, quantity: Quantity) -> Span:
        if quantity.stretch_ns is not None:
            return self._recording.stretch(*quantity.stretch_ns)
        if quantity.window is None or quantity.fault_id is None:
            return self._recording.measured_span()
        return self._recording.window(quantity.window, quantity.fault_id)

    def _counting_span(self, quantity: Quantity) -> Span:
        span = self._span(quantity)
        if quantity.window is None:
            return Span(span.start_ns, max(span.end_ns, self._recording.readings[-1].time_ns))
        return span

    def span(self, quantity: Quantity) -> Span:
        """The window, or the whole run as far as the quantity's workload lasted."""
        if quantity.window is None:
            return self._recording.workload_span(quantity.workload or "")
        return self._span(quantity)

    def _flow_readings(self, quantity: Quantity) -> Sequence[FlowReading]:
        """Those of the window, from the one nearest to its beginning to the one nearest to its end."""
        span, readings = self.span(quantity), self._recording.flow_readings
        first_ns, last_ns = (nearest(readings, edge).time_ns for edge in (span.start_ns, span.end_ns))
        found = [reading for reading in readings if first_ns <= reading.time_ns <= last_ns]
        if len(found) < 2:
            raise NotMeasured(f"no two readings lie in these {span.length_ns} ns")
        return found

    def _operations(self, quantity: Quantity, *, with_overlapping: bool | None = None) -> OperationsOfSpan:
        """Those of the window; `during` a fault also those that it hit in part."""
        if with_overlapping is None:
            with_overlapping = quantity.window == "during"
        span = self.span(quantity)
        return OperationsOfSpan.of(
            self._recording, quantity.workload or "", span, with_overlapping=with_overlapping
        )

    def hosts(self, quantity: Quantity) -> HostCounts:
        """Counts of all NICs in the window; without one, to the last reading."""
        return self._interval(self._counting_span(quantity)).hosts.total()

    def packets_sent(self, quantity: Quantity) -> int:
        """Data packets that all NICs sent in the window, or from the fault's first start to its last end."""
        of_fault = quantity.kind.argument == "fault"
        span = (
            self._recording.fault_span(quantity.argument or "") if of_fault else self._counting_span(quantity)
        )
        sent = self._interval(span).hosts.total().tx_data_packets
        if not sent:
            raise NotMeasured("NICs sent no data packet")
        return sent

    def _drops(self, quantity: Quantity, *reasons: str) -> int:
        drops = self._interval(self._counting_span(quantity)).port_drops
        return sum(drops.get(reason, 0) for reason in reasons)
