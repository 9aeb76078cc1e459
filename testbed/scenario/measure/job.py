"""The result of each job of a run: its pace, its slowest rank, and one sentence on its faults. Pure."""

from dataclasses import dataclass

from mrc_testbed.faults.condition import describe_condition
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording, Span
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.workloads.job import (
    Episode,
    Impact,
    Pace,
    Step,
    headline,
    measure_impact,
    measure_pace,
    step_word,
)


@dataclass(frozen=True, slots=True)
class Job:
    """A workload of collectives or of training, or a program.

    Attributes:
        name: of the workload.
        word: what its steps are called: step or operation.
        pace: from the end of warm-up to the workload's end; None when no step lies in it.
        impacts: of the faults that acted meanwhile, in the order of the plan.
        headline: what happened, in one sentence.
        loss: of the last step; None: none was reported.
    """

    name: str
    word: str
    pace: Pace | None
    impacts: tuple[Impact, ...]
    headline: str
    loss: float | None = None


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
        records = recording.operations.get(workload.name, ())
        steps = [Step.of(each) for each in records]
        impacts = tuple(measure_impact(steps, each) for each in _episodes(recording, span))
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
                loss=next((each.loss for each in reversed(records) if each.loss is not None), None),
            )
        )
    return tuple(jobs)


def _episodes(recording: Recording, span: Span) -> list[Episode]:
    """The faults that acted in *span*, with the windows that expectations mean by before and during."""
    clos = resolve_topology(recording.plan.topology)
    found = []
    for fault in recording.plan.faults:
        begins_ns = tuple(each.applied.before_ns for each in recording.occurrences(fault.fault_id))
        if not begins_ns or not span.start_ns < begins_ns[0] < span.end_ns:
            continue
        during = recording.window("during", fault.fault_id)
        try:
            calm_ns = recording.window("before", fault.fault_id).start_ns
        except NotMeasured:  # another ended as it began
            calm_ns = begins_ns[0]
        try:
            after_ns = recording.window("after", fault.fault_id).end_ns
        except NotMeasured:  # it lasted to the end, or another began as it ended
            after_ns = during.end_ns
        found.append(
            Episode(
                what=describe_condition(fault.kind, fault.links, fault.nodes, clos),
                calm_ns=calm_ns,
                begins_ns=begins_ns,
                end_ns=min(during.end_ns, span.end_ns),
                until_ns=min(after_ns, span.end_ns),
            )
        )
    return found
