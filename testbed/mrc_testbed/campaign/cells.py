"""Cells of a campaign, which are runs that differ in their seed alone, and each against its baseline cell."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any, Final

from mrc_testbed.campaign.cell_expectation import CellId
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.run_figures import Figure, format_figure, run_figures
from mrc_testbed.campaign.statistics import Effect, Pair, judge, median_ratio, ratio_interval, two_modes
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.scenario.spec.quantity import Better, Dimension
from mrc_testbed.shown import format_number
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns

_COUNTED: Final = frozenset({"passed", "failed"})
"""Statuses of runs whose figures count: they came to their end and are trusted, unless they were late."""

_MODE_GAP_SHARE: Final = 0.01
"""Least gap between two modes of anything but a count, as a share of the median."""


@dataclass(frozen=True, slots=True)
class CellFigure:
    dimension: Dimension  # of the values
    better: Better | None  # which of two values is the better one; None where the name does not say
    by_seed: Mapping[int, float]  # seed -> value, in the base unit, of the runs that measured it
    # seed -> name of the machine; empty in virtual time, where it does not matter
    machines: Mapping[int, str] = field(default_factory=dict)

    @property
    def values(self) -> tuple[float, ...]:
        """Values of the runs, in the base unit."""
        return tuple(self.by_seed.values())

    @property
    def by_machine(self) -> Mapping[str, tuple[float, ...]]:
        """Name of each machine -> values of its runs; empty name: in virtual time, or not known."""
        found: dict[str, list[float]] = {}
        for seed, value in self.by_seed.items():
            found.setdefault(self.machines.get(seed, ""), []).append(value)
        return {machine: tuple(values) for machine, values in found.items()}

    @property
    def modes(self) -> str:
        """The two modes that the runs fall into, such as `two modes: 5 runs near 3 ms, 3 near 9 ms`.

        Machines differ too; of several, the first whose own runs fall into two is named.
        """
        for machine, values in self.by_machine.items():
            middle = abs(median(values))
            is_count = self.dimension is Dimension.COUNT
            found = two_modes(values, math.sqrt(max(1, middle)) if is_count else _MODE_GAP_SHARE * middle)
            if found is not None:
                low, high = (format_figure(each.median, self.dimension) for each in found)
                where = f" on {machine}" if len(self.by_machine) > 1 else ""
                return f"two modes{where}: {found[0].runs} runs near {low}, {found[1].runs} near {high}"
        return ""


@dataclass(frozen=True, slots=True)
class Cell:
    """Runs that differ in their seed alone."""

    scenario: str  # its name
    place: Mapping[str, str]  # what is varied: dotted key, or axis of a variant -> value
    # of its runs -> how many; `not run` is one, `passed late` that of a run whose figures do not count
    statuses: Mapping[str, int]
    # whether all its runs took place in virtual time, where the same seed gives the same figures
    is_exact: bool
    idle_rtt_ns: int  # of its topology; 0 for an unshaped one
    figures: Mapping[str, CellFigure]  # name -> what the runs that count measured
    # name -> all times of the runs that count, together; empty for runs that kept none
    times: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def cell_id(self) -> CellId:
        return CellId.of(self.scenario, self.place)

    @property
    def key(self) -> str:
        """Name of the cell in its campaign, such as `flap transport.window=32`."""
        return str(self.cell_id)

    @property
    def counted(self) -> int:
        """Runs whose figures count."""
        return sum(self.statuses.get(status, 0) for status in _COUNTED)


@dataclass(frozen=True)
class MeasuredRun:
    run: PlannedRun  # as planned
    status: str  # `not run` before its end
    manifest: Mapping[str, Any] | None  # None without one
    times: Mapping[str, Histogram] = field(default_factory=dict)  # name -> times; empty when none were kept

    @property
    def counts(self) -> bool:
        """Return True if the run ended, is trusted and was not late."""
        return self.status in _COUNTED and self.manifest is not None and not self.is_late

    @property
    def is_late(self) -> bool:
        """Return True if the machine was late, so that its expectations are judged and nothing else."""
        return self.manifest is not None and self.status in _COUNTED and bool(self.manifest.get("late"))

    @property
    def is_exact(self) -> bool:
        """Return True if it took place in virtual time."""
        return self.manifest is not None and self.manifest["provenance"]["runtime"] == "virtual"

    @property
    def machine(self) -> str:
        """Name of the machine that its figures depend on; empty in virtual time."""
        if self.manifest is None or self.is_exact:
            return ""
        return str(self.manifest["provenance"].get("machine", ""))

    @cached_property
    def figures(self) -> Mapping[str, Figure]:
        """Name -> what was measured."""
        return {} if self.manifest is None else run_figures(self.manifest)

    @cached_property
    def values(self) -> Mapping[str, float]:
        """Name -> value of those figures that have one."""
        return {
            name: float(figure.value) for name, figure in self.figures.items() if figure.value is not None
        }


def measured_runs(folder: CampaignFolder) -> tuple[MeasuredRun, ...]:
    """All runs that are wanted, done or not, in the order of the file, as the journal has them now."""
    return tuple(
        MeasuredRun(run, folder.last(run).status, folder.manifest(run), folder.histograms(run))
        for run in sorted(folder.wanted, key=lambda run: run.index)
    )


def cells_of(folder: CampaignFolder) -> tuple[Cell, ...]:
    return build_cells(measured_runs(folder))


def group_by_cell(runs: Iterable[MeasuredRun]) -> dict[CellId, list[MeasuredRun]]:
    """Runs by cell, in the order in which cells first occur."""
    grouped: dict[CellId, list[MeasuredRun]] = {}
    for each in runs:
        grouped.setdefault(each.run.cell, []).append(each)
    return grouped


def build_cells(runs: Iterable[MeasuredRun]) -> tuple[Cell, ...]:
    """The cells of a campaign, in the order in which they first occur."""
    return tuple(_cell(cell_id, found) for cell_id, found in group_by_cell(runs).items())


def merged_times(runs: Iterable[MeasuredRun], name: str) -> Histogram:
    return merge(each.times[name] for each in runs if name in each.times)


def _cell(cell_id: CellId, runs: list[MeasuredRun]) -> Cell:
    counted = [each for each in runs if each.counts]
    figures = {name: each.figures[name] for each in counted for name in each.values}
    times = dict.fromkeys(name for each in counted for name in each.times)
    return Cell(
        cell_id.scenario,
        dict(cell_id.values),
        dict(Counter(f"{each.status} late" if each.is_late else each.status for each in runs)),
        bool(counted) and all(each.is_exact for each in counted),
        base_rtt_ns(resolve_topology(runs[0].run.plan.topology)),
        {
            name: CellFigure(
                figure.dimension,
                figure.better,
                {each.run.plan.seed: each.values[name] for each in counted if name in each.values},
                {each.run.plan.seed: each.machine for each in counted if each.machine},
            )
            for name, figure in figures.items()
        },
        {name: merged_times(counted, name) for name in times},
    )


@dataclass(frozen=True, slots=True)
class CellComparison:
    """One figure of a cell against that of another."""

    # cell, baseline: keys of both
    cell: str
    baseline: str
    name: str  # of the figure
    # figure, reference: of the cell, and of the baseline
    figure: CellFigure
    reference: CellFigure
    effect: Effect  # what their runs show

    @property
    def ratio(self) -> float | None:
        """The cell's median by the baseline's; None where that is not defined."""
        return median_ratio(self.figure.values, self.reference.values)

    @property
    def factor(self) -> str:
        """Ratio and its interval, such as `1.95 times (1.9 to 2)`; empty where they are not known."""
        interval = ratio_interval(self.figure.values, self.reference.values)
        if self.ratio is None or interval is None:
            return ""
        low, high = map(format_number, interval)
        return f"{format_number(self.ratio)} times ({low} to {high})"

    @property
    def verdict(self) -> str:
        """Result of the comparison in words."""
        return self.effect.verdict(self.figure.better)


def compare_cells(cells: Sequence[Cell], baseline: Mapping[str, str]) -> tuple[CellComparison, ...]:
    """Every figure of every cell against the cell that differs from it in *baseline* alone.

    Figures that are the same in all runs of both are left out: there is nothing to test.

    Args:
        baseline: what is varied -> value of the cells that others are compared with; empty for no comparison.
    """
    pairs = list(_pairs(cells, baseline))
    effects = judge(
        [(figure.values, reference.values) for *_, figure, reference in pairs],
        [_by_machine(figure, reference) for *_, figure, reference in pairs],
    )
    return tuple(CellComparison(*pair, effect) for pair, effect in zip(pairs, effects, strict=True))


def _by_machine(figure: CellFigure, reference: CellFigure) -> list[Pair]:
    """Return the values of a figure in two cells, machine by machine; none where machines are not known."""
    own, other = figure.by_machine, reference.by_machine
    machines = dict.fromkeys([*own, *other])
    return [] if "" in machines else [(own.get(each, ()), other.get(each, ())) for each in machines]


def _pairs(
    cells: Sequence[Cell], baseline: Mapping[str, str]
) -> Iterator[tuple[str, str, str, CellFigure, CellFigure]]:
    by_id = {cell.cell_id: cell for cell in cells}
    for cell in cells:
        other = by_id.get(cell.cell_id.with_values(baseline))
        if other is None or other is cell:
            continue
        for name, figure in cell.figures.items():
            reference = other.figures.get(name)
            if reference is not None and len({*figure.values, *reference.values}) > 1:
                yield cell.key, other.key, name, figure, reference
