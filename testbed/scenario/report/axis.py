"""Axes of the report's drawings: from values to positions, ticks at round values. Pure."""

import math
from dataclasses import dataclass
from typing import Final

from testbed.shown import Scale

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_LOG_TICKS: Final = (1.0, 2.0, 5.0)
_LOG_ALL_TICKS_DECADES: Final = 1.6
"""Up to this many decades a logarithmic axis has ticks at 2 and 5 too."""

SECONDS: Final = Scale(((1e9, "s"),))
"""Positions on a time axis, given in ns."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values laid onto a range of positions.

    Attributes:
        low, high: values at its two ends, low < high.
        ticks: values to mark.
        is_log: whether equal distances are equal factors.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool

    def position(self, value: float, start: float, end: float) -> float:
        """Where *value* lies between the positions of low (*start*) and high (*end*), cut off at both."""
        clipped = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(clipped / self.low) / math.log(self.high / self.low)
        else:
            share = (clipped - self.low) / (self.high - self.low)
        return start + share * (end - start)


def linear_axis(
    low: float, high: float, tick_count: int = 5, *, scale: Scale | None = None, is_tight: bool = False
) -> Axis:
    """A linear axis for values from *low* to *high*.

    Args:
        low: smallest value.
        high: largest value; if it is not above low, the axis is one unit long.
        tick_count: about how many ticks.
        scale: of the values: ticks are round in the unit that *high* is written in.
        is_tight: ends at low and high themselves, not at the next ticks.
    """
    if high <= low:
        high = low + 1.0
    unit = 1.0 if scale is None else scale.unit(high)[0]
    step = unit * _round_step((high - low) / unit / tick_count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(index * step for index in range(first, last + 1))
    if is_tight:
        return Axis(low, high, tuple(tick for tick in ticks if low <= tick <= high), False)
    return Axis(ticks[0], ticks[-1], ticks, False)


def log_axis(low: float, high: float) -> Axis:
    """A logarithmic axis that shows *low* and *high*, both above zero."""
    low, high = min(low, high), max(low, high)
    candidates = [
        factor * 10.0**exponent
        for exponent in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
        for factor in _LOG_TICKS
    ]
    bottom = max(value for value in candidates if value <= low * 1.0001)
    top = min(value for value in candidates if value >= high * 0.9999 and value > bottom)
    is_dense = math.log10(top / bottom) <= _LOG_ALL_TICKS_DECADES
    ticks = tuple(
        value for value in candidates if bottom <= value <= top and (is_dense or _is_power_of_ten(value))
    )
    return Axis(bottom, top, ticks, True)


def _is_power_of_ten(value: float) -> bool:
    exponent = math.log10(value)
    return abs(exponent - round(exponent)) < 1e-9


def _round_step(step: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(step))
    return next(factor * magnitude for factor in _STEPS if factor * magnitude >= step * 0.9999)
