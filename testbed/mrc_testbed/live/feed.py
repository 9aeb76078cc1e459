"""Watches one lab in a thread of its own and hands its snapshots to whoever waits for them.

The lab may go and come back under its name: then the maps are reopened, and the first snapshot follows an
interval later.
"""

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final, Self

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.fault_log import FaultLog, FaultWindow
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.live.jobs import JobView, build_jobs
from mrc_testbed.live.snapshot import Change, EventKind, Observation, Snapshot, build_snapshot
from mrc_testbed.metrics.collector import StateMark, open_reader, state_mark
from mrc_testbed.metrics.fault_record import FaultRecord
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.run_info import read_run
from mrc_testbed.metrics.take_reading import take_reading
from mrc_testbed.topology.clos import Clos
from mrc_testbed.workloads.job_ring import running_jobs

DEFAULT_INTERVAL_NS: Final = 1_000_000_000
_HISTORY_NS: Final = 300 * 1_000_000_000
_QP_SEARCH_READINGS: Final = 2
_TAIL_LINES: Final = 40
"""Lines kept of each kind, so that EVs that come and go do not push faults out."""

_HISTORY_POINTS: Final = 1200
_OLD_INTERVALS: Final = 3

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Point:
    """A snapshot's place in a plot."""

    time_ns: int  # CLOCK_MONOTONIC
    goodput_bps: float  # over all hosts
    # p50_ns, p99_ns: of the RTT of data packets; None without any
    p50_ns: float | None
    p99_ns: float | None


@dataclass(frozen=True, slots=True)
class TailLine:
    clock: str  # local time of day, with milliseconds
    text: str  # what happened
    kind: EventKind = "lab"  # to what
    time_ns: int = 0  # CLOCK_MONOTONIC


@dataclass(frozen=True, slots=True)
class Update:
    number: int  # grows by one with each update
    interval_ns: int  # between two updates, if all is well
    read_ns: int | None  # CLOCK_MONOTONIC of the latest reading of the lab; None before the first
    problem: str | None  # why there is nothing new; None: all is well
    clos: Clos | None  # topology of the lab; None before it was read once
    snapshot: Snapshot | None  # the latest; None before the first, and while there is a problem
    points: tuple[Point, ...]  # for plots, oldest first
    windows: tuple[FaultWindow, ...]  # of faults, oldest first
    tail: tuple[TailLine, ...]  # events, oldest first
    jobs: tuple[JobView, ...] = ()  # collectives and training that run now

    def age_ns(self, now_ns: int) -> int | None:
        """Time since the lab was read; None if it never was."""
        return None if self.read_ns is None else now_ns - self.read_ns

    def is_old(self, now_ns: int) -> bool:
        """Return True if readings are overdue."""
        age_ns = self.age_ns(now_ns)
        return age_ns is not None and age_ns > _OLD_INTERVALS * self.interval_ns


