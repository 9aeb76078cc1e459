"""Which cell is run once more: the one whose median is least certain. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from testbed.campaign.cell_id import CellId
from testbed.campaign.plan import PlannedRun, Repeat
from testbed.campaign.statistics import INTERVAL_RUNS_MIN, estimate
from testbed.shown import format_share


@dataclass(slots=True)
class CellRuns:
    """State of a cell.

    Attributes:
        names: of the figures whose intervals count.
        values: figure -> values of the runs that count.
        done: runs that have ended or begun, whether they count or not.
        extras: runs that may still be asked for, in order.
    """

    names: Sequence[str]
    values: dict[str, list[float]] = field(default_factory=dict)
    done: int = 0
    extras: list[PlannedRun] = field(default_factory=list)

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
