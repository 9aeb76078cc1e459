"""The part of a campaign's page that is about cells: a plot per figure, times, the cells themselves. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from testbed.campaign.cell import Cell
from testbed.campaign.cell_chart import CellChart, CellPoint, draw_cell_chart
from testbed.campaign.cell_comparison import CellComparison
from testbed.campaign.figures import format_figure
from testbed.campaign.statistics import INTERVAL_RUNS_MIN, Estimate, estimate
from testbed.metrics.series import summarize
from testbed.scenario.spec.quantity import Dimension

STYLE: Final = """
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); gap: 12px }
.plots figure { margin: 0 } .plots figcaption { font-size: 13px; color: var(--muted) }
.plots h3 { overflow-wrap: anywhere }
.interval { stroke: var(--c0); stroke-width: 6; stroke-opacity: .35; fill: none }
.median { stroke: var(--c0); stroke-width: 2.4; fill: none }
.better { color: var(--good) } .worse { color: var(--bad) }
"""

_PERCENTILES: Final = ("p50", "p90", "p99", "p99.9", "max")


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Cells, and what they are compared with.

    Attributes:
        cells: of a campaign, in order.
        baseline: what is varied -> value of the cells that others are compared with; empty for none.
        found: every comparison.
    """

    cells: Sequence[Cell]
    baseline: Mapping[str, str]
    found: Sequence[CellComparison]


def build_cells_section(compared: Comparisons, varied: Collection[str]) -> str:
    """Sections of HTML; empty when the campaign neither repeats nor varies anything.

    Args:
        compared: the cells.
        varied: dotted keys that the campaign varies; variants of a scenario have a page of their own.
    """
    numbers = {cell.key: number for number, cell in enumerate(compared.cells, start=1)}
    keys = list(dict.fromkeys(key for cell in compared.cells for key in cell.place))
    scenarios = dict.fromkeys(
        cell.scenario
        for cell in compared.cells
        if cell.counted > 1 or not cell.place.keys().isdisjoint(varied)
    )
    parts = []
    for scenario in scenarios:
        charts = list(_charts(compared, scenario, numbers))
        if charts:
            title = "Figures" if len(scenarios) == 1 else f"Figures of {scenario}"
            parts.append(f"<section><h2>{escape(title)}</h2>\n{_plots(charts, compared.baseline)}</section>")
    if not scenarios:
        return ""
    parts.append(f"<section><h2>Cells</h2>\n{_cells(compared, keys, numbers)}</section>")
    if any(cell.times for cell in compared.cells):
        parts.append(
            f"<section><h2>Times of all runs of a cell together</h2>\n{_times(compared.cells)}</section>"
        )
    return "\n".join(parts)


def _charts(compared: Comparisons, scenario: str, numbers: Mapping[str, int]) -> Iterator[CellChart]:
    """A chart for each figure of a scenario that is not the same in all its runs."""
    cells = [cell for cell in compared.cells if cell.scenario == scenario]
    effects = {(each.cell, each.name): each for each in compared.found}
    references = {(each.baseline, each.name) for each in compared.found}
    for name in dict.fromkeys(name for cell in cells for name in cell.figures):
        measured = [cell for cell in cells if name in cell.figures]
        if len({value for cell in measured for value in cell.figures[name].values}) == 1:
            continue
        points = []
        for cell in measured:
            values = cell.figures[name].values
            is_baseline = (cell.key, name) in references
            found = estimate(values)
            note = _note(effects.get((cell.key, name)), found)
            points.append(CellPoint(numbers[cell.key], values, found, is_baseline, note))
        yield CellChart(name, measured[0].figures[name].dimension, tuple(points))


def _note(compared: CellComparison | None, found: Estimate) -> str:
    if compared is not None:
        return compared.verdict
    if found.low is None:
        return f"too few runs for an interval, {INTERVAL_RUNS_MIN - found.runs} more would do"
    return ""


def _plots(charts: Iterable[CellChart], baseline: Mapping[str, str]) -> str:
    against = "".join(f" {key}={value}" for key, value in baseline.items())
    shaded = f" Shaded: the baseline,{escape(against)}." if against else ""
    figures = "\n".join(
        f'<figure class="card"><h3>{escape(chart.title)}</h3>\n{draw_cell_chart(chart)}\n'
        f"<figcaption>{_notes(chart)}</figcaption></figure>"
        for chart in charts
    )
    return (
        '<p class="muted">Dots are runs, the line is their median, the bar its 95 % bootstrap interval; '
        f"the numbers are those of the cells below.{shaded} A figure that is the same in all runs is left "
        f'out.</p>\n<div class="plots">{figures}</div>'
    )


def _notes(chart: CellChart) -> str:
    return "<br>".join(_note_of(note, cells) for note, cells in chart.notes.items())


def _note_of(note: str, cells: Sequence[int]) -> str:
    style = f' class="{note}"' if note in ("better", "worse") else ""
    return f"<span{style}>{'cell' if len(cells) == 1 else 'cells'} {_ranges(cells)}: {escape(note)}</span>"


def _ranges(numbers: Sequence[int]) -> str:
    """Such as `1, 3 to 6`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans)


def _cells(compared: Comparisons, keys: Sequence[str], numbers: Mapping[str, int]) -> str:
    references = {each.baseline for each in compared.found}
    rows = []
    for cell in compared.cells:
        statuses = ", ".join(f"{count} {status}" for status, count in cell.statuses.items())
        place = "".join(f"<td>{escape(cell.place.get(key, ''))}</td>" for key in keys)
        marked = "baseline" if cell.key in references else ""
        rows.append(
            f'<tr><td class="number">{numbers[cell.key]}</td><td>{escape(cell.scenario)}</td>{place}'
            f"<td>{escape(statuses)}</td><td>{marked}</td></tr>"
        )
    return _table(("#", "scenario", *keys, "runs", ""), rows, numbers=1)


def _times(cells: Sequence[Cell]) -> str:
    rows = []
    for number, cell in enumerate(cells, start=1):
        for name, histogram in cell.times.items():
            found = summarize(histogram)
            if found is None:
                continue
            shown = (found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns, found.max_ns)
            times = "".join(
                f'<td class="number">{format_figure(each, Dimension.TIME)}</td>' for each in shown
            )
            rows.append(
                f'<tr><td class="number">{number}</td><td>{escape(name)}</td>'
                f'<td class="number">{found.count}</td>{times}</tr>'
            )
    return _table(("#", "times", "count", *_PERCENTILES), rows, numbers=1)


def _table(heads: Sequence[str], rows: Iterable[str], *, numbers: int) -> str:
    shown = "".join(
        f"<th{' class=number' if place < numbers or head in (*_PERCENTILES, 'count') else ''}>"
        f"{escape(head)}</th>"
        for place, head in enumerate(heads)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{shown}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>"
    )
