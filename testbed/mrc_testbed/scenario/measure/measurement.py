"""The value of each quantity of an expectation in a recorded run. Pure.

A quantity without a window is of the whole run: rates and times from the end of warm-up to the workload's
end, counts to the last reading, so that an error while messages drain is not overlooked.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final

from mrc_agents.abi import EvState
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.series import HostCounts, Interval
from mrc_testbed.scenario.measure.event import EvTransition
from mrc_testbed.scenario.measure.link_finding import measure_link_finding
from mrc_testbed.scenario.measure.operations_of_span import OperationsOfSpan
from mrc_testbed.scenario.measure.recording import FlowReading, NotMeasured, Recording, Span, nearest
from mrc_testbed.scenario.measure.recovery import Recovery, RecoveryPhase, measure_recovery
from mrc_testbed.scenario.spec.expression_tree import Comparison, Quantity, Term, fold
from mrc_testbed.scenario.spec.quantity import percentile_ratio
from mrc_testbed.units import format_duration_ns
from mrc_testbed.workloads.operation_record import percentile_ns
from mrc_testbed.workloads.perftest import jain_index
from mrc_testbed.workloads.printed_figures import PrintedFigure

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
        """Value of a term, in the base unit of its dimension."""
        try:
            return fold(term, float, self.measure)
        except ZeroDivisionError as error:
            raise NotMeasured("it divides by a measured zero") from error

    def measured(self, comparison: Comparison) -> tuple[Measured, ...]:
        """Value of each quantity of an expectation, in the order of the text, each once."""
        by_text = {str(quantity): quantity for quantity in comparison.quantities()}
        return tuple(Measured(quantity, self.measure(quantity)) for quantity in by_text.values())


class Measurement(Measures):
    """Looks quantities up in one recording, each by a method; what is asked for twice is computed once."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._intervals: dict[Span, Interval] = {}
        self._recoveries: dict[str, Recovery] = {}

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

    def measure(self, quantity: Quantity) -> float:
        """Value of a quantity, in the base unit of its dimension."""
        try:
            value: float = getattr(self, _method(quantity.kind.name))(quantity)
        except NotMeasured as error:
            raise NotMeasured(f"{quantity}: {error.message}") from error
        return value

    def recovery(self, fault_id: str) -> Recovery:
        if fault_id not in self._recoveries:
            fault = next(fault for fault in self._recording.plan.faults if fault.fault_id == fault_id)
            self._recoveries[fault_id] = measure_recovery(self._recording, fault)
        return self._recoveries[fault_id]

    def _flow_rates_bps(self, quantity: Quantity) -> list[float]:
        span = self.span(quantity)
        rates = list(self._recording.flow_rates_bps(quantity.workload or "", span).values())
        if not rates:
            raise NotMeasured("the flows of a program are its own")
        return rates

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

    def times(self, quantity: Quantity) -> Histogram:
        """All times that a percentile, mean or maximum is of."""
        if quantity.workload is not None:
            return Histogram.of_times(self._times_ns(quantity))
        interval = self._interval(self._span(quantity))
        histogram = (
            merge(interval.packet_rtt) if quantity.argument == "packet_rtt" else interval.message_completion
        )
        if not histogram.count:
            raise NotMeasured("no time was recorded in it")
        return histogram

    def _times_ns(self, quantity: Quantity) -> list[int]:
        operations = self._operations(quantity)
        return operations.steps_ns() if quantity.argument == "step_time" else operations.durations_ns()

    def of_goodput(self, quantity: Quantity) -> float:
        """Payload of the workload acknowledged for the first time, per second, summed over its flows."""
        return sum(self._flow_rates_bps(quantity))

    def of_slowest_flow(self, quantity: Quantity) -> float:
        """Goodput of the slowest flow."""
        return min(self._flow_rates_bps(quantity))

    def of_fastest_flow(self, quantity: Quantity) -> float:
        """Goodput of the fastest flow."""
        return max(self._flow_rates_bps(quantity))

    def of_lowest_goodput(self, quantity: Quantity) -> float:
        """Goodput of the workload in the worst 200 ms of the window."""
        # every reading begins a stretch that ends with the first one two intervals later
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

    def of_interruption(self, quantity: Quantity) -> float:
        """Longest time without an acknowledgement for the workload, in steps of readings (100 ms)."""
        longest_ns = silent_ns = 0
        for earlier, later in pairwise(self._flow_readings(quantity)):
            has_progress = self._acknowledged(quantity, earlier, later) > 0
            silent_ns = 0 if has_progress else silent_ns + later.time_ns - earlier.time_ns
            longest_ns = max(longest_ns, silent_ns)
        return float(longest_ns)

    def of_fairness(self, quantity: Quantity) -> float:
        """Jain's index of the flows' goodputs: 100% if all are equal, 1/n if one flow has everything."""
        index = jain_index(self._flow_rates_bps(quantity))
        if index is None:
            raise NotMeasured("none of its flows carried anything")
        return index

    def of_algbw(self, quantity: Quantity) -> float:
        """Data of a rank divided by the mean time of the workload's collectives."""
        return self._operations(quantity).algorithm_bps()

    def of_busbw(self, quantity: Quantity) -> float:
        """algbw times the collective's bus factor: what the busiest NIC had to send meanwhile."""  # noqa: D403
        return self._operations(quantity).bus_bps()

    def of_job_throughput(self, quantity: Quantity) -> float:
        """Steps of training or of a program, or collectives, per second of the window; a step with one half
        in it counts half.
        """
        return self._operations(quantity, with_overlapping=True).per_second()

    def of_operations(self, quantity: Quantity) -> float:
        """Collectives or steps in the window: `during` counts all that overlap it, other windows only whole
        ones.
        """
        return float(len(self._operations(quantity)))

    def of_idle(self, quantity: Quantity) -> float:
        """Share of steps of training or of a trace in which a rank does not compute, the mean of all."""
        return self._operations(quantity).idle()

    def of_loss(self, quantity: Quantity) -> float:
        """Loss that the program reported for its last step in the window, the mean over its ranks."""
        return self._operations(quantity).last_loss()

    def of_printed_bandwidth(self, quantity: Quantity) -> float:
        """Mean of the bandwidths that the program's ranks have printed, as perftest and nccl-tests do."""
        return self._printed(quantity, lambda figure: figure.bandwidth_bps)

    def of_printed_latency(self, quantity: Quantity) -> float:
        """Mean of the times in such tables: typical ones of perftest, of collectives of nccl-tests."""
        return self._printed(quantity, lambda figure: figure.latency_ns)

    def _printed(self, quantity: Quantity, value_of: Callable[[PrintedFigure], float | None]) -> float:
        state = self._recording.programs.get(quantity.workload or "")
        printed = () if state is None else state.printed
        values = [value for figure in printed if (value := value_of(figure)) is not None]
        if not values:
            raise NotMeasured("its ranks have printed no such figure")
        return fmean(values)

    def of_percentile(self, quantity: Quantity) -> float:
        """Percentile N (such as p50, p99, p99.9) of all times recorded in the window, over all NICs;
        `step_time(w)` and `collective_time(w)` are those of a workload, such as p99(step_time(job)).
        """
        ratio = percentile_ratio(quantity.name)
        if quantity.workload is not None:
            return percentile_ns(self._times_ns(quantity), ratio or 0.0)
        values_ns = self.times(quantity).percentiles_ns([ratio or 0.0])
        if values_ns is None:
            raise NotMeasured("no time was recorded in it")
        return values_ns[0]

    def of_mean(self, quantity: Quantity) -> float:
        """Arithmetic mean of all times recorded in the window."""
        if quantity.workload is not None:
            times_ns = self._times_ns(quantity)
            return sum(times_ns) / len(times_ns)
        mean_ns = self.times(quantity).mean_ns()
        if mean_ns is None:
            raise NotMeasured("no time was recorded in it")
        return mean_ns

    def of_max(self, quantity: Quantity) -> float:
        """Largest time recorded in the window."""
        if quantity.workload is not None:
            return float(max(self._times_ns(quantity)))
        return float(self.times(quantity).max_ns)

    def of_messages(self, quantity: Quantity) -> float:
        """Messages completed in the window, over all NICs."""
        return self.hosts(quantity).messages

    def of_retransmits(self, quantity: Quantity) -> float:
        """Retransmitted packets in the window, over all NICs."""
        return self.hosts(quantity).retransmits

    def of_retransmit_ratio(self, quantity: Quantity) -> float:
        """Retransmitted packets per data packet sent in the window, over all NICs."""
        return self.hosts(quantity).retransmits / self.packets_sent(quantity)

    def of_fault_drops(self, quantity: Quantity) -> float:
        """Frames, EV probes included, that down links and loss faults dropped in the window."""
        return self._drops(quantity, "link_down", "loss")

    def of_queue_drops(self, quantity: Quantity) -> float:
        """Frames that full switch or NIC queues dropped in the window."""
        return self._drops(quantity, "queue_full", "pool_empty")

    def of_queue_drop_ratio(self, quantity: Quantity) -> float:
        """Frames that full queues dropped per data packet sent in the window."""
        return self.of_queue_drops(quantity) / self.packets_sent(quantity)

    def of_pauses(self, quantity: Quantity) -> float:
        """PFC frames that paused a port in the window, over all ports."""
        return self._interval(self._counting_span(quantity)).flow.pauses

    def of_paused_time(self, quantity: Quantity) -> float:
        """Time that PFC paused ports in the window, summed over ports."""
        return self._interval(self._span(quantity)).flow.paused_ns

    def of_stalled_time(self, quantity: Quantity) -> float:
        """Time that data waited because PFC or missing credit held its port, summed over ports."""
        return self._interval(self._span(quantity)).flow.stalled_ns

    def of_deadlocked_ports(self, quantity: Quantity) -> float:
        """Deadlocked ports at the end of the window: flow control holds each because it waits for
        another.
        """
        deadlock = nearest(self._recording.readings, self._counting_span(quantity).end_ns).deadlock
        return len(deadlock.port_ids) if deadlock else 0

    def of_lowest_plane_share(self, quantity: Quantity) -> float:
        """Share of the plane with the fewest bytes in all bytes that hosts sent."""
        return min(self._plane_shares(quantity))

    def of_highest_plane_share(self, quantity: Quantity) -> float:
        """Share of the plane with the most bytes."""
        return max(self._plane_shares(quantity))

    def of_assumed_bad(self, quantity: Quantity) -> float:
        """Times that an EV became ASSUMED_BAD in the window."""
        span = self._span(quantity)
        return sum(
            1
            for event in self._recording.nic_events
            if isinstance(event, EvTransition)
            and event.after is EvState.ASSUMED_BAD
            and span.start_ns <= event.time_ns
            and (quantity.window is None or event.time_ns < span.end_ns)
        )

    def of_qp_errors(self, quantity: Quantity) -> float:
        """QPs that went to the error state in the window."""
        return self.hosts(quantity).qp_errors

    def of_wrong_bytes(self, quantity: Quantity) -> float:
        """Wrong bytes of received memory or of results; of all workloads, or of one."""
        outcomes = [
            outcome
            for outcome in self._recording.outcomes
            if quantity.workload in (None, outcome.flow.workload)
        ]
        if not outcomes and not any(workload.flows for workload in self._recording.plan.workloads):
            raise NotMeasured("the data of a program are its own")
        if not outcomes:
            raise NotMeasured("received memory was not compared, because the run did not get that far")
        traces = {workload.name for workload in self._recording.plan.workloads if workload.trace}
        for outcome in outcomes:  # results of a trace are those of ranks, whoever sent to them
            if outcome.compared_bytes or outcome.flow.workload in traces:
                continue
            unseen = outcome.flow
            raise NotMeasured(f"nothing that {unseen.target} received from {unseen.source} was compared")
        return sum(outcome.wrong_bytes for outcome in outcomes)

    def of_lost(self, quantity: Quantity) -> float:
        """Data packets that the fault dropped, in all its occurrences; lost EV probes do not count."""
        return float(self.recovery(quantity.argument or "").lost_packets)

    def of_lost_ratio(self, quantity: Quantity) -> float:
        """Data packets that the fault dropped per data packet sent from its first start to its last end."""
        return self.of_lost(quantity) / self.packets_sent(quantity)

    def of_detect(self, quantity: Quantity) -> float:
        """Time from the start of the fault until an EV leaves an affected path; maximum over occurrences."""
        return _longest_ns(self.recovery(quantity.argument or "").detect)

    def of_localise(self, quantity: Quantity) -> float:
        """Time from the start of the fault until link probes suspect all its links; maximum over
        occurrences.
        """
        finding = measure_link_finding(self._recording)
        if finding is None:
            raise NotMeasured("hosts sent no link probes: the topology has no `probing`")
        phase = finding.localise.get(quantity.argument or "")
        if phase is None:
            raise NotMeasured("it broke no link")
        return _longest_ns(phase)

    def of_avoid(self, quantity: Quantity) -> float:
        """Time from the start of the fault to the last packet that it drops; maximum over occurrences."""
        return _longest_ns(self.recovery(quantity.argument or "").avoid)

    def of_restore(self, quantity: Quantity) -> float:
        """Time from the repair until the last affected EV is GOOD again; maximum over occurrences."""
        return _longest_ns(self.recovery(quantity.argument or "").restore)


def _longest_ns(phase: RecoveryPhase) -> float:
    if phase.longest_ns is None:
        raise NotMeasured(phase.reason)
    return float(phase.longest_ns)


def _method(name: str) -> str:
    """The method of `Measurement` for the quantity of that name."""
    return "of_percentile" if name == "p<N>" else f"of_{name}"


def description(name: str) -> str:
    """Meaning of a quantity in one sentence, for the reference page."""
    return " ".join((getattr(Measurement, _method(name)).__doc__ or "").split())
