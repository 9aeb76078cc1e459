"""What the fault ledger of a lab tells to metrics: faults active now, faults and outages so far. Live,
read-only.

The ledger is the one that testbed.faults keeps: `active/*.json` and `events.jsonl`.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

_BEGINS: Final = "fault-applied"
OUTAGE_KINDS: Final = frozenset({"link-down", "link-flap", "nic-port-down"})
"""Kinds of fault that take a link down, rather than impair it."""


class ActiveFault(NamedTuple):
    """A fault that is injected now."""

    fault_id: str
    kind: str


@dataclass(slots=True)
class FaultTotals:
    """Counts since the lab was made.

    Attributes:
        injected: by kind of fault.
        outages: by name of the link that went down.
    """

    injected: Counter[str] = field(default_factory=Counter)
    outages: Counter[str] = field(default_factory=Counter)


class FaultRecord:
    """The ledger of one lab; the event log is read from where the last reading ended.

    Args:
        folder: the `faults` folder in the lab's state folder; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._active_folder = folder / "active"
        self._events_path = folder / "events.jsonl"
        self._read_bytes = 0
        self._totals = FaultTotals()

    def active(self) -> list[ActiveFault]:
        """The faults of now by id; an entry that is written this very moment may be missing."""
        found = []
        for path in sorted(self._active_folder.glob("*.json")):
            try:
                fault = json.loads(path.read_text(encoding="utf-8"))["fault"]
                found.append(ActiveFault(str(fault["fault_id"]), str(fault["kind"])))
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue  # cleared since the listing, or damaged: `mrc-testbed fault list` says so
        return found

    def totals(self) -> FaultTotals:
        """Counts up to now."""
        try:
            with self._events_path.open("rb") as stream:
                stream.seek(self._read_bytes)
                news = stream.read()
        except FileNotFoundError:
            return self._totals
        complete = news[: news.rfind(b"\n") + 1]
        self._read_bytes += len(complete)
        for line in complete.splitlines():
            self._count(line)
        return self._totals

    def _count(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            if event["event"] != _BEGINS:
                return
            kind, links = str(event["kind"]), [str(link) for link in event["links"]]
        except (ValueError, KeyError, TypeError):
            return  # a line that a full disk cut short
        self._totals.injected[kind] += 1
        if kind in OUTAGE_KINDS:
            self._totals.outages.update(links)
