"""The value of each quantity of an expectation in a recorded run. Pure.

Windows: none is the whole run. Rates and times then cover the end of warm-up to the workload's end; counts
go on to the last reading, so that an error while messages drain is not overlooked.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from agents.abi import EvState
from testbed.metrics.histogram import Histogram, merge
from testbed.metrics.series import Interval, add_hosts
from testbed.scenario.measure.event import EvTransition
from testbed.scenario.measure.link_finding import measure_link_finding
from testbed.scenario.measure.operations_of_span import OperationsOfSpan
from testbed.scenario.measure.recording import FlowReading, NotMeasured, Recording, Span, nearest
from testbed.scenario.measure.recovery import Recovery, measure_recovery
from testbed.scenario.spec.expression_tree import Arithmetic, Comparison, Number, Quantity, Term
from testbed.scenario.spec.quantity import percentile_ratio
from testbed.units import format_duration_ns
from testbed.workloads.fairness import jain_index
from testbed.workloads.operation_record import percentile_ns

_FAULT_DROPS: Final = ("link_down", "loss")
_QUEUE_DROPS: Final = ("queue_full", "pool_empty")
LOWEST_GOODPUT_READINGS: Final = 2
"""Length of the stretches that `lowest_goodput` compares: usually 200 ms, as the paper samples bandwidth."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Value of one quantity: base unit of its dimension."""

    quantity: Quantity
    value: float


class Measures(ABC):
    """Where values of quantities come from: one run, or the variants of a scenario."""

    @abstractmethod
    def measure(self, quantity: Quantity) -> float:
        """Value of a quantity, in the base unit of its dimension.

        Raises:
            NotMeasured: it has no value; says why.
        """

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


