"""All that was measured in a run, growing while it goes on; read by expectations, report and results.

Times are CLOCK_MONOTONIC; `relative_ns` puts one on the run's own axis, where 0 is the end of warm-up.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mrc_testbed.errors import TestbedError
from mrc_testbed.metrics.series import Interval, Reading
from mrc_testbed.scenario.measure.event import EvTransition, FaultChange, NicEvent, Note
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import format_time
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import ProgramState
from mrc_testbed.workloads.sender import BatchRecord


class NotMeasured(TestbedError):  # noqa: N818 - it is an answer, not a failure of ours
    """A quantity, or a part of the run that it needs, is not there; the message says why."""


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a run, half open."""

    # start_ns, end_ns: CLOCK_MONOTONIC, start < end
    start_ns: int
    end_ns: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class FlowReading:
    """Bytes of each flow acknowledged at one moment."""

    time_ns: int  # CLOCK_MONOTONIC just before the first was read
    # payload acknowledged for the first time since the flow was connected
    acknowledged_bytes: Mapping[Flow, int]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One period in which a fault really acted."""

    applied: FaultChange  # when it began
    cleared: FaultChange | None  # when it ceased; None when the run ended first and nothing recorded its end

    @property
    def is_misdated(self) -> bool:
        """Return True if the kernel says that it took a packet at a time when it did not act."""
        if self.cleared is None or self.cleared.last_lost_ns is None:
            return False
        return not self.applied.before_ns <= self.cleared.last_lost_ns <= self.cleared.after_ns


AnyReading = TypeVar("AnyReading", Reading, FlowReading)


@dataclass(slots=True)
class Recording:
    """The events of a run, as they are written down."""

    plan: Plan  # what was to happen
    start_ns: int  # when the first workload was started; with programs, when all had made their first steps
    zero_ns: int | None = None  # end of warm-up; None while it lasts
    end_ns: int | None = None  # when the last workload was stopped or found finished; None before
    readings: list[Reading] = field(default_factory=list)  # of counters, oldest first
    # of flows, oldest first; where there are thousands, not one with each of the readings
    flow_readings: list[FlowReading] = field(default_factory=list)
    # of each collective workload and program, oldest first; empty until they were collected
    operations: dict[str, Sequence[OperationRecord]] = field(default_factory=dict)
    # of each flow of a workload, oldest first; empty likewise
    batches: dict[str, Mapping[Flow, Sequence[BatchRecord]]] = field(default_factory=dict)
    # workload name -> the state of a program when the run ended
    programs: dict[str, ProgramState] = field(default_factory=dict)
    nic_events: list[NicEvent] = field(default_factory=list)  # in the order in which they were fetched
    fault_changes: list[FaultChange] = field(default_factory=list)  # in the order in which they were made
    notes: list[Note] = field(default_factory=list)  # of what else the runner did
    # workload name -> when it was stopped or found finished
    workload_ends: dict[str, int] = field(default_factory=dict)
    # one per flow; empty until received memory was compared
    outcomes: list[FlowOutcome] = field(default_factory=list)
    # frames that receive rings of links lost in the run; None when it was not read
    ring_drops: int | None = None
    latest_ns: int = 0  # how late the latest reading or action was begun
    is_simulated: bool = False  # whether times are a simulation's, which no machine can make late
    early_frames: int = 0  # of a simulation, that crossed a link sooner than its port's rate allows

    def relative_ns(self, time_ns: int) -> int:
        """A CLOCK_MONOTONIC time on the run's axis; during warm-up as if it ended when planned."""
        zero_ns = self.start_ns - self.plan.start_ns if self.zero_ns is None else self.zero_ns
        return time_ns - zero_ns

    def measured_span(self) -> Span:
        """From the end of warm-up to the end of the run, or to the last reading of a run cut short."""
        if self.zero_ns is None or not self.readings:
            raise NotMeasured("the run ended during warm-up")
        end_ns = self.readings[-1].time_ns if self.end_ns is None else self.end_ns
        if end_ns <= self.zero_ns:
            raise NotMeasured("the run ended with its warm-up")
        return Span(self.zero_ns, end_ns)

    def workload_span(self, workload: str) -> Span:
        """From the end of warm-up to the end of a workload."""
        span = self.measured_span()
        end_ns = self.workload_ends.get(workload, span.end_ns)
        return Span(span.start_ns, end_ns) if span.start_ns < end_ns < span.end_ns else span

    def occurrences(self, fault_id: str) -> tuple[Occurrence, ...]:
        """The periods in which the fault acted, in order."""
        applied: dict[int, FaultChange] = {}
        cleared: dict[int, FaultChange] = {}
        for change in self.fault_changes:
            if change.fault_id == fault_id:
                (applied if change.action == "applied" else cleared)[change.occurrence] = change
        return tuple(Occurrence(change, cleared.get(index)) for index, change in sorted(applied.items()))

    def fault_span(self, fault_id: str) -> Span:
        """From the first application of the fault to the end of its last occurrence."""
        occurrences = self.occurrences(fault_id)
        if not occurrences:
            raise NotMeasured(f"{fault_id} was never applied")
        last = occurrences[-1].cleared
        end_ns = self.measured_span().end_ns if last is None else last.after_ns
        start_ns = occurrences[0].applied.before_ns
        if end_ns <= start_ns:
            raise NotMeasured(f"the run ended as {fault_id} was applied")
        return Span(start_ns, end_ns)

    def window(self, window: str, fault_id: str) -> Span:
        """The part of the run that `before`, `during` or `after` a fault means.

        `before` begins when the last fault that was over by then had been cleared, `after` ends when the next
        one is applied: both leave out other faults, unless one overlaps this fault itself.
        """
        run, fault = self.measured_span(), self.fault_span(fault_id)
        if window == "during":
            return Span(fault.start_ns, min(fault.end_ns, run.end_ns))
        applied = dict.fromkeys(each.fault_id for each in self.fault_changes if each.action == "applied")
        others = [self.fault_span(other) for other in applied if other != fault_id]
        if window == "before":
            earlier = [other.end_ns for other in others if other.end_ns <= fault.start_ns]
            start_ns, end_ns = max([run.start_ns, *earlier]), fault.start_ns
        else:
            later = [other.start_ns for other in others if other.start_ns >= fault.end_ns]
            start_ns, end_ns = fault.end_ns, min([run.end_ns, *later])
        if end_ns <= start_ns:
            raise NotMeasured(f"there was no time {window} {fault_id}")
        return Span(start_ns, end_ns)

    def stretch(self, start_ns: int, end_ns: int) -> Span:
        """The part of the run between two times of its own axis."""
        run = self.measured_span()
        last_ns = self.relative_ns(run.end_ns)
        if last_ns < end_ns - self.plan.reading_interval_ns:
            raise NotMeasured(f"the run was over at {format_time(last_ns)}")
        return Span(run.start_ns + start_ns, min(run.start_ns + end_ns, run.end_ns))

    def interval(self, span: Span) -> Interval:
        """The counts of *span*: the difference of the readings nearest to its two ends.

        The runner takes a reading where a fault's window begins or ends, so nearest is within milliseconds.
        """
        first, last = nearest(self.readings, span.start_ns), nearest(self.readings, span.end_ns)
        if last.time_ns <= first.time_ns:
            raise NotMeasured(f"no two readings lie in these {span.length_ns} ns")
        return last.since(first)

    def flow_rates_bps(self, workload: str, span: Span) -> dict[Flow, float]:
        """Payload of each flow of a workload acknowledged for the first time in *span*, bit/s."""
        first = nearest(self.flow_readings, span.start_ns)
        last = nearest(self.flow_readings, span.end_ns)
        length_ns = last.time_ns - first.time_ns
        if length_ns <= 0:
            raise NotMeasured(f"no two readings lie in these {span.length_ns} ns")
        return {
            flow: (count - first.acknowledged_bytes.get(flow, 0)) * 8e9 / length_ns
            for flow, count in last.acknowledged_bytes.items()
            if flow.workload == workload
        }

    def ev_transitions(self) -> Iterable[EvTransition]:
        """Changes of EV states in the order of their times."""
        transitions = [event for event in self.nic_events if isinstance(event, EvTransition)]
        return sorted(transitions, key=lambda transition: transition.time_ns)


def nearest(readings: Sequence[AnyReading], time_ns: int) -> AnyReading:
    """The reading whose time is nearest to *time_ns*."""
    if not readings:
        raise NotMeasured("nothing was read")
    after = bisect_left(readings, time_ns, key=lambda reading: reading.time_ns)
    candidates = readings[max(0, after - 1) : after + 1]
    return min(candidates, key=lambda reading: abs(reading.time_ns - time_ns))


class Journal:
    """Called with everything as it happens: one that keeps it leaves what a killed run had measured."""

    def note(self, recording: Recording, note: Note) -> None:
        """The runner did something."""

    def note_change(self, recording: Recording, change: FaultChange) -> None:
        """A fault began or ceased to act."""

    def note_nic_event(self, recording: Recording, event: NicEvent) -> None:
        """A NIC reported something."""

    def note_reading(self, recording: Recording) -> None:
        """The recording has one reading more."""

    def note_output(self, workload: str, line: bytes) -> None:
        """A rank of a program wrote a line; called in any thread."""