class Feed:
    """Snapshots of a lab, one per interval, while the context lasts."""

    def __init__(self, lab: str, interval_ns: int = DEFAULT_INTERVAL_NS) -> None:
        self.lab = lab
        self.interval_ns = interval_ns
        self._paths = lab_paths(lab)
        self._ledger = Ledger(self._paths.faults)
        self._log = FaultLog(self._ledger.events_path)
        self._record = FaultRecord(self._paths.faults)
        self._mark: StateMark | None = None
        self._reader: LabReader | None = None
        self._before: Observation | None = None
        self._read_ns: int | None = None
        self._flaps: dict[str, Schedule] = {}
        self._points: deque[Point] = deque(maxlen=_HISTORY_POINTS)
        self._tail: defaultdict[EventKind, deque[TailLine]] = defaultdict(lambda: deque(maxlen=_TAIL_LINES))
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-feed", daemon=True)
        self._latest = Update(0, interval_ns, None, None, None, None, (), (), ())
        self.clos: Clos = self._open().clos

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._close()

    @property
    def latest(self) -> Update:
        with self._changed:
            return self._latest

    @property
    def is_over(self) -> bool:
        """Return True if no update will follow."""
        return self._stop.is_set()

    def wait(self, after: int, timeout_s: float) -> Update | None:
        """The latest update with a number above *after*; None when none came in time or the feed is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._latest.number > after or self._stop.is_set(), timeout_s)
            return self._latest if self._latest.number > after else None

    def _run(self) -> None:
        due_ns = monotonic_ns()
        while True:
            self._take()
            now_ns = monotonic_ns()
            due_ns = max(due_ns + self.interval_ns, now_ns)
            if self._stop.wait((due_ns - now_ns) / 1e9):
                return

    def _take(self) -> None:
        """Publishes what there is to show now, or why there is nothing."""
        snapshot, problem = None, None
        lines: list[tuple[int, Change]] = []
        try:
            snapshot = self._step()
            lines = [(line.time_ns, Change("fault", line.text)) for line in self._log.new_lines()]
        except TestbedError as error:
            problem = error.message
        except Exception as error:  # noqa: BLE001 - shown to the viewer, and the next step may succeed
            problem = f"unexpected {type(error).__name__}: {error}"
            if problem != self._latest.problem:
                _LOG.exception("lab %s cannot be read", self.lab)
        if problem is not None:
            self._close()
        self._publish(snapshot, lines, problem)

    def _step(self) -> Snapshot | None:
        reader = self._reader
        if reader is None or state_mark(self._paths) != self._mark:
            self._close()
            reader = self._open()
        before, seen = self._before, self._observe(reader)
        self._before = seen
        self._flaps |= {
            entry.fault.fault_id: entry.schedule for entry in seen.faults if entry.schedule.flap is not None
        }
        self._read_ns = seen.reading.time_ns
        return None if before is None else build_snapshot(self.clos, before, seen)

    def _observe(self, reader: LabReader) -> Observation:
        reading = take_reading(reader, with_details=True)
        faults, run = tuple(self._ledger.shown_entries().values()), read_run(self._paths.folder)
        shown = {entry.fault.fault_id for entry in faults}
        resting = {
            fault: links
            for fault, links in self._record.between_outages(run, reading.time_ns).items()
            if fault.fault_id not in shown  # an outage may have begun since the entries were read
        }
        return Observation(reading, faults, resting, self._record.outages(run))

    def _publish(
        self, snapshot: Snapshot | None, lines: list[tuple[int, Change]], problem: str | None
    ) -> None:
        now_ns = monotonic_ns()
        self._log.forget_before(now_ns - _HISTORY_NS)
        if snapshot is not None:
            lines += [(snapshot.time_ns, change) for change in snapshot.changes]
            rtt = snapshot.rtt
            p50_ns, p99_ns = (None, None) if rtt is None else (rtt.p50_ns, rtt.p99_ns)
            self._points.append(Point(snapshot.time_ns, snapshot.goodput_bps, p50_ns, p99_ns))
        while self._points and self._points[0].time_ns < now_ns - _HISTORY_NS:
            self._points.popleft()
        if problem is not None and problem != self._latest.problem:
            lines.append((now_ns, Change("lab", problem)))
        zero_s = datetime.now().astimezone().timestamp() - now_ns / 1e9
        for time_ns, change in sorted(lines):
            moment = datetime.fromtimestamp(zero_s + time_ns / 1e9).astimezone()
            clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
            self._tail[change.kind].append(TailLine(clock, change.text, change.kind, time_ns))
        windows = tuple(replace(window) for window in self._log.windows)
        jobs = () if problem else self._jobs(windows, now_ns)
        with self._changed:
            self._latest = Update(
                number=self._latest.number + 1,
                interval_ns=self.interval_ns,
                read_ns=self._read_ns,
                problem=problem,
                clos=self.clos,
                snapshot=snapshot,
                points=tuple(self._points),
                windows=windows,
                tail=tuple(sorted(chain(*self._tail.values()), key=lambda line: line.time_ns)),
                jobs=jobs,
            )
            self._changed.notify_all()

    def _jobs(self, windows: Sequence[FaultWindow], now_ns: int) -> tuple[JobView, ...]:
        shown = {window.fault_id for window in windows}
        self._flaps = {name: flap for name, flap in self._flaps.items() if name in shown}
        return build_jobs(running_jobs(self._paths.folder), windows, self._flaps, self.clos, now_ns)

    def _open(self) -> LabReader:
        self._mark = state_mark(self._paths)
        self._record = FaultRecord(self._paths.faults)
        self._reader = open_reader(self.lab, qp_search_readings=_QP_SEARCH_READINGS)
        self._before = None
        self.clos = self._reader.clos
        return self._reader

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
