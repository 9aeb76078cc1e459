"""All that is known about a finished run: what its files and its report are made of. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from mrc_testbed.faults.spec import describe_condition
from mrc_testbed.metrics.fidelity import TrustCheck
from mrc_testbed.scenario.measure.expectation import evaluate_expectations
from mrc_testbed.scenario.measure.lateness_bounds import LatenessBounds
from mrc_testbed.scenario.measure.link_finding import LinkFinding, measure_link_finding
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.operations_of_span import OperationsOfSpan
from mrc_testbed.scenario.measure.provenance import Provenance
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.measure.trust import has_lateness, judge_fidelity
from mrc_testbed.scenario.measure.verdict import Ending, Verdict, decide, unwritten_outcomes
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.scenario.spec.scenario_spec import QuantityText
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.impact import Act, Impact, find_episodes, headline, measure_impact
from mrc_testbed.workloads.job import Pace, Step, idle_shares, measure_pace, step_word
from mrc_testbed.workloads.nccl import CollectiveResult, build_result
from mrc_testbed.workloads.operation_record import last_loss


@dataclass(frozen=True, slots=True)
class Job:
    """A workload of collectives or of training, or a program."""

    name: str  # of the workload
    word: str  # what its steps are called: step or operation
    pace: Pace | None  # from the end of warm-up to the workload's end; None when no step lies in it
    # of the faults that acted meanwhile, oldest first; those that overlap have one
    impacts: tuple[Impact, ...]
    headline: str  # what happened, in one sentence
    loss: float | None = None  # of the last step, maybe not finite; None: none was reported
    # by rank, share of whole steps in which it did not compute; None: it is not known
    idle: Mapping[str, float] | None = None


def measure_jobs(recording: Recording) -> tuple[Job, ...]:
    """One for each workload of collectives or program; none of a run that did not get beyond its warm-up."""
    jobs = []
    for workload in recording.plan.workloads:
        if workload.shared_work is None:
            continue
        try:
            span = recording.workload_span(workload.name)
        except NotMeasured:
            continue
        found = OperationsOfSpan.of(recording, workload.name, span, with_overlapping=False)
        records = recording.operations.get(workload.name, ())
        steps = [Step.of(each) for each in records]
        episodes = find_episodes(_acts(recording), span.start_ns, span.end_ns)
        impacts = tuple(measure_impact(steps, each) for each in episodes)
        errors = dict.fromkeys(
            each.error for each in recording.outcomes if each.error and each.flow.workload == workload.name
        )
        state = recording.programs.get(workload.name)
        if state is not None and state.error is not None:
            errors[state.error] = None
        word = step_word(workload.shared_work)
        jobs.append(
            Job(
                name=workload.name,
                word=word,
                pace=measure_pace(steps, span.start_ns, span.end_ns),
                impacts=impacts,
                headline=headline(word, impacts, list(errors)),
                loss=last_loss(records),
                idle=idle_shares(workload.shared_work.ranks, found.operations),
            )
        )
    return tuple(jobs)


def _acts(recording: Recording) -> Iterator[Act]:
    clos = resolve_topology(recording.plan.topology)
    for fault in recording.plan.faults:
        begins_ns = tuple(each.applied.before_ns for each in recording.occurrences(fault.fault_id))
        try:
            end_ns = recording.fault_span(fault.fault_id).end_ns
        except NotMeasured:  # it never acted
            continue
        what = describe_condition(fault.kind, fault.links, fault.nodes, clos)
        yield Act(what, begins_ns, end_ns)


_CLOCK_STEP_NS: Final = 1_000_000_000
"""By less the wall clock may run away from CLOCK_MONOTONIC while nobody sets it: time servers slew it."""


class Instant(NamedTuple):
    """One moment by two clocks: the date, which anybody may set, and CLOCK_MONOTONIC."""

    utc: datetime
    ns: int


@dataclass(frozen=True, slots=True)
class ComparedMeasure:
    """A quantity that variants are compared by, in this run."""

    quantity: QuantityText  # as written
    dimension: Dimension  # of its value
    value: float | None  # in the base unit; None when it was not measured
    reason: str  # why not; empty otherwise


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run, measured and judged."""

    run_id: str  # name of its folder, such as `20261121T170000Z-3fa2`
    started: datetime  # when, in UTC
    ended: datetime  # when, in UTC
    duration_ns: int  # from the one to the other, by CLOCK_MONOTONIC
    # the time 0 of its events, in UTC by the clock at the end; None when warm-up did not end
    zero_utc: datetime | None
    plan: Plan  # what was to happen
    recording: Recording  # what happened
    verdict: Verdict  # what it came to
    recoveries: tuple[Recovery, ...]  # one per fault of the plan
    fidelity: tuple[TrustCheck, ...]  # what was looked at to decide whether the run is to be trusted
    # workload -> over its measured time; None when that was not measured
    goodput_bps: dict[str, float | None]
    # workload -> Jain's index of its flows' goodputs over the same time; None likewise
    fairness: dict[str, float | None]
    # workload of collectives -> what they came to over the same time
    collectives: dict[str, CollectiveResult]
    jobs: tuple[Job, ...]  # the same workloads: pace, slowest rank, and what faults did to them
    link_finding: LinkFinding | None  # what link probes found; None if hosts did not probe
    provenance: Provenance  # where and with what
    measures: tuple[ComparedMeasure, ...] = ()  # what variants are compared by; empty for a scenario without

    @property
    def clock_step_ns(self) -> int:
        """Step of the date during the run, forward or, if negative, back; 0 for none."""
        step_ns = (self.ended - self.started) // timedelta(microseconds=1) * 1000 - self.duration_ns
        return step_ns if abs(step_ns) >= _CLOCK_STEP_NS else 0


