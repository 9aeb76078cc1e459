"""The ways in which a scenario fails: expectations that do not hold, or invariants."""

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.measure.expectation import Outcome, evaluate_expectations
from mrc_testbed.scenario.measure.workload_end import unwritten_outcomes
from mrc_testbed.scenario.run.runner import Runner
from mrc_testbed.scenario.run.silent_journal import SilentJournal
from mrc_testbed.soak.document import Values, plan_of
from mrc_testbed.soak.judging import judge
from mrc_testbed.soak.shrink import RefusedDocumentError
from mrc_testbed.soak.universe import IsStopped, Universe, UniverseLimit
from mrc_testbed.virtual.world import virtual_world


def judge_candidate(invariant: str, document: Values, is_stopped: IsStopped, events_max: int) -> Universe:
    """Judge a document that may fail by an invariant."""
    _check(document)
    is_repeated = invariant == "digest"
    return judge(
        document, is_repeated=is_repeated, is_candidate=True, is_stopped=is_stopped, events_max=events_max
    )


def fails_by(invariant: str, document: Values, is_stopped: IsStopped, events_max: int) -> bool:
    """Return True if an invariant does not hold in a document's universe; see `judge_candidate`."""
    found = judge_candidate(invariant, document, is_stopped, events_max).failures
    return invariant in {failure.invariant for failure in found}


def fails_expectations(unmet: list[Outcome], document: Values, is_stopped: IsStopped) -> bool:
    """Return True if the same expectations, and maybe others, do not hold in a run of a document."""
    _check(document)
    try:
        found = unmet_expectations(document, is_stopped)
    except UsageError as error:
        raise RefusedDocumentError(error.message) from error
    return {_identity(outcome) for outcome in unmet} <= {_identity(outcome) for outcome in found}


def unmet_expectations(document: Values, is_stopped: IsStopped = lambda: False) -> list[Outcome]:
    """The expectations that do not hold, as `run --virtual` judges; none of a run without its end."""
    plan = plan_of(document)
    with virtual_world(plan, UniverseLimit(is_stopped)) as world:
        runner = Runner(plan, world, SilentJournal(), lambda _: None)
        if runner.run() is not None:
            return []
    written = evaluate_expectations(plan.expect, runner.recording)
    unwritten = unwritten_outcomes(runner.recording, written)
    return [outcome for outcome in written + unwritten if not outcome.has_passed]


def _check(document: Values) -> None:
    try:
        plan_of(document)
    except UsageError as error:
        raise RefusedDocumentError(error.message) from error


def _identity(outcome: Outcome) -> tuple[str, bool, str]:
    """Its text, whether it could be measured, and the error of a QP: another failure differs in one."""
    error = outcome.reason.rpartition(": ")[2] if " -> " in outcome.reason else ""
    return outcome.text, bool(outcome.measured), error
