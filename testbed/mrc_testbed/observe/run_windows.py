"""The fault windows of a finished run, read from its result folder, as annotations: exact, unlike scrapes."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError

_APPLIED: Final = "fault-applied"
_CLEARED: Final = "fault-cleared"
_NS_PER_MS: Final = 1_000_000


class FaultAnnotation(NamedTuple):
    """A time in which a fault acted: UTC in ms, its id, and what is said about it."""

    start_ms: int
    end_ms: int
    fault_id: str
    text: str


class RunWindows(NamedTuple):
    """The run's id, and the times in which its faults acted."""

    run: str
    windows: tuple[FaultAnnotation, ...]


def read_run_windows(folder: Path) -> RunWindows:
    """The faults in *folder*, the result folder of a run."""
    try:
        manifest = json.loads(read_result(folder / "manifest.json"))
        lines = read_result(folder / "events.jsonl").decode().splitlines()
        zero_utc, run = manifest.get("time_zero_utc"), str(manifest["run"])
        end_ns = int(manifest.get("end_ns") or 0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            f"{folder} is not the result folder of a run: {error}",
            hint="give one like runs/t0-t1-flap/latest",
        ) from error
    if zero_utc is None:
        raise UsageError(
            f"the run in {folder} has no time axis: its warm-up did not end, or an older version made it",
            hint="run the scenario again",
        )
    zero_ms = datetime.fromisoformat(zero_utc).timestamp() * 1000
    events = [json.loads(line) for line in lines]
    return RunWindows(run, tuple(_windows(events, zero_ms, end_ns, str(manifest["scenario"]))))


def _windows(
    events: list[dict[str, Any]], zero_ms: float, end_ns: int, scenario: str
) -> Iterator[FaultAnnotation]:
    cleared = {(event["fault"], event["occurrence"]): event for event in events if event["event"] == _CLEARED}
    for event in events:
        if event["event"] != _APPLIED:
            continue
        end = cleared.get((event["fault"], event["occurrence"]))
        until_ns = end_ns if end is None else int(end["time_ns"])
        lost = "" if end is None else f", {end['lost_packets']} packets lost"
        yield FaultAnnotation(
            start_ms=round(zero_ms + event["time_ns"] / _NS_PER_MS),
            end_ms=round(zero_ms + until_ns / _NS_PER_MS),
            fault_id=str(event["fault"]),
            text=f"{scenario}: {event['fault']} ({event['kind']}) on {', '.join(event['links'])}{lost}",
        )
