"""Pairs of hosts in rounds in which nobody takes part twice, so that no pair slows another one down. Pure."""

from collections.abc import Hashable, Iterable
from typing import Final, TypeVar

ROUNDS_MIN: Final = 2
"""Each host meets two others at least: with one alone, nobody could tell which of the two is slow."""

Pair = tuple[int, int]

_Host = TypeVar("_Host", bound=Hashable)


def rounds(count: int) -> list[list[Pair]]:
    """Rounds in which each of *count* meets each other once (circle method)."""
    ring: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    found = []
    for _ in range(len(ring) - 1):
        halves = zip(ring[: len(ring) // 2], reversed(ring[len(ring) // 2 :]), strict=True)
        found.append([(a, b) for a, b in halves if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def ordered_rounds(count: int, pairs_max: int) -> list[list[Pair]]:
    """Rounds of ordered pairs: as many as hold *pairs_max*, spread evenly over those of all pairs.

    Of each pair, the two directions are rounds of their own, one after the other.

    Args:
        count: number of hosts, at least 2.
        pairs_max: ordered pairs; ROUNDS_MIN rounds there are in any case, as far as there are so many.
    """
    every = rounds(count)
    wanted = min(len(every), max(ROUNDS_MIN, pairs_max // (2 * (count // 2))))
    chosen = [every[index * len(every) // wanted] for index in range(wanted)]
    return [ordered for pairs in chosen for ordered in (pairs, [(b, a) for a, b in pairs])]


def disjoint_rounds(pairs: Iterable[tuple[_Host, _Host]]) -> list[list[tuple[_Host, _Host]]]:
    """The same pairs in rounds, each in the first in which neither of its ends takes part."""
    found: list[tuple[list[tuple[_Host, _Host]], set[_Host]]] = []
    for pair in pairs:
        place = next((entry for entry in found if entry[1].isdisjoint(pair)), None)
        if place is None:
            place = ([], set())
            found.append(place)
        place[0].append(pair)
        place[1].update(pair)
    return [listed for listed, _ in found]