def judge_run(
    run_id: str,
    started: Instant,
    ended: Instant,
    recording: Recording,
    ending: Ending | None,
    provenance: Provenance,
) -> RunResult:
    """The result of a run: expectations evaluated, recovery measured, trust decided."""
    plan = recording.plan
    measurement = Measurement(recording)
    fidelity = judge_fidelity(recording)
    late, untrusted = (_reasons(fidelity, is_lateness=is_lateness) for is_lateness in (True, False))
    if plan.measures:  # variants are compared by figures, which nobody bounds
        late, untrusted = (), late + untrusted
    bounds_of = LatenessBounds(recording).bounds if has_lateness(recording) and not untrusted else None
    written = evaluate_expectations(plan.expect, recording, bounds_of, is_late=bool(late))
    outcomes = written + unwritten_outcomes(recording, written)
    if untrusted:
        outcomes = tuple(replace(each, is_certain=False) for each in outcomes)
    return RunResult(
        run_id=run_id,
        started=started.utc,
        ended=ended.utc,
        duration_ns=ended.ns - started.ns,
        zero_utc=_zero_utc(recording, ended),
        plan=plan,
        recording=recording,
        verdict=decide(outcomes, untrusted, ending, late),
        recoveries=tuple(measurement.recovery(fault.fault_id) for fault in plan.faults),
        fidelity=fidelity,
        goodput_bps=_of_workloads(measurement, "goodput", plan),
        fairness=_of_workloads(measurement, "fairness", plan),
        collectives={
            workload.name: _collective_result(recording, workload.name, workload.collective)
            for workload in plan.workloads
            if workload.collective is not None
        },
        jobs=measure_jobs(recording),
        link_finding=measure_link_finding(recording),
        provenance=provenance,
        measures=tuple(_compared(measurement, text) for text in plan.measures),
    )


def _reasons(fidelity: Iterable[TrustCheck], *, is_lateness: bool) -> tuple[str, ...]:
    return tuple(each.reason for each in fidelity if each.reason and each.is_lateness is is_lateness)


def _compared(measurement: Measurement, text: str) -> ComparedMeasure:
    quantity = parse_quantity(text)
    try:
        return ComparedMeasure(text, quantity.dimension, measurement.measure(quantity), "")
    except NotMeasured as error:
        return ComparedMeasure(text, quantity.dimension, None, error.message)


def _zero_utc(recording: Recording, ended: Instant) -> datetime | None:
    if recording.zero_ns is None:
        return None
    return ended.utc - timedelta(microseconds=(ended.ns - recording.zero_ns) / 1000)


def _of_workloads(measurement: Measurement, quantity: str, plan: Plan) -> dict[str, float | None]:
    return {each.name: _compared(measurement, f"{quantity}({each.name})").value for each in plan.workloads}


def _collective_result(recording: Recording, workload: str, collective: Collective) -> CollectiveResult:
    try:
        span = recording.workload_span(workload)
        operations = OperationsOfSpan.of(recording, workload, span, with_overlapping=False).operations
    except NotMeasured:
        operations = ()
    errors = [
        outcome.error for outcome in recording.outcomes if outcome.error and outcome.flow.workload == workload
    ]
    return build_result(collective, operations, errors)
