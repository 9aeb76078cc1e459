"""The verdict on one universe: all invariants hold, or those that do not."""

import logging
from dataclasses import dataclass
from typing import Final

from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.soak.document import Values, plan_of
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.invariants import Failure
from mrc_testbed.soak.shrink import RefusedDocumentError
from mrc_testbed.soak.universe import IsStopped, Universe, run_document

REPEATED: Final = 10
"""One in so many universes runs twice."""

_log = logging.getLogger(__name__)
_candidate_log = _log.getChild("candidate")
_candidate_log.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on the universe of a number."""

    seed: int  # its number
    failures: tuple[Failure, ...]  # invariants that do not hold; none in a good one
    time_ns: int  # how long it lasted
    events: int  # of the simulation


def judge(
    document: Values,
    *,
    is_repeated: bool = False,
    is_candidate: bool = False,
    is_stopped: IsStopped = lambda: False,
    events_max: int = 0,
) -> Universe:
    """Judge a universe; an exception is a failure of its own kind.

    Args:
        is_repeated: whether it runs twice, and both have to come to the same.
        is_candidate: whether it is one of many that lead to a smaller failure: its exceptions go unlogged.
        events_max: events after which it stops too, and has failed; 0: EVENTS_MAX.
    """
    log = _candidate_log if is_candidate else _log
    try:
        outcome = run_document(document, is_stopped, events_max)
        again = run_document(document, is_stopped, events_max) if is_repeated else outcome
    except PreflightError:
        raise
    except Exception as error:
        log.exception("%s", document["metadata"]["name"])
        return Universe((Failure(type(error).__name__, str(error)),), "", 0, 0)
    if again == outcome:
        return outcome
    digests = Failure("digest", f"{outcome.digest} and {again.digest} of one universe")
    return Universe((*outcome.failures, digests), outcome.digest, outcome.time_ns, outcome.events)


def judge_candidate(invariant: str, document: Values, is_stopped: IsStopped, events_max: int) -> Universe:
    """Judge a document that may fail by an invariant."""
    require_plan(document)
    is_repeated = invariant == "digest"
    return judge(
        document, is_repeated=is_repeated, is_candidate=True, is_stopped=is_stopped, events_max=events_max
    )


def require_plan(document: Values) -> None:
    """Raise RefusedDocumentError if the scenario language refuses a document."""
    try:
        plan_of(document)
    except UsageError as error:
        raise RefusedDocumentError(error.message) from error


def judge_seed(seed: int) -> Judged:
    """Judge the universe of a number."""
    outcome = judge(draw_universe(seed), is_repeated=seed % REPEATED == 0)
    return Judged(seed, outcome.failures, outcome.time_ns, outcome.events)
