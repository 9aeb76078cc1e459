"""The linter of quantities finds other names and units, and ranges with two units."""

import pytest

from tests.prose.quantities import quantities


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("| time to\navoid |", []),
        ("times to avoid", ["times to avoid"]),
        ("Detect, avoid and restore", ["Detect, avoid"]),
        ("`detect`, `avoid` and `restore`", []),
        ("packets dropped by faults", ["packets dropped by faults"]),
        ("frames dropped by faults", []),
        ("busbw 0.005 GB/s of 40 Mb/s", ["GB/s", "Mb/s"]),
        ("40 Mbit/s, algbw (GB/s), BW average[Gb/sec]", []),
    ],
)
def test_other_names_and_units_are_found(text: str, found: list[str]) -> None:
    assert [finding.word for finding in quantities("a.md", text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("24 \N{MICRO SIGN}s to 15.1 ms", ["24 \N{MICRO SIGN}s to 15.1 ms"]),
        ("from 299 ms to\n849 ms", ["299 ms to 849 ms"]),
        ("10 Mbit/s to 1 Gbit/s", ["10 Mbit/s to 1 Gbit/s"]),
        ("299 to 849 ms, 64 KiB to 4 MiB", []),
        ("| pass | goodput", ["pass"]),
        ("FAILED; packets pass-through; held", []),
    ],
)
def test_what_is_shown_has_ranges_of_one_unit_and_one_word_for_an_outcome(
    text: str, found: list[str]
) -> None:
    assert [finding.word for finding in quantities("a.md", text, is_shown=True)] == found
    assert list(quantities("a.md", text)) == []
