"""Metrics of a lab's fault ledger: faults active now, faults and outages so far. Live, read-only.

The ledger is the one that mrc_testbed.faults keeps: `active/*.json` and `events.jsonl`; no hidden faults.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from mrc_testbed.fabric.port_fault import outage_start_ns
from mrc_testbed.metrics.run_info import RunInfo

_BEGINS: Final = "fault-applied"
_ENDS: Final = "fault-cleared"
_SHOWN_AFTER_NS: Final = 1_000_000_000
"""So long a fault is shown after its end: no scrape misses one that is shorter than the scrape interval."""


class ActiveFault(NamedTuple):
    fault_id: str
    kind: str


@dataclass(slots=True)
class FaultTotals:
    """Counts since the lab was made."""

    injected: Counter[str] = field(default_factory=Counter)  # by kind of fault
    outages: Counter[str] = field(default_factory=Counter)  # by name of the link that went down


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
        self._begins_ns: dict[ActiveFault, list[int]] = {}
        self._ends_ns: dict[ActiveFault, int] = {}
        self._links: dict[ActiveFault, tuple[str, ...]] = {}
        # of each fault that was seen, its node or first link, and how many more
        self.places: dict[ActiveFault, str] = {}
        self._repeats: dict[tuple[str, int], tuple[tuple[str, ...], int]] = {}

    def active(self) -> list[ActiveFault]:
        """The faults of now by id; an entry that is written this very moment may be missing."""
        return [fault for fault, _ in self._entries()]

    def outages_so_far(self, now_ns: int) -> Counter[str]:
        """Outages by name of the link: those of `totals`, and those that the kernel keeps to by itself.

        A flap that no run drives has one event, for its first outage; of its others those are known at which
        it was seen active.
        """
        for fault, entry in self._entries():
            schedule = entry["schedule"]
            if schedule["flap"] is not None:
                end_ns = now_ns if schedule["end_ns"] is None else min(now_ns, schedule["end_ns"] - 1)
                begun = _outages_begun(schedule["flap"], end_ns - schedule["begin_ns"])
                links = tuple(entry["fault"]["links"])
                self._repeats[fault.fault_id, schedule["begin_ns"]] = links, max(0, begun - 1)
        outages = self.totals().outages.copy()
        for links, repeats in self._repeats.values():
            outages.update(dict.fromkeys(links, repeats))
        return outages

    def shown(self, run: RunInfo | None, now_ns: int) -> set[ActiveFault]:
        """The faults whose window is now: active, just ended, or between two outages of a run's flap."""
        self.totals()
        shown = set(self.active())
        shown |= {fault for fault, end_ns in self._ends_ns.items() if now_ns - end_ns < _SHOWN_AFTER_NS}
        return shown | set(self._spanned(run, now_ns))

    def between_outages(self, run: RunInfo | None, now_ns: int) -> dict[ActiveFault, tuple[str, ...]]:
        """Flaps of a run that do not act at the moment and will again -> links of the latest outage."""
        self.totals()
        active = set(self.active())
        return {fault: self._links[fault] for fault in self._spanned(run, now_ns) if fault not in active}

    def outages(self, run: RunInfo | None) -> dict[str, int]:
        """Faults of a run that act several times -> how often they have begun."""
        if run is None:
            return {}
        self.totals()
        counts = {
            fault.fault_id: len(begins_ns) - bisect_left(begins_ns, run.begun_ns)
            for fault, begins_ns in self._begins_ns.items()
            if fault.fault_id in run.fault_spans_ns
        }
        return {fault_id: count for fault_id, count in counts.items() if count}

    def _entries(self) -> Iterator[tuple[ActiveFault, dict[str, Any]]]:
        """The entries of now by id; one that is written this very moment may be missing."""
        for path in sorted(self._active_folder.glob("*.json")):
            try:
                entry = json.loads(path.read_text(encoding="utf-8"))["entry"]
                fault = entry["fault"]
                if fault.get("is_hidden"):
                    continue
                active = ActiveFault(str(fault["fault_id"]), str(fault["kind"]))
                self.places[active] = _place(fault)
                yield active, entry
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue  # cleared since the listing, or damaged: `mrc-testbed fault list` says so

    def _spanned(self, run: RunInfo | None, now_ns: int) -> list[ActiveFault]:
        if run is None:
            return []
        return [fault for fault in self._begins_ns if self._is_spanned(fault, run, now_ns)]

    def _is_spanned(self, fault: ActiveFault, run: RunInfo, now_ns: int) -> bool:
        """Return True if the run's plan has the fault still acting, now and then."""
        span_ns = run.fault_spans_ns.get(fault.fault_id)
        begins_ns = self._begins_ns[fault]
        first = bisect_left(begins_ns, run.begun_ns)
        return span_ns is not None and first < len(begins_ns) and now_ns < begins_ns[first] + span_ns

    def totals(self) -> FaultTotals:
        try:
            with self._events_path.open("rb") as stream:
                stream.seek(self._read_bytes)
                added = stream.read()
        except FileNotFoundError:
            return self._totals
        complete = added[: added.rfind(b"\n") + 1]
        self._read_bytes += len(complete)
        for line in complete.splitlines():
            self._count(line)
        return self._totals

    def _count(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, links = str(event["kind"]), [str(link) for link in event["links"]]
            fault, time_ns = ActiveFault(str(event["fault_id"]), kind), int(event["time_ns"])
            self.places[fault] = _place(event)
            if event["event"] == _ENDS:
                self._ends_ns[fault] = time_ns
            if event["event"] != _BEGINS:
                return
        except (ValueError, KeyError, TypeError):
            return  # a line that a full disk cut short
        self._begins_ns.setdefault(fault, []).append(time_ns)
        self._links[fault] = tuple(links)
        self._totals.injected[kind] += 1
        if event.get("is_outage"):
            self._totals.outages.update(links)


def _place(fault: Mapping[str, Any]) -> str:
    first, *more = fault.get("nodes") or fault["links"] or [""]
    return f"{first} +{len(more)}" if more else str(first)


def _outages_begun(flap: Mapping[str, Any], age_ns: int) -> int:
    """Outages of a flap that have begun *age_ns* after it did."""
    every_ns = int(flap["every_ns"])
    period = age_ns // every_ns
    late_ns = round(flap["jitter_ratio"] * every_ns)
    return period + (outage_start_ns(flap["seed"], period, every_ns, late_ns) <= age_ns)
