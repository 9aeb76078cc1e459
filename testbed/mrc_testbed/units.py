"""Times, rates, sizes and ratios as people write them: a number and a unit, never a bare number.

    rate      100Mbit   1.5Gbit            int, bit/s        bit kbit Mbit Gbit (powers of 1000)
    duration  200ms     2s     5m          int, nanoseconds  ns us ms s m h
    size      4MiB      64KB   100B        int, bytes        B KiB MiB GiB (1024) KB MB GB (1000)
    ratio     5%        0.1%               float, 0 to 1

`parse_*` and `format_*` are exact inverses. mrc_testbed.document.fields has the types of model fields,
mrc_testbed.shown writes what was measured.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from mrc_testbed.errors import UsageError, closest_name

VALUE_MAX: Final = 2**63 - 1
"""Largest value of any quantity: it must fit the signed 64-bit fields of the data plane."""

NUMBER: Final = r"[0-9]{1,19}(?:\.[0-9]{1,20})?"
_QUANTITY: Final = re.compile(rf"({NUMBER}) ?(.*)", re.DOTALL)


_MEANT: Final = {
    **{f"{prefix}bps": f"{prefix}bit" for prefix in ("", "k", "M", "G")},
    **dict.fromkeys(("Tbit", "Tbps"), "1000Gbit"),
    "k": "kbit",
    "M": "Mbit",
    "G": "Gbit",
    "TiB": "1024GiB",
    "TB": "1000GB",
    **dict.fromkeys(("\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", "usec"), "us"),
    "msec": "ms",
    "sec": "s",
    "min": "m",
}
"""Units of others, and ours for them."""


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one quantity, smallest first, as multiples of its base unit."""

    quantity: str
    example: str
    base_unit: str
    units: dict[str, int]
    shown: tuple[str, ...]
    """Units used when formatting; those in `whole` only without a fraction, because nobody writes 1.1m."""
    whole: tuple[str, ...] = ()

    def pattern(self) -> str:
        """Regular expression that accepts what `parse` accepts, for JSON Schema."""
        return f"^{NUMBER} ?({'|'.join(self.units)})$"

    def refusal(self, text: object, why: str) -> UsageError:
        return UsageError(
            f"{text!r} is not a {self.quantity}: {why}; write it like {self.example} "
            f"(units: {', '.join(self.units)})"
        )

    def parse(self, text: str) -> int:
        """The value of *text* in the base unit; raises UsageError."""
        match = _QUANTITY.fullmatch(text)
        if match is None:
            raise self.refusal(text, "it does not start with a plain number")
        number, unit = match.groups()
        if not unit:
            raise self.refusal(text, "it has no unit")
        if unit not in self.units:
            meant = _MEANT.get(unit, "")
            closest = meant if meant.lstrip("0123456789") in self.units else closest_name(unit, self.units)
            suggestion = "" if closest is None else f", did you mean {closest}?"
            raise self.refusal(text, f"unknown unit {unit!r}{suggestion}")
        value = Decimal(number) * self.units[unit]
        if value != int(value):
            raise self.refusal(text, f"it is finer than 1 {self.base_unit}")
        if value > VALUE_MAX:
            raise self.refusal(text, "it is too large")
        return int(value)

    def format(self, value: int) -> str:
        """*value*, exactly, in its largest fitting unit."""
        if value < 0:
            return "-" + self.format(-value)
        for unit in reversed(self.shown):
            exact = Decimal(value) / self.units[unit]
            shown = round(exact, 3)
            is_fraction = unit in self.whole and shown != int(shown)
            if shown >= 1 and shown == exact and not is_fraction:
                return _plain(shown) + unit
        return f"{value}{self.base_unit}"


def _plain(value: Decimal) -> str:
    """Decimal digits without an exponent and without trailing zeros after the point."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


RATE: Final = Units(
    "rate",
    "100Mbit",
    "bit",
    {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9},
    ("bit", "kbit", "Mbit", "Gbit"),
)
DURATION: Final = Units(
    "duration",
    "200ms",
    "ns",
    {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9},
    ("ns", "us", "ms", "s", "m", "h"),
    whole=("m", "h"),
)
SIZE: Final = Units(
    "size",
    "4MiB",
    "B",
    {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30},
    ("B", "KiB", "MiB", "GiB"),
)
_RATIO_TEXT: Final = re.compile(rf"({NUMBER}) ?%")


def parse_rate_bps(text: str) -> int:
    """Bits per second of *text* such as `100Mbit`."""
    return RATE.parse(text)


def parse_duration_ns(text: str) -> int:
    """Nanoseconds of *text* such as `200ms`."""
    return DURATION.parse(text)


def parse_size_bytes(text: str) -> int:
    """Bytes of *text* such as `4MiB`."""
    return SIZE.parse(text)


def parse_ratio(text: str) -> float:
    """Fraction of one of *text* such as `5%`; above 1 for more than 100%.

    Raises:
        UsageError: not a number followed by a percent sign.
    """
    match = _RATIO_TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a ratio: write it in percent, like 5% or 0.1%")
    return float(Decimal(match.group(1)) / 100)


def parse_factor(text: str) -> float:
    """Factor of *text* such as `x0.01`.

    Raises:
        UsageError: not an x and a number.
    """
    if not re.fullmatch(f"x{NUMBER}", text):
        raise UsageError(f"{text!r} is not a factor: write it behind an x, like x2 or x0.01")
    return float(text[1:])


def format_factor(factor: float) -> str:
    """*factor* behind an x, exactly."""
    return f"x{_plain(Decimal(repr(factor)))}"


def format_rate_bps(rate_bps: int) -> str:
    """*rate_bps*, exactly, in its largest fitting unit."""
    return RATE.format(rate_bps)


def format_duration_ns(duration_ns: int) -> str:
    """*duration_ns*, exactly, in its largest fitting unit."""
    return DURATION.format(duration_ns)


def format_size_bytes(size_bytes: int) -> str:
    """*size_bytes*, exactly, in its largest fitting unit."""
    return SIZE.format(size_bytes)


def format_ratio(ratio: float) -> str:
    """*ratio* in percent, exactly."""
    return _plain(Decimal(repr(ratio)) * 100) + "%"


def format_like(text: str, value: float) -> str:
    """*value*, in base units, written as the kind of quantity that *text* is; plain when it is none."""
    unit = text.lstrip("0123456789. ")
    if unit == "%":
        return format_ratio(float(value))
    for scale in (RATE, DURATION, SIZE):
        if unit in scale.units:
            return scale.format(int(value))
    return str(value)
