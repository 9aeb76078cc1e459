"""A failing scenario made small: as long as it fails in the same way, it loses what it can."""

from collections.abc import Callable
from typing import Final

from mrc_testbed.soak.document import Values
from mrc_testbed.soak.smaller import smaller_documents

RUNS_MAX: Final = 300
CANDIDATE_FACTOR: Final = 2
"""Times the events after which the first document failed that a candidate may take."""


def shrink(
    document: Values,
    fails: Callable[[Values], bool],
    runs_max: int = RUNS_MAX,
    is_over: Callable[[], bool] = lambda: False,
    say: Callable[[int], object] = lambda _: None,
) -> tuple[Values, int]:
    """The smallest document found that still fails, and how many runs that took.

    Every step makes it weigh less, so that there is an end even without a limit.

    Args:
        document: one that fails.
        fails: whether another does, in the same way; raises `RefusedDocumentError` for what is no scenario.
        runs_max: number of runs at most.
        is_over: asked before each; once it is so, the smallest so far is the result.
        say: called with the number of runs after each.
    """
    candidates, runs, place, failed = smaller_documents(document), 0, 0, 0
    while failed < len(candidates) and runs < runs_max and not is_over():
        candidate = candidates[place % len(candidates)]
        try:
            is_smaller = fails(candidate)
            runs += 1
            say(runs)
        except RefusedDocumentError:
            is_smaller = False
        if is_smaller and not is_over():
            # the next step is now where this one was
            document, candidates, failed = candidate, smaller_documents(candidate), 0
        else:
            place, failed = place + 1, failed + 1
    return document, runs


class RefusedDocumentError(Exception):
    """The scenario language refuses a document, or virtual time does."""
