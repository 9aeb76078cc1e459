"""The result of each job of a run: its pace, its slowest rank, and one sentence on its faults. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from mrc_testbed.faults.spec import describe_condition
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.workloads.impact import Act, Impact, find_episodes, headline, measure_impact
from mrc_testbed.workloads.job import Pace, Step, measure_pace, step_word
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
