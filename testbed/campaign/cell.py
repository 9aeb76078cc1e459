"""Cells of a campaign: runs that differ in their seed alone. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from testbed.campaign.cell_id import CellId
from testbed.campaign.figures import run_figures
from testbed.campaign.plan import PlannedRun
from testbed.metrics.histogram import Histogram, merge
from testbed.scenario.spec.quantity import Better, Dimension

_COUNTED: Final = frozenset({"passed", "failed"})
"""Statuses of runs whose figures count: they came to their end and are trusted."""


@dataclass(frozen=True, slots=True)
class CellFigure:
    """One figure in all runs of a cell.

    Attributes:
        dimension: of the values.
        better: which of two values is the better one; None where the name does not say.
        values: of the runs that measured it, in the base unit, in the order of their seeds.
    """

    dimension: Dimension
    better: Better | None
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """Runs that differ in their seed alone.

    Attributes:
        scenario: its name.
        place: what is varied: dotted key, or axis of a variant -> value.
        statuses: of its runs -> how many; `not run` is one.
        is_exact: whether all its runs took place in virtual time, where the same seed gives the same figures.
        figures: name -> what the runs that count measured.
        times: name -> all times of the runs that count, together; empty for runs that kept none.
    """

    scenario: str
    place: Mapping[str, str]
    statuses: Mapping[str, int]
    is_exact: bool
    figures: Mapping[str, CellFigure]
    times: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name of the cell in its campaign, such as `flap transport.window=32`."""
        return str(self.cell_id)

    @property
    def cell_id(self) -> CellId:
        """The same for all its runs."""
        return CellId.of(self.scenario, self.place)

    @property
    def counted(self) -> int:
        """Runs whose figures count."""
        return sum(self.statuses.get(status, 0) for status in _COUNTED)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run of a campaign and what it left.

    Attributes:
        run: as planned.
        status: `not run` before its end.
        manifest: None without one.
        times: name -> times; empty when none were kept.
    """

    run: PlannedRun
    status: str
    manifest: Mapping[str, Any] | None
    times: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def counts(self) -> bool:
        """Return True if the run ended and is trusted."""
        return self.status in _COUNTED and self.manifest is not None


def group_by_cell(runs: Iterable[MeasuredRun]) -> dict[CellId, list[MeasuredRun]]:
    """Runs by cell, in the order in which cells first occur."""
    grouped: dict[CellId, list[MeasuredRun]] = {}
    for each in runs:
        grouped.setdefault(each.run.cell, []).append(each)
    return grouped


def build_cells(runs: Iterable[MeasuredRun]) -> tuple[Cell, ...]:
    """The cells of a campaign, in the order in which they first occur."""
    return tuple(_cell(cell_id, found) for cell_id, found in group_by_cell(runs).items())


def _cell(cell_id: CellId, runs: list[MeasuredRun]) -> Cell:
    counted = [each for each in runs if each.counts]
    manifests = [each.manifest for each in counted if each.manifest is not None]
    shapes: dict[str, tuple[Dimension, Better | None]] = {}
    values: dict[str, list[float]] = {}
    for manifest in manifests:
        for name, figure in run_figures(manifest).items():
            if figure.value is not None:
                shapes[name] = (figure.dimension, figure.better)
                values.setdefault(name, []).append(float(figure.value))
    names = dict.fromkeys(name for each in counted for name in each.times)
    return Cell(
        cell_id.scenario,
        dict(cell_id.values),
        dict(Counter(each.status for each in runs)),
        bool(manifests) and all(manifest["provenance"]["runtime"] == "virtual" for manifest in manifests),
        {name: CellFigure(*shapes[name], tuple(found)) for name, found in values.items()},
        {name: merge(each.times[name] for each in counted if name in each.times) for name in names},
    )
