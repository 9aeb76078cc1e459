"""Cells of a campaign: runs that differ in their seed alone. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from testbed.campaign.figures import run_figures
from testbed.campaign.plan import PlannedRun
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
    """

    scenario: str
    place: Mapping[str, str]
    statuses: Mapping[str, int]
    is_exact: bool
    figures: Mapping[str, CellFigure]

    @property
    def key(self) -> str:
        """What distinguishes it from the other cells, such as `flap transport.window=32`."""
        return " ".join((self.scenario, *(f"{name}={value}" for name, value in self.place.items())))

    @property
    def counted(self) -> int:
        """Runs whose figures count."""
        return sum(self.statuses.get(status, 0) for status in _COUNTED)


def build_cells(runs: Iterable[tuple[PlannedRun, str, Mapping[str, Any] | None]]) -> tuple[Cell, ...]:
    """The cells of a campaign, in the order in which they first occur.

    Args:
        runs: each with its status and its manifest, None without one.
    """
    grouped: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[str, Mapping[str, Any] | None]]] = {}
    for run, status, manifest in runs:
        grouped.setdefault((run.scenario, tuple(run.place.items())), []).append((status, manifest))
    return tuple(_cell(scenario, dict(place), found) for (scenario, place), found in grouped.items())


def _cell(scenario: str, place: Mapping[str, str], runs: list[tuple[str, Mapping[str, Any] | None]]) -> Cell:
    counted = [manifest for status, manifest in runs if status in _COUNTED and manifest is not None]
    shapes: dict[str, tuple[Dimension, Better | None]] = {}
    values: dict[str, list[float]] = {}
    for manifest in counted:
        for name, figure in run_figures(manifest).items():
            if figure.value is not None:
                shapes[name] = (figure.dimension, figure.better)
                values.setdefault(name, []).append(float(figure.value))
    return Cell(
        scenario,
        place,
        dict(Counter(status for status, _ in runs)),
        bool(counted) and all(manifest["provenance"]["runtime"] == "virtual" for manifest in counted),
        {name: CellFigure(*shapes[name], tuple(found)) for name, found in values.items()},
    )
