"""The base of models, and types of their fields for quantities.

In a file they take only text with a unit; in Python they take the number itself, in the base unit of
mrc_testbed.units.
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from mrc_testbed.errors import UsageError
from mrc_testbed.units import (
    DURATION,
    NUMBER,
    RATE,
    SIZE,
    VALUE_MAX,
    format_duration_ns,
    format_factor,
    format_rate_bps,
    format_ratio,
    format_size_bytes,
    parse_duration_ns,
    parse_factor,
    parse_rate_bps,
    parse_ratio,
    parse_size_bytes,
)


class StrictModel(BaseModel):
    """A part of a file: no keys but these, and no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def _from_file(parse: Callable[[str], float], example: str) -> BeforeValidator:
    """Validator that parses text, and lets a number through only where no file is involved."""

    def read(value: object, info: ValidationInfo) -> object:
        if isinstance(value, str):
            return parse(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and info.mode == "python":
            return value
        if is_number:
            return parse(str(value))
        raise UsageError(f"expected text with a unit such as {example}")

    return BeforeValidator(read)


def _above_zero(rate_bps: int) -> int:
    if rate_bps <= 0:
        raise UsageError(f"{format_rate_bps(rate_bps)} is no rate: it must be above zero")
    return rate_bps


def _not_negative(value: int) -> int:
    """A validator, not `ge`, which would take the place of a field's own `ge`."""
    if value < 0:
        raise UsageError("must not be negative")
    return value


def _within_one(ratio: float) -> float:
    if not 0.0 <= ratio <= 1.0:
        raise UsageError(f"{format_ratio(ratio)} is out of range: 0% to 100% is accepted")
    return ratio


def _schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


Rate = Annotated[
    int,
    Field(le=VALUE_MAX),
    AfterValidator(_above_zero),
    _from_file(parse_rate_bps, "100Mbit"),
    PlainSerializer(format_rate_bps, return_type=str),
    _schema(RATE.pattern(), "100Mbit"),
]
"""Model field: a rate above zero, in bit/s."""

Duration = Annotated[
    int,
    Field(le=VALUE_MAX),
    AfterValidator(_not_negative),
    _from_file(parse_duration_ns, "200ms"),
    PlainSerializer(format_duration_ns, return_type=str),
    _schema(DURATION.pattern(), "200ms"),
]
"""Model field: a time of zero or more, in ns."""

Size = Annotated[
    int,
    Field(le=VALUE_MAX),
    AfterValidator(_not_negative),
    _from_file(parse_size_bytes, "4MiB"),
    PlainSerializer(format_size_bytes, return_type=str),
    _schema(SIZE.pattern(), "4MiB"),
]
"""Model field: a size of zero or more, in bytes."""

Factor = Annotated[
    float,
    _from_file(parse_factor, "x0.01"),
    PlainSerializer(format_factor, return_type=str),
    _schema(f"^x{NUMBER}$", "x0.01"),
]
"""Model field: a factor of zero or more, written behind an x."""

Multiple = Annotated[
    float,
    _from_file(parse_ratio, "5%"),
    PlainSerializer(format_ratio, return_type=str),
    _schema(f"^{NUMBER} ?%$", "5%"),
]
"""Model field: a fraction of zero or more, written in percent, also above 100%."""

Ratio = Annotated[Multiple, AfterValidator(_within_one)]
"""Model field: a fraction from 0 to 1, written 0% to 100%."""
