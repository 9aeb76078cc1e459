"""Somebody sets the date in mid-run: dates follow it, what was measured does not, and it is notified."""

import html
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scenario_text import FLAP
from virtual_trial import Trial

from mrc_testbed.observe.run_windows import read_run_windows
from mrc_testbed.scenario.execution import FinishedRun

MEASURED = ("plan.json", "events.jsonl", "series.csv", "flows.csv")
DATED = ("run", "started_utc", "ended_utc", "time_zero_utc", "clock_step_ns")
STEPS = [timedelta(hours=-2), timedelta(days=400)]


def run(runs: Path, said: list[str], set_by: timedelta = timedelta()) -> FinishedRun:
    trial = Trial(FLAP)
    trial.clock.set_at_ns, trial.clock.set_by = 3_000_000_000, set_by
    return trial.execute(runs, said.append)


def manifest(finished: FinishedRun) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((finished.folder / "manifest.json").read_text())
    return content


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRun]:
    said: list[str] = []
    yield run(tmp_path_factory.mktemp("undisturbed"), said)
    assert not [line for line in said if "clock" in line]


@pytest.mark.parametrize("set_by", STEPS, ids=["back", "forward"])
def test_a_date_that_is_set_changes_nothing_but_dates(
    tmp_path: Path, undisturbed: FinishedRun, set_by: timedelta
) -> None:
    said: list[str] = []
    stepped = run(tmp_path / "stepped", said, set_by)
    for name in MEASURED:
        assert (stepped.folder / name).read_bytes() == (undisturbed.folder / name).read_bytes(), name
    before, after = manifest(undisturbed), manifest(stepped)
    assert {key: value for key, value in after.items() if key not in DATED} == {
        key: value for key, value in before.items() if key not in DATED
    }
    assert after["started_utc"] == before["started_utc"]
    assert _utc(after["ended_utc"]) - _utc(before["ended_utc"]) == set_by
    assert _utc(after["time_zero_utc"]) - _utc(before["time_zero_utc"]) == set_by
    assert before["clock_step_ns"] == 0
    assert after["clock_step_ns"] == pytest.approx(set_by.total_seconds() * 10**9, rel=1e-9)


@pytest.mark.parametrize("set_by", STEPS, ids=["back", "forward"])
def test_a_date_that_is_set_is_reported(tmp_path: Path, undisturbed: FinishedRun, set_by: timedelta) -> None:
    said: list[str] = []
    stepped = run(tmp_path / "stepped", said, set_by)
    way = "back by 2:00:00" if set_by < timedelta() else "forward by 400 days, 0:00:00"
    (reported,) = [line for line in said if "clock" in line]
    assert reported.startswith(f"the machine's clock was set {way} during the run: ")
    assert reported in (stepped.folder / "summary.md").read_text()
    assert reported in html.unescape((stepped.folder / "report.html").read_text())
    for name in ("summary.md", "report.html"):
        assert "clock was set" not in (undisturbed.folder / name).read_text()


@pytest.mark.parametrize("set_by", STEPS, ids=["back", "forward"])
def test_a_junit_file_says_how_long_the_run_took_whatever_the_date(
    tmp_path: Path, undisturbed: FinishedRun, set_by: timedelta
) -> None:
    stepped = run(tmp_path / "stepped", [], set_by)
    seconds = [_suite(finished).get("time") for finished in (undisturbed, stepped)]
    assert seconds[0] == seconds[1]
    assert float(seconds[0] or 0) == pytest.approx(manifest(stepped)["duration_ns"] / 1e9, abs=0.001)


def test_windows_for_grafana_are_by_the_clock_at_the_end(tmp_path: Path, undisturbed: FinishedRun) -> None:
    stepped = run(tmp_path / "stepped", [], STEPS[0])
    usual, moved = (read_run_windows(finished.folder).windows for finished in (undisturbed, stepped))
    assert usual
    step_ms = STEPS[0].total_seconds() * 1000
    assert [(window.start_ms, window.end_ms) for window in moved] == [
        (window.start_ms + step_ms, window.end_ms + step_ms) for window in usual
    ]


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _suite(finished: FinishedRun) -> ET.Element:
    suite = ET.parse(finished.folder / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own file
    assert suite is not None
    return suite
