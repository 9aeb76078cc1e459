"""Measured values as text: three digits, a space, a unit; in Python and in the browser's scripts alike."""

import pytest

from mrc_testbed.shown import (
    format_alike,
    format_count,
    format_frequency,
    format_rate,
    format_share,
    format_size,
    format_time,
    format_times,
)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (format_rate(77_123_456), "77.1 Mbit/s"),
        (format_rate(3.912e9), "3.91 Gbit/s"),
        (format_rate(0), "0"),
        (format_time(31_200), "31.2 \u00b5s"),
        (format_time(999_960), "1 ms"),
        (format_time(0.4), "0.4 ns"),
        (format_time(7_200e9), "7,200 s"),
        (format_size(65536), "64 KiB"),
        (format_size(1023.9), "1 KiB"),
        (format_size(1010 * 1024), "1,010 KiB"),
        (format_frequency(12_345), "12.3 k/s"),
        (format_frequency(0), "0"),
        (format_count(7104), "7,104"),
        (format_count(2.345), "2.35"),
        (format_share(0.97345), "97.3 %"),
        (format_share(1e-9), "0.0000001 %"),
        (format_rate(-1500), "-1.5 kbit/s"),
        (format_rate(77_123_456, 12), "77.123456 Mbit/s"),
        (format_times(299e6, 849e6), "299 to 849 ms"),
        (format_times(900e6, 1.23456e9), "0.9 to 1.23 s"),
        (format_times(740), "740 ns"),
        (" | ".join(format_alike(900e6, 1.23456e9)), "0.9 s | 1.23 s"),
    ],
)
def test_a_value_has_three_digits_and_a_unit(shown: str, text: str) -> None:
    assert shown == text
