"""report.html of a campaign, which opens offline: plots of its cells, their times, a row per run. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mrc_testbed.campaign.cells import Cell, CellComparison, compare_cells
from mrc_testbed.campaign.judge import outcome_table
from mrc_testbed.campaign.statistics import ALL_TIMES, MEDIAN_OF_RUNS, SEEDS_MIN, Estimate, estimate
from mrc_testbed.campaign.summary import Summary, SummaryRow
from mrc_testbed.metrics.series import summarize
from mrc_testbed.report.chart import Axis, Band, Chart, Series, Spread
from mrc_testbed.report.page import Section, chart_data, page, render
from mrc_testbed.report.table import Table, TableCell
from mrc_testbed.scenario.measure.expectation import FORMATS, answer_of
from mrc_testbed.shown import format_count

_STYLES: Final = {"passed": "good", "failed": "bad", "error": "bad", "aborted": "bad"}
_SPREAD_SHARE: Final = 0.25
"""Share of a cell's width over which its runs are spread."""
_PERCENTILES: Final = ("p50", "p90", "p99", "p99.9", "max")


def build_page(summary: Summary, found: Sequence[Cell], baseline: Mapping[str, str]) -> str:
    heads = ["scenario", *summary.varied, "seed", "figure", "claim", "verdict", "measured", "fidelity"]
    compared = compare_cells(found, baseline)
    cells, charts = cell_sections(found, compared, baseline, summary.varied)
    factors = list(_factors(compared, summary.named))
    sections = [
        Section("expectations", "Expectations", outcome_table(summary.expectations).html()),
        *cells,
        Section("runs", "Runs", Table(heads, [_row(row, summary.varied) for row in summary.rows]).html()),
    ]
    data = chart_data(charts) if charts else ""
    parts = {"factors": factors, "sections": sections, "data": data}
    body = render("mrc_testbed.campaign", "page.html.j2", summary=summary, **parts)
    return page(summary.title, body, has_charts=bool(charts))


def _factors(compared: Sequence[CellComparison], named: Sequence[str]) -> Iterator[str]:
    """A sentence for each cell that differs from its baseline in the first of *named* that any differs in."""
    shown = [each for each in compared if each.effect.finding in ("more", "less")]
    name = next((name for name in named if any(each.name == name for each in shown)), None)
    for each in shown:
        if each.name == name and (factor := each.factor):
            yield f"{each.cell}: {factor} the {name} of {each.baseline} ({MEDIAN_OF_RUNS})"


def _row(row: SummaryRow, varied: Sequence[str]) -> list[TableCell | str]:
    return [
        TableCell(row.scenario, link=row.page or ""),
        *(row.varied.get(key, "") for key in varied),
        str(row.seed),
        row.figure,
        row.claim,
        TableCell(row.status, _STYLES.get(row.status, "warn"), is_strong=True),
        TableCell("", more=render("mrc_testbed.campaign", "measured.html.j2", row=row, answer_of=answer_of)),
        row.fidelity,
    ]


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


def cell_sections(
    cells: Sequence[Cell],
    compared: Sequence[CellComparison],
    baseline: Mapping[str, str],
    varied: Collection[str],
) -> tuple[list[Section], list[Chart]]:
    """Sections of the page and their charts; none when the campaign neither repeats nor varies anything.

    Args:
        compared: with the baseline's cells.
        varied: dotted keys that the campaign varies; variants of a scenario have a page of their own.
    """
    numbers = {cell.key: number for number, cell in enumerate(cells, start=1)}
    scenarios = dict.fromkeys(
        cell.scenario for cell in cells if cell.counted > 1 or not cell.place.keys().isdisjoint(varied)
    )
    if not scenarios:
        return [], []
    parts, charts = [], []
    for place, scenario in enumerate(scenarios, start=1):
        measured = [cell for cell in cells if cell.scenario == scenario]
        plots = list(_plots(measured, compared, numbers, f"cells-{place}"))
        title = "Figures" if len(scenarios) == 1 else f"Figures of {scenario}"
        against = " ".join(f"{key}={value}" for key, value in baseline.items())
        if plots:
            drawn = render("mrc_testbed.campaign", "plots.html.j2", plots=plots, against=against)
            parts.append(Section(f"figures-{place}", title, drawn))
            charts += [plot.chart for plot in plots]
    numbered = [([str(numbers[cell.key])], cell) for cell in cells]
    sections = [
        *parts,
        Section("cells", "Cells", _cells(cells, compared)),
        Section("times", ALL_TIMES.capitalize(), times_table(["##"], numbered).html()),
    ]
    return sections, charts


