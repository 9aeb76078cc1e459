"""The part of a campaign's page that is about cells: a plot per figure, times, the cells themselves. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from testbed.campaign.cell import Cell
from testbed.campaign.cell_comparison import CellComparison
from testbed.campaign.statistics import INTERVAL_RUNS_MIN, Estimate, estimate
from testbed.metrics.series import summarize
from testbed.report.chart import Axis, Band, Chart, Series, Spread
from testbed.report.page import Section, render
from testbed.report.table import Table
from testbed.scenario.measure.expectation import FORMATS
from testbed.shown import format_count, format_time

_SPREAD_SHARE: Final = 0.25
"""Of the room of a cell: how far aside its runs stand."""
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


class CellPlot(NamedTuple):
    """One figure in all cells that measured it, and what is said of which cells, by numbers."""

    chart: Chart
    notes: Mapping[str, Sequence[int]]

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """Style of each note, and its text."""
        return [
            (note if note in ("better", "worse") else "", f"{_named(cells)}: {note}")
            for note, cells in self.notes.items()
        ]


def cell_sections(compared: Comparisons, varied: Collection[str]) -> tuple[list[Section], list[Chart]]:
    """Sections of the page and their charts; none when the campaign neither repeats nor varies anything.

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
        return [], []
    parts, charts = [], []
    for place, scenario in enumerate(scenarios, start=1):
        plots = list(_plots(compared, scenario, numbers, f"cells-{place}"))
        title = "Figures" if len(scenarios) == 1 else f"Figures of {scenario}"
        against = " ".join(f"{key}={value}" for key, value in compared.baseline.items())
        if plots:
            drawn = render("testbed.campaign", "plots.html.j2", plots=plots, against=against)
            parts.append(Section(f"figures-{place}", title, drawn))
            charts += [plot.chart for plot in plots]
    sections = [
        *parts,
        Section("cells", "Cells", _cells(compared, keys, numbers)),
        Section("times", "Times of all runs of a cell together", _times(compared.cells)),
    ]
    return sections, charts


def _plots(compared: Comparisons, scenario: str, numbers: Mapping[str, int], key: str) -> Iterator[CellPlot]:
    """A plot for each figure of a scenario that is not the same in all its runs."""
    cells = [cell for cell in compared.cells if cell.scenario == scenario]
    effects = {(each.cell, each.name): each for each in compared.found}
    references = {(each.baseline, each.name) for each in compared.found}
    for name in dict.fromkeys(name for cell in cells for name in cell.figures):
        measured = [cell for cell in cells if name in cell.figures]
        if len({value for cell in measured for value in cell.figures[name].values}) == 1:
            continue
        places: list[float] = []
        values: list[float] = []
        spreads, bands = [], []
        notes: dict[str, list[int]] = {}
        for place, cell in enumerate(measured):
            runs = cell.figures[name].values
            places += [place + aside for aside in _asides(len(runs))]
            values += runs
            found = estimate(runs)
            spreads.append(Spread(place, found.median, found.low, found.high))
            if (cell.key, name) in references:
                bands.append(Band("baseline", ((place - 0.5, place + 0.5),)))
            note = _note(effects.get((cell.key, name)), found)
            if note:
                notes.setdefault(note, []).append(numbers[cell.key])
        ticks = tuple((float(place), str(numbers[cell.key])) for place, cell in enumerate(measured))
        across = Axis("", format_count, -0.5, len(measured) - 0.5, ticks=ticks, bands=tuple(bands))
        upward = Axis("", FORMATS[measured[0].figures[name].dimension])
        runs_of_all = (Series("runs", tuple(places), tuple(values)),)
        yield CellPlot(
            Chart(
                name, "cells", across, upward, runs_of_all, f"{key}-{name}",
 spreads=tuple(spreads),
            ),
            notes,
        )  # fmt: skip


def _asides(count: int) -> list[float]:
    """Where the dots of a cell's runs stand, beside its middle."""
    if count == 1:
        return [0.0]
    return [(2 * index / (count - 1) - 1) * _SPREAD_SHARE for index in range(count)]


def _note(compared: CellComparison | None, found: Estimate) -> str:
    if compared is not None:
        return compared.verdict
    if found.low is None:
        return f"too few runs for an interval, {INTERVAL_RUNS_MIN - found.runs} more would do"
    return ""


def _named(cells: Sequence[int]) -> str:
    return f"{'cell' if len(cells) == 1 else 'cells'} {_ranges(cells)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Join numbers, such as `1, 3 to 6`."""
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
        place = [each.place.get(key, "") for key in keys]
        marked = "baseline" if each.key in references else ""
        named = str(numbers[each.key]), each.scenario
        rows.append([*named, *place, statuses, marked])
    return Table(("##", "scenario", *keys, "runs", ""), rows).html()


def _times(cells: Sequence[Cell]) -> str:
    rows = []
    for place, each in enumerate(cells, start=1):
        for name, histogram in each.times.items():
            found = summarize(histogram)
            if found is None:
                continue
            shown = (found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns, found.max_ns)
            times = [format_time(time_ns) for time_ns in shown]
            rows.append([str(place), name, format_count(found.count), *times])
    return Table(("##", "times", "#count", *(f"#{name}" for name in _PERCENTILES)), rows).html()
