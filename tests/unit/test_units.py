"""Quantities as text: exact both ways, and never without a unit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from mrc_testbed.document.fields import Duration, Rate, Ratio, Size
from mrc_testbed.errors import UsageError
from mrc_testbed.units import (
    VALUE_MAX,
    format_duration_ns,
    format_like,
    format_rate_bps,
    format_ratio,
    format_size_bytes,
    parse_duration_ns,
    parse_rate_bps,
    parse_ratio,
    parse_size_bytes,
)

quantities = st.integers(0, VALUE_MAX)


class Quantities(BaseModel):
    """A model as the specs declare theirs."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rate: Rate | None = None
    duration: Duration = 0
    size: Size = 0
    ratio: Ratio = 0.0


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [("1bit", 1), ("1kbit", 1000), ("100Mbit", 10**8), ("1.5Gbit", 1_500_000_000), ("100 Mbit", 10**8)],
)
def test_rate_is_read_in_bits_per_second(text: str, rate_bps: int) -> None:
    assert parse_rate_bps(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("0s", 0),
        ("1ns", 1),
        ("12us", 12_000),
        ("200ms", 200_000_000),
        ("0.5us", 500),
        ("8s", 8 * 10**9),
        ("5m", 300 * 10**9),
        ("1.5h", 5400 * 10**9),
    ],
)
def test_duration_is_read_in_nanoseconds(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64B", 64),
        ("4KiB", 4096),
        ("4MiB", 2**22),
        ("1GiB", 2**30),
        ("64KB", 64_000),
        ("1.5MB", 1_500_000),
        ("2GB", 2 * 10**9),
    ],
)
def test_size_is_read_in_bytes(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("0%", 0.0), ("5%", 0.05), ("0.1%", 0.001), ("100%", 1.0), ("150 %", 1.5), ("7%", 0.07)],
)
def test_ratio_is_read_as_a_fraction(text: str, ratio: float) -> None:
    assert parse_ratio(text) == ratio


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("100", "'100' is not a rate: it has no unit; write it like 100Mbit (units: bit, kbit, Mbit, Gbit)"),
        ("fast", "'fast' is not a rate: it does not start with a plain number; write it like 100Mbit"),
        ("-1Mbit", "'-1Mbit' is not a rate: it does not start with a plain number"),
        ("1e3bit", "'1e3bit' is not a rate: unknown unit 'e3bit', did you mean bit?"),
        ("100mbit", "'100mbit' is not a rate: unknown unit 'mbit', did you mean Mbit?"),
        ("100Mbit/s", "'100Mbit/s' is not a rate: unknown unit 'Mbit/s', did you mean Mbit?"),
        ("0.5bit", "'0.5bit' is not a rate: it is finer than 1 bit"),
        ("999999999999999Gbit", "'999999999999999Gbit' is not a rate: it is too large"),
        ("", "'' is not a rate: it does not start with a plain number"),
        ("1Mbit\n", "unknown unit 'Mbit\\n', did you mean Mbit?"),
        ("1Tbit", "unknown unit 'Tbit', did you mean 1000Gbit?"),
        ("40Mbps", "unknown unit 'Mbps', did you mean Mbit?"),
        ("40M", "unknown unit 'M', did you mean Mbit?"),
        ("٣Mbit", "it does not start with a plain number"),
    ],
)
def test_wrong_rate_is_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rate_bps(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "'5' is not a duration: it has no unit; write it like 200ms (units: ns, us, ms, s, m, h)"),
        ("5mss", "unknown unit 'mss', did you mean ms?"),
        ("1\N{MICRO SIGN}s", "unknown unit '\N{MICRO SIGN}s', did you mean us?"),
        ("5M", "unknown unit 'M', did you mean m?"),
        ("0.5ns", "it is finer than 1 ns"),
    ],
)
def test_wrong_duration_is_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration_ns(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["0.05", "5", "%", "-5%", "5%%", "five%", "5 percent"])
def test_ratio_without_percent_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a ratio: write it in percent, like 5%"):
        parse_ratio(text)