class Measurement(Measures):
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
            "slowest_flow": lambda quantity: min(self._flow_rates_bps(quantity)),
            "fastest_flow": lambda quantity: max(self._flow_rates_bps(quantity)),
            "lowest_goodput": self._lowest_goodput,
            "interruption": self._interruption,
            "fairness": lambda quantity: self.fairness(
                quantity.workload or "", self._workload_span(quantity)
            ),
            "algbw": lambda quantity: self._operations(quantity).algorithm_bps(),
            "busbw": lambda quantity: self._operations(quantity).bus_bps(),
            "job_throughput": lambda quantity: self._operations(quantity, with_overlapping=True).per_second(),
            "operations": lambda quantity: float(len(self._operations(quantity))),
            "p<N>": self._percentile,
            "mean": self._mean,
            "max": self._maximum,
            "messages": self._messages,
            "retransmits": self._retransmits,
            "fault_drops": self._fault_drops,
            "queue_drops": self._queue_drops,
            "pauses": self._pauses,
            "paused_time": self._paused_time,
            "stalled_time": self._stalled_time,
            "deadlocked_ports": self._deadlocked_ports,
            "lowest_plane_share": lambda quantity: min(self._plane_shares(quantity)),
            "highest_plane_share": lambda quantity: max(self._plane_shares(quantity)),
            "assumed_bad": self._assumed_bad,
            "qp_errors": self._qp_errors,
            "wrong_bytes": self._wrong_bytes,
            "lost": lambda quantity: float(self.recovery(quantity.argument or "").lost_packets),
            "detect": self._detect,
            "localise": self._localise,
            "avoid": self._avoid,
            "restore": self._restore,
        }

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
        if fault_id not in self._recoveries:
            fault = next(fault for fault in self._recording.plan.faults if fault.fault_id == fault_id)
            self._recoveries[fault_id] = measure_recovery(self._recording, fault)
        return self._recoveries[fault_id]

    def goodput_bps(self, workload_name: str, span: Span) -> float:
        """Payload of a workload acknowledged for the first time in *span*, bit/s over all its flows.

        Raises:
            NotMeasured: there are no two readings to compute it from.
        """
        return sum(self._recording.flow_rates_bps(workload_name, span).values())

    def workload_goodput_bps(self, workload_name: str) -> float:
        """Goodput of a workload from the end of warm-up to its own end.

        Raises:
            NotMeasured: the run did not get beyond its warm-up.
        """
        return self.goodput_bps(workload_name, self._recording.workload_span(workload_name))

    def fairness(self, workload_name: str, span: Span) -> float:
        """Jain's index of the goodputs of a workload's flows in *span*.

        Raises:
            NotMeasured: there are no two readings to compute it from, or nothing was carried.
        """
        index = jain_index(list(self._recording.flow_rates_bps(workload_name, span).values()))
        if index is None:
            raise NotMeasured("none of its flows carried anything")
        return index

    def workload_fairness(self, workload_name: str) -> float:
        """The same from the end of warm-up to the workload's end.

        Raises:
            NotMeasured: the run did not get beyond its warm-up, or nothing was carried.
        """
        return self.fairness(workload_name, self._recording.workload_span(workload_name))

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

    def _goodput(self, quantity: Quantity) -> float:
        return self.goodput_bps(quantity.workload or "", self._workload_span(quantity))

    def _workload_span(self, quantity: Quantity) -> Span:
        """The window, or the whole run as far as the quantity's workload lasted."""
        if quantity.window is None:
            return self._recording.workload_span(quantity.workload or "")
        return self._span(quantity)

    def _flow_rates_bps(self, quantity: Quantity) -> list[float]:
        span = self._workload_span(quantity)
        return list(self._recording.flow_rates_bps(quantity.workload or "", span).values())

    def _lowest_goodput(self, quantity: Quantity) -> float:
        """Every reading begins a stretch that ends with the first one two intervals later, usually 200 ms."""
        over_ns = LOWEST_GOODPUT_READINGS * self._recording.plan.reading_interval_ns
        readings = self._flow_readings(quantity)
        rates_bps = []
        last = 0
        for begin in readings:
            while last < len(readings) and readings[last].time_ns - begin.time_ns < over_ns:
                last += 1
            if last == len(readings):
                break
            byte_count = self._acknowledged(quantity, begin, readings[last])
            rates_bps.append(byte_count * 8e9 / (readings[last].time_ns - begin.time_ns))
        if not rates_bps:
            raise NotMeasured(f"the window is shorter than {format_duration_ns(over_ns)}")
        return min(rates_bps)

    def _interruption(self, quantity: Quantity) -> float:
        longest_ns = silent_ns = 0
        for earlier, later in pairwise(self._flow_readings(quantity)):
            has_progress = self._acknowledged(quantity, earlier, later) > 0
            silent_ns = 0 if has_progress else silent_ns + later.time_ns - earlier.time_ns
            longest_ns = max(longest_ns, silent_ns)
        return float(longest_ns)

    def _flow_readings(self, quantity: Quantity) -> Sequence[FlowReading]:
        """Those of the window, from the one nearest to its beginning to the one nearest to its end."""
        span, readings = self._workload_span(quantity), self._recording.flow_readings
        first_ns, last_ns = (nearest(readings, edge).time_ns for edge in (span.start_ns, span.end_ns))
        found = [reading for reading in readings if first_ns <= reading.time_ns <= last_ns]
        if len(found) < 2:
            raise NotMeasured(f"no two readings lie in these {span.length_ns} ns")
        return found

    @staticmethod
    def _acknowledged(quantity: Quantity, earlier: FlowReading, later: FlowReading) -> int:
        return sum(
            count - earlier.acknowledged_bytes.get(flow, 0)
            for flow, count in later.acknowledged_bytes.items()
            if flow.workload == quantity.workload
        )

    def _plane_shares(self, quantity: Quantity) -> list[float]:
        sent = self._interval(self._span(quantity)).plane_tx_bytes
        if not sum(sent):
            raise NotMeasured("hosts sent nothing")
        return [of_plane / sum(sent) for of_plane in sent]

    def _operations(self, quantity: Quantity, *, with_overlapping: bool | None = None) -> OperationsOfSpan:
        """Those of the window; `during` a fault also those that it hit in part."""
        if with_overlapping is None:
            with_overlapping = quantity.window == "during"
        return OperationsOfSpan.of(
            self._recording,
            quantity.workload or "",
            self._workload_span(quantity),
            with_overlapping=with_overlapping,
        )

    def times(self, quantity: Quantity) -> Histogram:
        """All times that a percentile, mean or maximum is of.

        Raises:
            NotMeasured: there are none.
        """
        if quantity.workload is not None:
            return Histogram.of_times(self._times_ns(quantity))
        interval = self._interval(self._span(quantity))
        histogram = (
            merge(interval.packet_rtt) if quantity.argument == "packet_rtt" else interval.message_completion
        )
        if not histogram.count:
            raise NotMeasured("no time was recorded in it")
        return histogram

    def _percentile(self, quantity: Quantity) -> float:
        ratio = percentile_ratio(quantity.name)
        if quantity.workload is not None:
            return percentile_ns(self._times_ns(quantity), ratio or 0.0)
        values_ns = self.times(quantity).percentiles_ns([ratio or 0.0])
        if values_ns is None:
            raise NotMeasured("no time was recorded in it")
        return values_ns[0]

    def _mean(self, quantity: Quantity) -> float:
        if quantity.workload is not None:
            times_ns = self._times_ns(quantity)
            return sum(times_ns) / len(times_ns)
        mean_ns = self.times(quantity).mean_ns()
        if mean_ns is None:
            raise NotMeasured("no time was recorded in it")
        return mean_ns

    def _maximum(self, quantity: Quantity) -> float:
        if quantity.workload is not None:
            return float(max(self._times_ns(quantity)))
        return float(self.times(quantity).max_ns)

    def _times_ns(self, quantity: Quantity) -> list[int]:
        operations = self._operations(quantity)
        return operations.steps_ns() if quantity.argument == "step_time" else operations.durations_ns()

    def _messages(self, quantity: Quantity) -> float:
        return add_hosts(self._interval(self._counting_span(quantity)).hosts.values()).messages

    def _retransmits(self, quantity: Quantity) -> float:
        counts = add_hosts(self._interval(self._counting_span(quantity)).hosts.values())
        return counts.retransmits

    def _qp_errors(self, quantity: Quantity) -> float:
        return add_hosts(self._interval(self._counting_span(quantity)).hosts.values()).qp_errors

    def _fault_drops(self, quantity: Quantity) -> float:
        drops = self._interval(self._counting_span(quantity)).port_drops
        return sum(drops.get(reason, 0) for reason in _FAULT_DROPS)

    def _queue_drops(self, quantity: Quantity) -> float:
        drops = self._interval(self._counting_span(quantity)).port_drops
        return sum(drops.get(reason, 0) for reason in _QUEUE_DROPS)

    def _pauses(self, quantity: Quantity) -> float:
        return self._interval(self._counting_span(quantity)).flow.pauses

    def _paused_time(self, quantity: Quantity) -> float:
        return self._interval(self._span(quantity)).flow.paused_ns

    def _stalled_time(self, quantity: Quantity) -> float:
        return self._interval(self._span(quantity)).flow.stalled_ns

    def _deadlocked_ports(self, quantity: Quantity) -> float:
        deadlock = nearest(self._recording.readings, self._counting_span(quantity).end_ns).deadlock
        return len(deadlock.port_ids) if deadlock else 0

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

    def _wrong_bytes(self, quantity: Quantity) -> float:
        outcomes = [
            outcome
            for outcome in self._recording.outcomes
            if quantity.workload in (None, outcome.flow.workload)
        ]
        if not outcomes:
            raise NotMeasured("received memory was not compared, because the run did not get that far")
        if not all(outcome.compared_bytes for outcome in outcomes):
            unseen = next(outcome.flow for outcome in outcomes if not outcome.compared_bytes)
            raise NotMeasured(f"nothing that {unseen.target} received from {unseen.source} was compared")
        return sum(outcome.wrong_bytes for outcome in outcomes)

    def _detect(self, quantity: Quantity) -> float:
        return self._phase(quantity, "detect")

    def _localise(self, quantity: Quantity) -> float:
        finding = measure_link_finding(self._recording)
        if finding is None:
            raise NotMeasured("hosts sent no link probes: the topology has no `probing`")
        phase = finding.localise.get(quantity.argument or "")
        if phase is None:
            raise NotMeasured("it broke no link")
        if phase.longest_ns is None:
            raise NotMeasured(phase.reason)
        return float(phase.longest_ns)

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
