"""The known capacity of a machine, and its warnings."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrc_testbed.errors import FabricError
from mrc_testbed.metrics.capacity import (
    ASSUMED_FRAME_HOPS_PER_S,
    ASSUMED_MOST_FRAME_HOPS_PER_S,
    Capacity,
    calibration_file,
    keep_capacity,
    known_capacity,
    overload_refusal,
    overload_warning,
    this_machine,
)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_TESTBED_CACHE_DIR", str(tmp_path / "cache"))


def capacity() -> Capacity:
    return Capacity(this_machine(), "2026-11-21T19:00:00+00:00", 1_000_000.0, 1_400_000.0, 500_000.0)


def test_what_was_measured_is_known_later() -> None:
    assert known_capacity() is None
    assert keep_capacity(capacity()) == calibration_file()
    assert known_capacity() == capacity()


@pytest.mark.parametrize(
    ("other", "reported"),
    [
        ({"cpu": "Abacus"}, "with cpu Abacus, and here it is"),
        ({"cpu_count": 999}, "with cpu_count 999, and here it is"),
        ({"kernel": "5.15.0"}, "with kernel 5.15.0, and here it is"),
        ({"mrc_testbed": "0.0.1"}, "with mrc_testbed 0.0.1, and here it is"),
    ],
)
def test_a_measurement_of_another_machine_or_version_does_not_count(
    other: dict[str, Any], reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    keep_capacity(replace(capacity(), machine=replace(this_machine(), **other)))
    assert known_capacity() is None
    assert reported in caplog.text
    assert "doctor --calibrate recalibrates" in caplog.text


def test_a_file_of_another_format_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    kept = json.loads(keep_capacity(capacity()).read_text())
    before_formats = {name: value for name, value in kept.items() if name != "format"}
    for document, number in ((before_formats, 1), (kept | {"format": kept["format"] + 1}, 3)):
        calibration_file().write_text(json.dumps(document))
        assert known_capacity() is None
        assert f"its format is {number}, and 2 is read here" in caplog.text
    calibration_file().write_text(json.dumps(kept))
    assert known_capacity() == capacity()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "2"}', '{"format": 2, "machine": 3}'])
def test_a_broken_file_is_passed_over_and_named(text: str, caplog: pytest.LogCaptureFixture) -> None:
    keep_capacity(capacity()).write_text(text)
    assert known_capacity() is None
    assert f"{calibration_file()} is passed over: it" in caplog.text
    assert "doctor --calibrate recalibrates" in caplog.text


def test_a_file_that_cannot_be_read_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    calibration_file().mkdir(parents=True)
    assert known_capacity() is None
    assert "Is a directory" in caplog.text


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MRC_TESTBED_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(FabricError, match="cannot be written"):
        keep_capacity(capacity())


def test_only_what_is_too_much_is_warned_of() -> None:
    assert overload_warning(ASSUMED_FRAME_HOPS_PER_S, "it", None) is None
    text = overload_warning(2 * ASSUMED_FRAME_HOPS_PER_S, "it", None)
    assert text is not None
    assert text.startswith("it can need 1.20 M frame hops/s; this machine carries about 600 k (assumed;")
    assert "Beyond 50% of that load" in text
    assert overload_warning(1_000_000, "it", capacity()) is None
    text = overload_warning(1_000_001, "it", capacity())
    assert text is not None
    assert "measured 2026-11-21" in text


def test_only_what_is_beyond_the_ceiling_is_refused() -> None:
    assert overload_refusal(ASSUMED_MOST_FRAME_HOPS_PER_S, "it", None) is None
    assert overload_refusal(2 * ASSUMED_MOST_FRAME_HOPS_PER_S, "it", None) == (
        "it can need 4.00 M frame hops/s, and this machine carries 2.00 M at most"
        " (assumed; doctor --calibrate measures it)"
    )
    assert overload_refusal(1_400_000, "it", capacity()) is None
    text = overload_refusal(1_400_001, "it", capacity())
    assert text is not None
    assert text.endswith("carries 1.40 M at most (measured 2026-11-21)")
    assert overload_refusal(2_800_000, "it", capacity(), ease=2) is None
