"""report.html of a campaign, which opens offline: what cells measured, and a row per run. Pure."""

from collections.abc import Sequence
from html import escape
from typing import Final

from testbed.campaign.cell_expectation import CellOutcome
from testbed.campaign.cell_page import STYLE, Comparisons, cell_sections
from testbed.campaign.row import Summary, SummaryRow
from testbed.scenario.report.html_table import table, text_cell
from testbed.scenario.report.outline import Section, contents, draw_sections, page

_STYLES: Final = {"passed": "good", "failed": "bad", "error": "bad", "aborted": "bad"}
_OUTCOMES: Final = {"held": "good", "failed": "bad", "cannot tell": "warn"}
_RUNS_STYLE: Final = """
td ul { margin: .2rem 0 0; padding-left: 1.1rem } td details > summary { padding: 0; color: var(--ink) }
"""


def build_page(summary: Summary, compared: Comparisons) -> str:
    """The page."""
    varied = list(dict.fromkeys(key for row in summary.rows for key in row.varied))
    heads = ["scenario", *varied, "seed", "figure", "claim", "verdict", "measured", "fidelity"]
    runs = table(heads, (_row(row, varied) for row in summary.rows))
    sections = [
        Section("expectations", "Expectations", _expectations(summary)),
        *cell_sections(compared, summary.varied),
        Section("runs", "Runs", runs),
    ]
    body = f"""<header><h1>{escape(summary.name)}</h1><p>{escape(summary.description)}</p>
<p class="headline">{escape(summary.headline)}</p></header>
{contents(sections)}
{draw_sections(sections)}"""
    return page(summary.name, body, style=STYLE + _RUNS_STYLE)


def _expectations(summary: Summary) -> str:
    return table(("", "expectation", "cell", "measured"), map(_outcome, summary.expectations))


def _outcome(each: CellOutcome) -> tuple[str, ...]:
    mark = text_cell(each.outcome, f"mark {_OUTCOMES[each.outcome]}")
    return mark, f"<td><code>{escape(each.text)}</code></td>", text_cell(each.cell), text_cell(each.reason)


def _row(row: SummaryRow, varied: Sequence[str]) -> list[str]:
    scenario = escape(row.scenario)
    if row.page is not None:
        scenario = f'<a href="{escape(row.page)}">{scenario}</a>'
    cells = [scenario, *(escape(row.varied.get(key, "")) for key in varied), str(row.seed)]
    cells += [escape(row.figure), escape(row.claim)]
    cells.append(f'<span class="{_STYLES.get(row.status, "warn")}"><b>{escape(row.status)}</b></span>')
    cells += [_measured(row), row.fidelity]
    return [f"<td>{content}</td>" for content in cells]


def _measured(row: SummaryRow) -> str:
    if not row.expectations:
        return f'<span class="muted">{escape(row.reason)}</span>'
    items = "".join(
        f'<li class="{"good" if each["passed"] else "bad"}">{escape(str(each["reason"]))}</li>'
        for each in row.expectations
    )
    is_judged = row.status in ("passed", "failed")
    why = "" if is_judged else f'<div class="muted">{escape(row.reason)}</div>'
    opened = " open" if row.status == "failed" else ""
    shown = escape(row.measured)
    return f"{why}<details{opened}><summary>{shown}</summary><ul>{items}</ul></details>"
