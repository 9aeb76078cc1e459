"""Fault windows of a run, as annotations."""

import json
from pathlib import Path

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.observe.run_windows import read_run_windows

ZERO_MS = 1_780_000_000_500


def event(name: str, time_ns: int, occurrence: int, **more: object) -> dict[str, object]:
    fault = {"fault": "flap1", "kind": "link-flap", "links": ["h0:0", "h1:0"], "occurrence": occurrence}
    return {"event": name, "time_ns": time_ns, **fault, **more}


def write_run(folder: Path, zero_utc: str | None, *events: dict[str, object]) -> Path:
    manifest = {"run": "r1", "scenario": "flap", "end_ns": 9_000_000_000, "time_zero_utc": zero_utc}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "events.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    return folder


def test_each_outage_is_a_window_and_one_without_end_lasts_as_long_as_the_run(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        "2026-05-28T20:26:40.500000+00:00",
        {"event": "warmup-ended", "time_ns": 0},
        event("fault-applied", 1_000_000_000, 0),
        event("fault-cleared", 1_300_000_000, 0, lost_packets=7),
        event("fault-applied", 2_000_000_000, 1),
    )
    found = read_run_windows(run)
    assert found.run == "r1"
    first, second = found.windows
    assert (first.start_ms, first.end_ms) == (ZERO_MS + 1_000, ZERO_MS + 1_300)
    assert first.text == "flap: flap1 (link-flap) on h0:0, h1:0, 7 packets lost"
    assert (second.start_ms, second.end_ms) == (ZERO_MS + 2_000, ZERO_MS + 9_000)
    assert second.text.endswith("h1:0")


def test_a_run_without_a_time_axis_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no time axis"):
        read_run_windows(write_run(tmp_path, None))


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the result folder of a run"):
        read_run_windows(tmp_path)
