"""The expectations of every run, also unwritten: workloads send, and end without an error. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mrc_testbed.faults.effects import AgentDead
from mrc_testbed.scenario.measure.expectation import Outcome
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.workloads.flow import FlowOutcome

_QP_ERRORS: Final = "qp_errors"


def unwritten_outcomes(recording: Recording, written: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """One that did not hold for each workload that sent nothing, or ended with an error.

    Args:
        recording: of the run; of one that did not get as far as to end its workloads nothing is said.
        written: outcomes of the expectations. Where one held that saw QPs fail, they are to fail, as are
            those of a host whose agent a fault kills.
    """
    sees_errors = any(
        each.quantity.name == _QP_ERRORS and each.value
        for outcome in written
        for each in outcome.measured
        if outcome.has_passed
    )
    return tuple(_broken(recording, sees_errors=sees_errors))


def _broken(recording: Recording, *, sees_errors: bool) -> Iterator[Outcome]:
    effects = (effect for fault in recording.plan.faults for effect in fault.effects)
    killed = {effect.host for effect in effects if isinstance(effect, AgentDead)}
    for name in dict.fromkeys(outcome.flow.workload for outcome in recording.outcomes):
        flows = [outcome for outcome in recording.outcomes if outcome.flow.workload == name]
        failed = [outcome for outcome in flows if outcome.error is not None]
        if failed and (sees_errors or all(killed & {each.flow.source, each.flow.target} for each in failed)):
            continue
        if not sum(outcome.messages for outcome in flows):
            yield _outcome(f"{name} sends", "no message completed", failed)
        elif failed:
            what = f"{len(failed)} of {len(flows)} QPs failed"
            yield _outcome(f"{name} ends without an error", what, failed)


def _outcome(text: str, what: str, failed: Sequence[FlowOutcome]) -> Outcome:
    reason = what
    if failed:
        flow = failed[0].flow
        reason = f"{what}; {flow.source} -> {flow.target}: {failed[0].error}"
    return Outcome(text, False, reason, Dimension.COUNT, None, None, (), is_written=False)
