"""The smallest explanation of what fails: parts that all failures share and no success has. Pure.

    fails   {a, b}  {b, c}          b explains both: it is in each
    works   {a, c}                  a and c cannot be to blame

Parts are any names: links and nodes of a path, or the two hosts of a pair.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suspect:
    """A part that explains failures."""

    # the part; several: each explains the same failures, and nothing distinguishes them
    names: tuple[str, ...]
    # places, in the list of failures, of those that it explains and no earlier suspect does
    failures: tuple[int, ...]


def explain(failures: Sequence[Collection[str]], successes: Iterable[Collection[str]]) -> list[Suspect]:
    """Parts that explain *failures*, that which explains most first.

    The smallest set is as hard to find as any set cover; the greedy one is no larger where faults do not
    overlap. A failure all of whose parts are in successes is not explained.

    Args:
        failures: the parts of each.
        successes: the parts of each.
    """
    innocent = {part for parts in successes for part in parts}
    explained_by: dict[str, set[int]] = {}
    for place, parts in enumerate(failures):
        for part in dict.fromkeys(parts):
            if part not in innocent:
                explained_by.setdefault(part, set()).add(place)
    suspects = []
    while explained_by:
        most = max(explained_by.values(), key=len)
        names = tuple(part for part, places in explained_by.items() if places == most)
        suspects.append(Suspect(names, tuple(sorted(most))))
        left = {part: places - most for part, places in explained_by.items()}
        explained_by = {part: places for part, places in left.items() if places}
    return suspects