def _plots(
    cells: Sequence[Cell], compared: Sequence[CellComparison], numbers: Mapping[str, int], key: str
) -> Iterator[CellPlot]:
    """A plot for each figure of a scenario's cells that is not the same in all their runs."""
    effects = {(each.cell, each.name): each for each in compared}
    references = {(each.baseline, each.name) for each in compared}
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
            for note in (_note(effects.get((cell.key, name)), found), cell.figures[name].modes):
                if note:
                    notes.setdefault(note, []).append(numbers[cell.key])
        title, labels = _labels(measured, numbers)
        ticks = tuple((float(place), label) for place, label in enumerate(labels))
        across = Axis(title, format_count, -0.5, len(measured) - 0.5, ticks=ticks, bands=tuple(bands))
        upward = Axis(name.partition(" ")[0], FORMATS[measured[0].figures[name].dimension])
        runs_of_all = (Series("runs", tuple(places), tuple(values)),)
        chart = Chart(name, "cells", across, upward, runs_of_all, f"{key}-{name}", spreads=tuple(spreads))
        yield CellPlot(chart, notes)


def _labels(cells: Sequence[Cell], numbers: Mapping[str, int]) -> tuple[str, list[str]]:
    """Title of the axis of cells, and their labels: number, and value where they differ in one key alone."""
    keys = dict.fromkeys(key for cell in cells for key in cell.place)
    varied = [key for key in keys if len({cell.place.get(key) for cell in cells}) > 1]
    if len(varied) != 1:
        return "cell", [str(numbers[cell.key]) for cell in cells]
    [key] = varied
    return f"cell: {key}", [f"{numbers[cell.key]}: {cell.place.get(key, '')}" for cell in cells]


def _asides(count: int) -> list[float]:
    """Where the dots of a cell's runs stand, beside its middle."""
    if count == 1:
        return [0.0]
    return [(2 * index / (count - 1) - 1) * _SPREAD_SHARE for index in range(count)]


def _note(compared: CellComparison | None, found: Estimate) -> str:
    if compared is not None:
        return compared.verdict
    if found.low is None:
        return f"too few runs for an interval, {SEEDS_MIN - found.runs} more would do"
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


def _cells(cells: Sequence[Cell], compared: Sequence[CellComparison]) -> str:
    keys = list(dict.fromkeys(key for cell in cells for key in cell.place))
    references = {each.baseline for each in compared}
    rows = []
    for number, each in enumerate(cells, start=1):
        statuses = ", ".join(f"{count} {status}" for status, count in each.statuses.items())
        place = [each.place.get(key, "") for key in keys]
        marked = "baseline" if each.key in references else ""
        rows.append([str(number), each.scenario, *place, statuses, marked])
    return Table(("##", "scenario", *keys, "runs", ""), rows).html()


def times_table(heads: Sequence[str], cells: Iterable[tuple[Sequence[str], Cell]]) -> Table:
    """Percentiles of all times of each cell, behind what names it."""
    rows = [
        [*named, name, format_count(found.count), *found.shown()]
        for named, cell in cells
        for name, histogram in cell.times.items()
        if (found := summarize(histogram)) is not None
    ]
    return Table((*heads, "times", "#count", *(f"#{name}" for name in _PERCENTILES)), rows)
