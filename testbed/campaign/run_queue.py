"""Order of a campaign's runs, and time left: planned runs first, then of the cell that is least certain."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from mrc_testbed.agents.clock import monotonic_ns
from mrc_testbed.campaign.cells import measured_run
from mrc_testbed.campaign.expectation import CellId
from mrc_testbed.campaign.folder import CampaignFolder, RunEntry
from mrc_testbed.campaign.plan import PlannedRun, Repeat
from mrc_testbed.campaign.statistics import INTERVAL_RUNS_MIN, estimate
from mrc_testbed.shown import format_share
from mrc_testbed.topology.spec import TopologySpec

_MINUTES_FROM_S: Final = 120


@dataclass(slots=True)
class CellRuns:
    """State of a cell."""

    names: Sequence[str]  # of the figures whose intervals count
    values: dict[str, list[float]] = field(default_factory=dict)  # figure -> values of the runs that count
    done: int = 0  # runs that have ended or begun, whether they count or not
    extras: list[PlannedRun] = field(default_factory=list)  # runs that may still be asked for, in order

    def widest(self) -> tuple[float, str, int]:
        """Width of the widest interval as a share of its median, of which figure, and of how many runs.

        Infinite with too few runs for an interval.
        """
        found = [(_width(tuple(self.values.get(name, ()))), name) for name in self.names]
        width, name = max(found, key=lambda each: each[0])
        return width, name, len(self.values.get(name, ()))


@dataclass(frozen=True, slots=True)
class Choice:
    """A run, and why it is done; no reason for one that is done in any case."""

    run: PlannedRun
    why: str = ""


def figures_of(run: PlannedRun, repeat: Repeat) -> tuple[str, ...]:
    """Names of the figures whose intervals count for the cell of a run."""
    return repeat.of or tuple(f"goodput({workload.name})" for workload in run.plan.workloads)


def choose(cells: Mapping[CellId, CellRuns], repeat: Repeat) -> Choice | None:
    """The run to do next; None when every cell is certain enough or has no run left.

    Of cells that are equally uncertain, the one with the fewest runs.
    """
    open_cells = [cell for cell in cells.values() if cell.extras]
    if not open_cells:
        return None
    chosen = min(open_cells, key=lambda cell: (-cell.widest()[0], cell.done))
    width, name, counted = chosen.widest()
    if width <= repeat.until:
        return None
    place = f"run {chosen.done + 1} of at most {repeat.at_most} of the cell"
    if math.isinf(width):
        why = f"{counted} of the {INTERVAL_RUNS_MIN} runs that an interval of {name} needs"
        if counted >= INTERVAL_RUNS_MIN:
            why = f"the interval of {name} begins at 0"
    else:
        why = f"the widest interval: {name}, {format_share(width)} of the median"
    return Choice(chosen.extras[0], f"{why}; {place}")


@lru_cache(maxsize=4096)
def _width(values: tuple[float, ...]) -> float:
    if len(values) < INTERVAL_RUNS_MIN:
        return math.inf
    found = estimate(values)
    if found.low is None or found.high is None or found.low == found.high:
        return 0.0
    return math.inf if found.median == 0 else (found.high - found.low) / abs(found.median)


class RunQueue:
    """The runs of a campaign's folder that are still to be done.

    Args:
        folder: of the campaign; entries are noted through `note`.
        retry: statuses of finished runs that are done again.
        budget_ns: for all of them together; None for no limit.
        room: number of runs that are done at a time now.
        now_ns: a clock that only goes forward.
    """

    def __init__(
        self,
        folder: CampaignFolder,
        retry: frozenset[str] = frozenset(),
        *,
        budget_ns: int | None = None,
        room: Callable[[], int] = lambda: 1,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._folder = folder
        self._pending = folder.pending(retry)
        self._total = len(folder.wanted)
        self._room = room
        self._now_ns = now_ns
        self._start_ns = now_ns()
        self._budget_ns = budget_ns
        self._begun_ns: dict[str, int] = {}
        self._took_ns: list[int] = []
        self._cells: dict[CellId, CellRuns] = {}
        if folder.plan.repeat is not None:
            for run in folder.plan.runs:
                known = self._cells.setdefault(run.cell, CellRuns(figures_of(run, folder.plan.repeat)))
                if folder.entry(run) is None and run.is_extra:
                    known.extras.append(run)
                else:
                    known.done += 1
                    self._count(run)

    def next(self) -> Choice | None:
        """The run to begin now; None when there is none, or no time for one."""
        if self._is_spent():
            return None
        if self._pending:
            return Choice(self._pending[0])
        repeat = self._folder.plan.repeat
        return None if repeat is None else choose(self._cells, repeat)

    @property
    def has_pending(self) -> bool:
        """Return True if runs are left that are done in any case."""
        return bool(self._pending)

    def begin(self, choice: Choice) -> str:
        """Takes a run out of the queue; returns what to say of it, with the time that the rest takes."""
        run = choice.run
        if choice.why:
            cell = self._cells[run.cell]
            cell.extras.remove(run)
            cell.done += 1
            self._total += 1
        else:
            self._pending.remove(run)
        self._begun_ns[run.key] = self._now_ns()
        number = self._total - len(self._pending)
        more = "" if self._folder.plan.repeat is None else " or more"
        why = f" ({choice.why})" if choice.why else ""
        return f"run {number} of {self._total}{more}{self._eta()}: {run.key}{why}"

    def note(self, run: PlannedRun, entry: RunEntry) -> None:
        """Writes the end of a run to the journal.

        Raises:
            TestbedError: it cannot be written.
        """
        self._folder.note(entry)
        if run.key in self._begun_ns:
            self._took_ns.append(self._now_ns() - self._begun_ns.pop(run.key))

    def end(self, run: PlannedRun) -> None:
        """Counts what a run has measured; it is not repeated any more."""
        if self._cells:
            self._count(run)

    def give_up(self, topology: TopologySpec) -> None:
        """No cell of a topology is run any more than planned."""
        for cell in self._cells.values():
            cell.extras = [run for run in cell.extras if run.plan.topology != topology]

    def _count(self, run: PlannedRun) -> None:
        measured = measured_run(self._folder, run)
        cell = self._cells[run.cell]
        for name, value in measured.values.items() if measured.counts else ():
            if name in cell.names:
                cell.values.setdefault(name, []).append(value)

    def _mean_ns(self) -> float | None:
        return sum(self._took_ns) / len(self._took_ns) if self._took_ns else None

    def _is_spent(self) -> bool:
        """Return True if the budget has no time for another run of mean length."""
        if self._budget_ns is None:
            return False
        return self._now_ns() - self._start_ns + (self._mean_ns() or 0) >= self._budget_ns

    def _eta(self) -> str:
        mean_ns = self._mean_ns()
        if mean_ns is None:
            return ""
        left_ns = mean_ns * (len(self._pending) + 1) / max(1, self._room())
        if self._budget_ns is not None and self._folder.plan.repeat is not None:
            left_ns = self._budget_ns - (self._now_ns() - self._start_ns)
        left_s = round(left_ns / 1e9)
        return f", {left_s} s left" if left_s < _MINUTES_FROM_S else f", {round(left_s / 60)} min left"
