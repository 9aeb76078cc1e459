"""Each cell of a campaign against its baseline cell, figure by figure. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from testbed.campaign.cell import Cell, CellFigure
from testbed.campaign.statistics import Effect, judge, rank_test


@dataclass(frozen=True, slots=True)
class CellComparison:
    """One figure of a cell against that of another.

    Attributes:
        cell, baseline: keys of both.
        name: of the figure.
        figure, reference: of the cell, and of the baseline.
        effect: what their runs show.
    """

    cell: str
    baseline: str
    name: str
    figure: CellFigure
    reference: CellFigure
    effect: Effect

    @property
    def ratio(self) -> float | None:
        """The cell's median by the baseline's; None where that is not defined."""
        return median_ratio(self.figure.values, self.reference.values)

    @property
    def verdict(self) -> str:
        """Result of the comparison in words."""
        return verdict(self.effect, self.figure.better)


def median_ratio(values: Sequence[float], others: Sequence[float]) -> float | None:
    """Median of *values* by the median of *others*; None where that is 0."""
    other = median(others)
    return None if other == 0 else median(values) / other


def verdict(effect: Effect, better: str | None) -> str:
    """`better` or `worse` where that is known, else `more` or `less`; or why neither is shown."""
    wanted = "" if effect.more_runs is None else f", {effect.more_runs} more would do"
    match effect.finding:
        case "more" | "less":
            if better is None:
                return effect.finding
            return "better" if effect.finding == better else "worse"
        case "too few runs":
            return f"too few runs to tell{wanted}"
        case "not shown":
            return f"no difference shown{wanted}"
        case "equal":
            return "equal"


def compare_cells(cells: Sequence[Cell], baseline: Mapping[str, str]) -> tuple[CellComparison, ...]:
    """Every figure of every cell against the cell that differs from it in *baseline* alone.

    Figures that are the same in all runs of both are left out: there is nothing to test.

    Args:
        cells: of a campaign.
        baseline: what is varied -> value of the cells that others are compared with; empty for no comparison.
    """
    pairs = list(_pairs(cells, baseline))
    tests = [rank_test(figure.values, reference.values) for *_, figure, reference in pairs]
    sides = [(len(figure.values), len(reference.values)) for *_, figure, reference in pairs]
    return tuple(
        CellComparison(cell.key, other.key, name, figure, reference, effect)
        for (cell, other, name, figure, reference), effect in zip(pairs, judge(tests, sides), strict=True)
    )


def _pairs(
    cells: Sequence[Cell], baseline: Mapping[str, str]
) -> Iterator[tuple[Cell, Cell, str, CellFigure, CellFigure]]:
    by_id = {cell.cell_id: cell for cell in cells}
    for cell in cells:
        other = by_id.get(cell.cell_id.with_values(baseline))
        if other is None or other is cell:
            continue
        for name, figure in cell.figures.items():
            reference = other.figures.get(name)
            if reference is not None and len({*figure.values, *reference.values}) > 1:
                yield cell, other, name, figure, reference
