"""Follows the event log of a lab's faults: windows for plots, lines for people. Live, read-only."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HIDDEN_FILE: Final = "hidden.jsonl"
"""Beside the log: the events of faults that people are to find, until they are revealed."""

_APPLIED: Final = "fault-applied"
_CLEARED: Final = "fault-cleared"
_PLACES_SHOWN: Final = 2


@dataclass(slots=True)
class FaultWindow:
    fault_id: str  # its name
    kind: str  # its kind
    start_ns: int  # CLOCK_MONOTONIC
    end_ns: int | None = None  # None while it acts
    links: tuple[str, ...] = ()  # names of those concerned
    nodes: tuple[str, ...] = ()  # names of those it was selected by, if it was


@dataclass(frozen=True, slots=True)
class FaultLine:
    time_ns: int  # CLOCK_MONOTONIC
    text: str  # what happened


class FaultLog:
    """The log, read from where the last reading ended.

    Args:
        path: events.jsonl of the lab's ledger; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self.windows: list[FaultWindow] = []  # oldest first

    def new_lines(self) -> list[FaultLine]:
        """Lines added since the last call; the first one returns all."""
        try:
            with self._path.open("rb") as stream:
                if stream.seek(0, os.SEEK_END) < self._read_bytes:
                    self._read_bytes = 0  # another lab of the same name
                    self.windows.clear()
                stream.seek(self._read_bytes)
                added = stream.read()
        except FileNotFoundError:
            return []
        complete = added[: added.rfind(b"\n") + 1]
        self._read_bytes += len(complete)
        lines = []
        for text in complete.splitlines():
            try:
                event = json.loads(text)
                lines.append(self._note(event))
            except (ValueError, KeyError, TypeError):
                continue  # a line that a full disk cut short
        return lines

    def forget_before(self, time_ns: int) -> None:
        self.windows = [each for each in self.windows if each.end_ns is None or each.end_ns >= time_ns]

    def _note(self, event: dict[str, Any]) -> FaultLine:
        time_ns, fault_id, kind = int(event["time_ns"]), str(event["fault_id"]), str(event["kind"])
        if event["event"] == _APPLIED:
            links, nodes = (tuple(map(str, event.get(key) or ())) for key in ("links", "nodes"))
            self.windows.append(FaultWindow(fault_id, kind, time_ns, links=links, nodes=nodes))
        elif event["event"] == _CLEARED:
            for window in self.windows:
                if window.fault_id == fault_id and window.end_ns is None:
                    window.end_ns = time_ns
        places = [str(place) for place in event.get("nodes") or event["links"]]
        more = f" and {len(places) - _PLACES_SHOWN} more" if len(places) > _PLACES_SHOWN else ""
        verb = "begins" if event["event"] == _APPLIED else "ends"
        return FaultLine(
            time_ns, f"fault {fault_id} ({kind}) {verb}: {', '.join(places[:_PLACES_SHOWN])}{more}"
        )
