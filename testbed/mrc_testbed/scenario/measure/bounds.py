"""Bounds of a value, and of a term of an expectation whose quantities have bounds. Pure.

Rounding never crosses bounds: it is monotonic, and each bound is computed as the value itself is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isnan
from typing import Self

from mrc_testbed.scenario.spec.expression_tree import Quantity, Term, fold


@dataclass(frozen=True, slots=True)
class Bounds:
    """A closed interval, in the base unit of what it bounds."""

    # low, high: its ends; infinite where there is none
    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float]) -> Self:
        """The narrowest that hold all *values*; unbounded if one of them has no value."""
        found = list(values)
        return cls(-inf, inf) if any(map(isnan, found)) else cls(min(found), max(found))

    @property
    def is_exact(self) -> bool:
        """Return True if one value alone lies within."""
        return self.low == self.high

    def __add__(self, other: Self) -> Self:
        return type(self)(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Self) -> Self:
        return self.around(one * two for one in (self.low, self.high) for two in (other.low, other.high))

    def __truediv__(self, other: Self) -> Self:
        if other.low <= 0 <= other.high:
            return type(self)(-inf, inf)
        return self.around(one / two for one in (self.low, self.high) for two in (other.low, other.high))


BoundsOf = Callable[[Quantity], Bounds]


def bound(term: Term, bounds_of: BoundsOf) -> Bounds:
    """Bounds of *term*; no narrower ones hold unless a quantity occurs twice in it."""
    return fold(term, lambda value: Bounds(value, value), bounds_of)
