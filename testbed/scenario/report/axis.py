"""Axes of the report's panels: from values to positions, ticks at round values, and their labels. Pure."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_LOG_TICKS: Final = (1.0, 2.0, 5.0)
_LOG_ALL_TICKS_DECADES: Final = 1.6
"""Up to this many decades a logarithmic axis has ticks at 2 and 5 too."""

Format = Callable[[float], str]


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


def linear_axis(low: float, high: float, tick_count: int = 5, *, is_tight: bool = False) -> Axis:
    """A linear axis for values from *low* to *high*.

    Args:
        low: smallest value.
        high: largest value; if it is not above low, the axis is one unit long.
        tick_count: about how many ticks.
        is_tight: ends at low and high themselves, not at the next ticks.
    """
    if high <= low:
        high = low + 1.0
    step = _round_step((high - low) / tick_count)
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


@dataclass(frozen=True, slots=True)
class Scale:
    """How values of a dimension are written; called with a value it gives the text.

    Attributes:
        units: (factor, name), ascending; a value has the largest whose factor it reaches.
    """

    units: tuple[tuple[float, str], ...]

    def __call__(self, value: float) -> str:
        """*value* to three digits, with its unit."""
        if value == 0:
            return "0"
        factor, name = next(((f, n) for f, n in reversed(self.units) if abs(value) >= f), self.units[0])
        return f"{_short(value / factor)} {name}".rstrip()


def _short(value: float) -> str:
    text = f"{value:.3g}"
    return f"{value:.0f}" if "e" in text else text


def format_seconds(value_ns: float) -> str:
    """A position on the time axis, given in ns: `3.5 s`."""
    return f"{_short(value_ns / 1e9)} s" if value_ns else "0 s"


format_time: Final = Scale(((1, "ns"), (1e3, "\u00b5s"), (1e6, "ms"), (1e9, "s")))
"""A latency in ns: `31 µs`."""

format_rate: Final = Scale(((1, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")))
"""A rate in bit/s: `3.9 Gbit/s`."""

format_size: Final = Scale(((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")))
"""An amount of data, with decimal units, whose axes have round ticks: `64 kB`."""

format_count: Final = Scale(((1, ""), (1e3, "k"), (1e6, "M")))
"""A count: `12 k`."""

format_frequency: Final = Scale(((1, "/s"), (1e3, "k/s"), (1e6, "M/s")))
"""A count per second: `12 k/s`."""

format_share: Final = Scale(((0.01, "%"),))
"""A part of a whole: `25 %`."""
