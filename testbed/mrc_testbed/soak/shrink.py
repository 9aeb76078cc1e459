"""A failing scenario made small: as long as it fails in the same way, it loses what it can."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from mrc_testbed.soak.document import Values
from mrc_testbed.soak.smaller import fabric_of, quantity_of, smaller_documents, time_ns

RUNS_MAX: Final = 300
CANDIDATE_FACTOR: Final = 2
"""Times the events after which the first document failed that a candidate may take."""


def shrink(
    document: Values,
    fails: Callable[[Values], bool],
    runs_max: int = RUNS_MAX,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[Values, int]:
    """The smallest document found that still fails, and how many runs that took.

    Every step makes `weight` less, so that there is an end even without a limit.

    Args:
        document: one that fails.
        fails: whether another does, in the same way; raises `RefusedDocumentError` for what is no scenario.
        runs_max: number of runs at most.
        is_over: asked before each; once it is so, the smallest so far is the result.
    """
    runs, place, is_smaller = 0, 0, False
    candidates = list(_lighter(document))
    while runs < runs_max and not is_over():
        if place == len(candidates):
            if not is_smaller:
                break
            place, is_smaller = 0, False
            continue
        try:
            has_failed = fails(candidates[place])
        except RefusedDocumentError:
            place += 1
            continue
        runs += 1
        if has_failed and not is_over():
            # the next step is now where this one was
            document, is_smaller = candidates[place], True
            candidates = list(_lighter(document))
            place = min(place, len(candidates))
        else:
            place += 1
    return document, runs


class RefusedDocumentError(Exception):
    """The scenario language refuses a document, or virtual time does."""


def weight(document: Values) -> tuple[int, ...]:
    """Size of a document, most important first: faults, workloads, fabric, run time, entries, quantities."""
    spec = document["spec"]
    leaves = list(_leaves(document))
    return (
        len(spec.get("faults", ())),
        len(spec["workloads"]),
        sum(fabric_of(spec).values()),
        sum(time_ns(each, key) for each in spec["workloads"] for key in ("duration", "warmup")),
        len(leaves),
        sum(_magnitude(leaf) for leaf in leaves),
    )


def _lighter(document: Values) -> Iterator[Values]:
    least = weight(document)
    return (candidate for candidate in smaller_documents(document) if weight(candidate) < least)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
        yield None  # an empty one counts too
    else:
        yield value


def _magnitude(leaf: Any) -> int:
    if isinstance(leaf, str):
        found = quantity_of(leaf)
        return 0 if found is None else found[1]
    return int(leaf) if isinstance(leaf, int) else 0
