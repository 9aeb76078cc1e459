"""report.html of a campaign, which opens offline: what cells measured, and a row per run. Pure."""

from collections.abc import Sequence
from typing import Final

from testbed.campaign.cell_expectation import CellOutcome
from testbed.campaign.cell_page import Comparisons, cell_sections
from testbed.campaign.row import Summary, SummaryRow
from testbed.report.page import Section, chart_data, page, render
from testbed.report.table import Cell, Table

_STYLES: Final = {"passed": "good", "failed": "bad", "error": "bad", "aborted": "bad"}
_OUTCOMES: Final = {"held": "good", "failed": "bad", "cannot tell": "warn"}


def build_page(summary: Summary, compared: Comparisons) -> str:
    varied = list(dict.fromkeys(key for row in summary.rows for key in row.varied))
    heads = ["scenario", *varied, "seed", "figure", "claim", "verdict", "measured", "fidelity"]
    outcomes = Table(("", "expectation", "cell", "measured"), list(map(_outcome, summary.expectations)))
    cells, charts = cell_sections(compared, summary.varied)
    sections = [
        Section("expectations", "Expectations", outcomes.html()),
        *cells,
        Section("runs", "Runs", Table(heads, [_row(row, varied) for row in summary.rows]).html()),
    ]
    shown = [each for each in sections if each.content]
    data = chart_data(charts) if charts else ""
    body = render("testbed.campaign", "page.html.j2", summary=summary, sections=shown, data=data)
    return page(summary.name, body, has_charts=bool(charts))


def _outcome(each: CellOutcome) -> tuple[Cell | str, ...]:
    mark = Cell(each.outcome, f"mark {_OUTCOMES[each.outcome]}")
    return mark, Cell(each.text, is_code=True), each.cell, each.reason


def _row(row: SummaryRow, varied: Sequence[str]) -> list[Cell | str]:
    return [
        Cell(row.scenario, link=row.page or ""),
        *(row.varied.get(key, "") for key in varied),
        str(row.seed),
        row.figure,
        row.claim,
        Cell(row.status, _STYLES.get(row.status, "warn"), is_strong=True),
        Cell("", more=render("testbed.campaign", "measured.html.j2", row=row)),
        row.fidelity,
    ]
