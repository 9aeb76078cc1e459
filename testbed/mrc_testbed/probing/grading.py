"""Precision and recall of a diagnosis. Pure."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grade:
    """Suspected links against broken ones."""

    # suspected, broken: names of links, in order
    suspected: tuple[str, ...]
    broken: tuple[str, ...]
    right: tuple[str, ...]  # names of the links that are both

    @property
    def precision(self) -> float | None:
        """Share of the suspected links that are broken; None if none is suspected."""
        return len(self.right) / len(self.suspected) if self.suspected else None

    @property
    def recall(self) -> float | None:
        """Share of the broken links that are suspected; None if none is broken."""
        return len(self.right) / len(self.broken) if self.broken else None


def grade_links(suspected: Collection[str], broken: Collection[str]) -> Grade:
    """The grade of a diagnosis, by names of links."""
    right = sorted(set(suspected) & set(broken))
    return Grade(tuple(sorted(set(suspected))), tuple(sorted(set(broken))), tuple(right))
