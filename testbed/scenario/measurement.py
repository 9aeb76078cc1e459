"""The value of each quantity of an expectation in a recorded run. Pure.

Windows: none is the whole run. Rates and times then cover the end of warm-up to the workload's end; counts
go on to the last reading, so that an error while messages drain is not overlooked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agents.wire_abi import EvState
from testbed.metrics.histogram import Histogram, merge
from testbed.metrics.series import Interval, add_hosts
from testbed.scenario.event import EvTransition
from testbed.scenario.expression import Arithmetic, Comparison, Number, Quantity, Term
from testbed.scenario.quantity import percentile_ratio
from testbed.scenario.recording import NotMeasured, Recording, Span
from testbed.scenario.recovery import Recovery, measure_recovery

_FAULT_DROPS: Final = ("link_down", "loss")
_QUEUE_DROPS: Final = ("queue_full", "pool_empty")


@dataclass(frozen=True, slots=True)
class Measured:
    """Value of one quantity: base unit of its dimension."""

    quantity: Quantity
    value: float


class Measurement:
    """Looks quantities up in one recording; what is asked for twice is computed once.

    Args:
        recording: of a run, complete or not.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._intervals: dict[Span, Interval] = {}
        self._recoveries: dict[str, Recovery] = {}
        self._measures: dict[str, Callable[[Quantity], float]] = {
            "goodput": self._goodput,
            "p<N>": self._percentile,
            "mean": self._mean,
            "max": self._maximum,
            "messages": self._messages,
            "retransmits": self._retransmits,
            "fault_drops": self._fault_drops,
            "queue_drops": self._queue_drops,
            "assumed_bad": self._assumed_bad,
            "qp_errors": self._qp_errors,
            "wrong_bytes": self._wrong_bytes,
            "detect": self._detect,
            "avoid": self._avoid,
            "restore": self._restore,
        }

    def evaluate(self, term: Term) -> float:
        """Value of a term, in the base unit of its dimension.

        Raises:
            NotMeasured: a quantity in it has no value in this run, or it divides by zero.
        """
        match term:
            case Number():
                return term.value
            case Quantity():
                return self.measure(term)
            case Arithmetic():
                left, right = self.evaluate(term.left), self.evaluate(term.right)
                match term.operator:
                    case "+":
                        return left + right
                    case "-":
                        return left - right
                    case "*":
                        return left * right
                    case "/":
                        if right == 0:
                            raise NotMeasured("it divides by a measured zero")
                        return left / right

    def measured(self, comparison: Comparison) -> tuple[Measured, ...]:
        """Value of each quantity of an expectation, in the order of the text, each once.

        Raises:
            NotMeasured: one of them has no value in this run.
        """
        by_text = {str(quantity): quantity for quantity in comparison.quantities()}
        return tuple(Measured(quantity, self.measure(quantity)) for quantity in by_text.values())

    def measure(self, quantity: Quantity) -> float:
        """Value of a quantity, in the base unit of its dimension.

        Raises:
            NotMeasured: it has no value in this run; says why.
        """
        try:
            return self._measures[quantity.kind.name](quantity)
        except NotMeasured as error:
            raise NotMeasured(f"{quantity}: {error.message}") from error

    def recovery(self, fault_id: str) -> Recovery:
        """Recovery from a fault of the plan."""
        if fault_id not in self._recoveries:
            fault = next(fault for fault in self._recording.plan.faults if fault.fault_id == fault_id)
            self._recoveries[fault_id] = measure_recovery(self._recording, fault)
        return self._recoveries[fault_id]

    def goodput_bps(self, workload_name: str, span: Span) -> float:
        """Payload of a workload acknowledged for the first time in *span*, bit/s over all its senders.

        Raises:
            NotMeasured: there are no two readings to tell it by.
        """
        workload = next(
            planned for planned in self._recording.plan.workloads if planned.name == workload_name
        )
        interval = self._interval(span)
        acked_bytes = sum(interval.hosts[host].acknowledged_bytes for host in workload.sources)
        return acked_bytes * 8e9 / (interval.end_ns - interval.start_ns)

    def workload_goodput_bps(self, workload_name: str) -> float:
        """Goodput of a workload from the end of warm-up to its own end.

        Raises:
            NotMeasured: the run did not get beyond its warm-up.
        """
        span = self._recording.measured_span()
        end_ns = self._recording.workload_ends.get(workload_name, span.end_ns)
        if span.start_ns < end_ns < span.end_ns:
            span = Span(span.start_ns, end_ns)
        return self.goodput_bps(workload_name, span)

    def _interval(self, span: Span) -> Interval:
        if span not in self._intervals:
            self._intervals[span] = self._recording.interval(span)
        return self._intervals[span]

    def _span(self, quantity: Quantity) -> Span:
        if quantity.window is None or quantity.fault_id is None:
            return self._recording.measured_span()
        return self._recording.window(quantity.window, quantity.fault_id)

    def _counting_span(self, quantity: Quantity) -> Span:
        span = self._span(quantity)
        if quantity.window is None:
            return Span(span.start_ns, max(span.end_ns, self._recording.readings[-1].time_ns))
        return span

    def _goodput(self, quantity: Quantity) -> float:
        if quantity.window is None:
            return self.workload_goodput_bps(quantity.argument or "")
        return self.goodput_bps(quantity.argument or "", self._span(quantity))

    def _histogram(self, quantity: Quantity) -> Histogram:
        interval = self._interval(self._span(quantity))
        histogram = (
            merge(interval.packet_rtt) if quantity.argument == "packet_rtt" else interval.message_completion
        )
        if not histogram.count:
            raise NotMeasured("no time was recorded in it")
        return histogram

    def _percentile(self, quantity: Quantity) -> float:
        ratio = percentile_ratio(quantity.name)
        values_ns = self._histogram(quantity).percentiles_ns([ratio or 0.0])
        if values_ns is None:
            raise NotMeasured("no time was recorded in it")
        return values_ns[0]

    def _mean(self, quantity: Quantity) -> float:
        mean_ns = self._histogram(quantity).mean_ns()
        if mean_ns is None:
            raise NotMeasured("no time was recorded in it")
        return mean_ns

    def _maximum(self, quantity: Quantity) -> float:
        return float(self._histogram(quantity).max_ns)

    def _messages(self, quantity: Quantity) -> float:
        return add_hosts(self._interval(self._counting_span(quantity)).hosts.values()).messages

    def _retransmits(self, quantity: Quantity) -> float:
        counts = add_hosts(self._interval(self._counting_span(quantity)).hosts.values())
        return counts.retransmits_sack + counts.retransmits_timeout

    def _qp_errors(self, quantity: Quantity) -> float:
        return add_hosts(self._interval(self._counting_span(quantity)).hosts.values()).qp_errors

    def _fault_drops(self, quantity: Quantity) -> float:
        drops = self._interval(self._counting_span(quantity)).port_drops
        return sum(drops.get(reason, 0) for reason in _FAULT_DROPS)

    def _queue_drops(self, quantity: Quantity) -> float:
        drops = self._interval(self._counting_span(quantity)).port_drops
        return sum(drops.get(reason, 0) for reason in _QUEUE_DROPS)

    def _assumed_bad(self, quantity: Quantity) -> float:
        span = self._span(quantity)
        return sum(
            1
            for event in self._recording.nic_events
            if isinstance(event, EvTransition)
            and event.after is EvState.ASSUMED_BAD
            and span.start_ns <= event.time_ns
            and (quantity.window is None or event.time_ns < span.end_ns)
        )

    def _wrong_bytes(self, _: Quantity) -> float:
        if not self._recording.outcomes:
            raise NotMeasured("received memory was not compared, because the run did not get that far")
        if not all(outcome.compared_bytes for outcome in self._recording.outcomes):
            unseen = next(outcome.flow for outcome in self._recording.outcomes if not outcome.compared_bytes)
            raise NotMeasured(f"nothing that {unseen.target} received from {unseen.source} was compared")
        return sum(outcome.wrong_bytes for outcome in self._recording.outcomes)

    def _detect(self, quantity: Quantity) -> float:
        return self._phase(quantity, "detect")

    def _avoid(self, quantity: Quantity) -> float:
        return self._phase(quantity, "avoid")

    def _restore(self, quantity: Quantity) -> float:
        return self._phase(quantity, "restore")

    def _phase(self, quantity: Quantity, name: str) -> float:
        recovery = self.recovery(quantity.argument or "")
        phase = {"detect": recovery.detect, "avoid": recovery.avoid, "restore": recovery.restore}[name]
        if phase.longest_ns is None:
            raise NotMeasured(phase.reason)
        return float(phase.longest_ns)
