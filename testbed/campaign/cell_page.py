"""The part of a campaign's page that is about cells: a plot per figure, times, the cells themselves. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from testbed.campaign.cell import Cell
from testbed.campaign.cell_chart import CellChart, CellPoint, draw_cell_chart
from testbed.campaign.cell_comparison import CellComparison
from testbed.campaign.statistics import INTERVAL_RUNS_MIN, Estimate, estimate
from testbed.metrics.series import summarize
from testbed.scenario.report.html_table import number_cell, table, text_cell
from testbed.scenario.report.outline import Section
from testbed.shown import format_count, format_time

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


def cell_sections(compared: Comparisons, varied: Collection[str]) -> list[Section]:
    """Sections of the page; none when the campaign neither repeats nor varies anything.

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
    if not scenarios:
        return []
    parts = []
    for place, scenario in enumerate(scenarios, start=1):
        charts = list(_charts(compared, scenario, numbers))
        title = "Figures" if len(scenarios) == 1 else f"Figures of {scenario}"
        parts.append(Section(f"figures-{place}", title, _plots(charts, compared.baseline) if charts else ""))
    return [
        *parts,
        Section("cells", "Cells", _cells(compared, keys, numbers)),
        Section("times", "Times of all runs of a cell together", _times(compared.cells)),
    ]


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
    for each in compared.cells:
        statuses = ", ".join(f"{count} {status}" for status, count in each.statuses.items())
        place = [text_cell(each.place.get(key, "")) for key in keys]
        marked = "baseline" if each.key in references else ""
        named = number_cell(str(numbers[each.key])), text_cell(each.scenario)
        rows.append([*named, *place, text_cell(statuses), text_cell(marked)])
    return table(("##", "scenario", *keys, "runs", ""), rows)


def _times(cells: Sequence[Cell]) -> str:
    rows = []
    for place, each in enumerate(cells, start=1):
        for name, histogram in each.times.items():
            found = summarize(histogram)
            if found is None:
                continue
            shown = (found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns, found.max_ns)
            times = [number_cell(format_time(time_ns)) for time_ns in shown]
            rows.append(
                [number_cell(str(place)), text_cell(name), number_cell(format_count(found.count)), *times]
            )
    return table(("##", "times", "#count", *(f"#{name}" for name in _PERCENTILES)), rows)
