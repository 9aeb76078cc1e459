"""Two runs side by side: what was measured in both, and how far apart it is. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.campaign.figures import format_figure, run_figures
from testbed.scenario.spec.quantity import Dimension


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure in two runs.

    Attributes:
        name: what it is.
        dimension: of both values.
        before, after: values in the base unit; None where a run has none.
    """

    name: str
    dimension: Dimension
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """The second by the first; None when that is not defined."""
        if self.before is None or self.after is None or self.before == 0:
            return None
        return self.after / self.before

    def shown(self, value: float | None) -> str:
        return format_figure(value, self.dimension)


def compare_runs(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ComparedFigure, ...]:
    """Every figure of two runs' manifests: workloads, expectations, recovery; those of the first lead."""
    first, second = run_figures(before), run_figures(after)
    return tuple(
        ComparedFigure(
            name,
            (first.get(name) or second[name]).dimension,
            first[name].value if name in first else None,
            second[name].value if name in second else None,
        )
        for name in dict.fromkeys((*first, *second))
    )
