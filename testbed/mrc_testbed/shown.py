"""Measured values as people read them: three significant digits, a space, a unit. Pure.

Terminal, summary.md, reports, figures and the live page write values in this way alone; charts.js
does the same in a browser. What a user writes is in mrc_testbed.units, where it is exact.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

DIGITS: Final = 3
DIGITS_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class Scale:
    """The format of values of a dimension; called with a value it gives the text."""

    # (factor, name), ascending; a value has the largest whose factor it reaches
    units: tuple[tuple[float, str], ...]

    def __call__(self, value: float, digits: int = DIGITS) -> str:
        """*value* as `format_number` writes it, with its unit."""
        if value == 0:
            return "0"
        factor, name = self.unit(value, digits)
        return f"{format_number(value / factor, digits)} {name}".rstrip()

    def digits_apart(self, *values: float) -> int:
        """Least number of digits, from DIGITS on, with which values that differ look different."""
        for digits in range(DIGITS, DIGITS_MAX):
            if len({self(value, digits) for value in values}) == len(set(values)):
                return digits
        return DIGITS_MAX

    def range(self, *values: float) -> str:
        """*values*, all in the unit of the largest: `299 to 849 ms`."""
        factor, name = self.unit(max(values, key=abs), DIGITS)
        return f"{' to '.join(format_number(value / factor, DIGITS) for value in values)} {name}".rstrip()

    def unit(self, value: float, digits: int = DIGITS) -> tuple[float, str]:
        """Factor and name of the unit that *value* is written in."""
        least = 1 - 0.5 * 10.0**-digits  # what is rounded up to a unit has it
        found = (each for each in reversed(self.units) if abs(value) >= each[0] * least)
        return next(found, self.units[0])


def format_number(value: float, digits: int = DIGITS) -> str:
    """*value* to *digits* significant digits; whole numbers of more in full, in groups of three."""
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    return f"{value:,.0f}" if abs(value) >= 1 else format(Decimal(text), "f")


format_time: Final = Scale(((1, "ns"), (1e3, "\u00b5s"), (1e6, "ms"), (1e9, "s")))
"""A time in ns: `31.5 ms`."""

format_times: Final = format_time.range
"""Times with the unit of the longest: `299 to 849 ms`."""

format_rate: Final = Scale(((1, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s")))
"""A rate in bit/s: `77.1 Mbit/s`."""

format_size: Final = Scale(((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"), (2**40, "TiB")))
"""An amount of data in bytes: `64 KiB`."""

format_count: Final = Scale(((1, ""),))
"""A count: `7,104`."""

format_frequency: Final = Scale(((1, "/s"), (1e3, "k/s"), (1e6, "M/s")))
"""A count per second: `12.3 k/s`."""

format_share: Final = Scale(((0.01, "%"),))
"""A part of a whole: `97.3 %`."""


def format_alike(*times_ns: float) -> list[str]:
    """Each of some times, all with the unit of the longest: `0.9 s`, `1.23 s`."""
    factor, name = format_time.unit(max(times_ns))
    return [f"{format_number(time_ns / factor, DIGITS)} {name}" for time_ns in times_ns]