@given(quantities)
def test_formatting_and_parsing_are_inverse(value: int) -> None:
    assert parse_duration_ns(format_duration_ns(value)) == value
    assert parse_rate_bps(format_rate_bps(value)) == value
    assert parse_size_bytes(format_size_bytes(value)) == value


@given(st.floats(0, 100, allow_subnormal=False).filter(lambda ratio: ratio == 0 or ratio > 1e-6))
def test_ratio_survives_as_text_to_the_digits_written(ratio: float) -> None:
    shown = round(ratio, 9)
    assert parse_ratio(format_ratio(shown)) == shown


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (format_duration_ns(2_670_123), "2670.123us"),
        (format_duration_ns(90 * 10**9), "90s"),
        (format_duration_ns(7200 * 10**9), "2h"),
        (format_duration_ns(0), "0ns"),
        (format_duration_ns(-1500), "-1.5us"),
        (format_rate_bps(50_000_000), "50Mbit"),
        (format_size_bytes(1536), "1.5KiB"),
        (format_size_bytes(2000), "2000B"),
        (format_ratio(0.07), "7%"),
        (format_ratio(1e-7), "0.00001%"),
    ],
)
def test_quantity_is_shown_in_its_largest_fitting_unit(shown: str, text: str) -> None:
    assert shown == text


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("5%", 0.5, "50%"),
        ("100ms", 10**9, "1s"),
        ("1 Mbit", 10**9, "1Gbit"),
        ("64KB", 2048, "2KiB"),
        ("17", 16, "16"),
        ("h3", 16, "16"),
    ],
)
def test_limit_is_shown_as_the_kind_of_quantity_that_was_written(text: str, value: float, shown: str) -> None:
    assert format_like(text, value) == shown


def test_model_takes_text_from_a_file_and_numbers_from_code() -> None:
    text = {"rate": "100Mbit", "duration": "200ms", "size": "4MiB", "ratio": "5%"}
    from_file = Quantities.model_validate_json(json.dumps(text))
    assert from_file == Quantities(rate=10**8, duration=200_000_000, size=2**22, ratio=0.05)
    assert from_file.model_dump() == text


@given(
    st.builds(Quantities, rate=st.none() | st.integers(1, VALUE_MAX), duration=quantities, size=quantities)
)
def test_model_survives_json(model: Quantities) -> None:
    assert Quantities.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize(
    "text",
    ['{"rate": 100}', '{"rate": "100"}', '{"rate": "0bit"}', '{"duration": 0}', '{"duration": true}',
     '{"size": null}', '{"ratio": 0.05}', '{"ratio": "101%"}', '{"rate": ["1bit"]}'],
)  # fmt: skip
def test_model_refuses_a_file_without_units_or_out_of_range(text: str) -> None:
    with pytest.raises(ValidationError):
        Quantities.model_validate_json(text)


@pytest.mark.parametrize(
    "values", [{"rate": 0}, {"rate": -5}, {"duration": -1}, {"ratio": 1.5}, {"size": 1.5}]
)
def test_model_refuses_numbers_out_of_range_from_code_too(values: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Quantities.model_validate(values)


def test_json_schema_gives_editors_a_pattern() -> None:
    properties = Quantities.model_json_schema()["properties"]
    assert properties["duration"]["type"] == "string"
    assert properties["duration"]["pattern"] == r"^[0-9]{1,19}(?:\.[0-9]{1,20})? ?(ns|us|ms|s|m|h)$"


@pytest.mark.parametrize("ratio", [1 / 3, 2 / 7, 0.1 + 0.2])
def test_any_ratio_written_exactly_reads_back(ratio: float) -> None:
    assert parse_ratio(format_ratio(ratio)) == ratio
