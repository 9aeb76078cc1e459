"""report.html of a campaign, which opens offline: what cells measured, and a row per run. Pure."""

from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Final

from testbed.campaign.cell_expectation import CellOutcome
from testbed.campaign.cell_page import STYLE, Comparisons, build_cells_section
from testbed.campaign.row import Summary, SummaryRow

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLES: Final = {"passed": "good", "failed": "bad", "error": "bad", "aborted": "bad"}
_OUTCOMES: Final = {"held": "good", "failed": "bad", "cannot tell": "warn"}
_RUNS_STYLE: Final = """
td ul { margin: .2rem 0 0; padding-left: 1.1rem } td details > summary { padding: 0; color: var(--ink) }
@media (max-width: 600px) { main { padding: 16px 10px 40px } .card { padding: 10px } }
"""


def build_page(summary: Summary, compared: Comparisons) -> str:
    """The page."""
    varied = list(dict.fromkeys(key for row in summary.rows for key in row.varied))
    heads = ["scenario", *varied, "seed", "figure", "claim", "verdict", "measured", "fidelity"]
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    rows = "\n".join(_row(row, varied) for row in summary.rows)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(summary.name)}</title>
<style>
{_style_sheet()}{STYLE}{_RUNS_STYLE}</style></head><body><main>
<header><h1>{escape(summary.name)}</h1><p>{escape(summary.description)}</p>
<p><b>{escape(summary.headline)}</b></p></header>
{_expectations(summary)}
{build_cells_section(compared, summary.varied)}
<section><h2>Runs</h2>
<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table></div></section>
</main></body></html>
"""


def _expectations(summary: Summary) -> str:
    if not summary.expectations:
        return ""
    rows = "\n".join(_outcome(each) for each in summary.expectations)
    head = "<tr><th></th><th>expectation</th><th>cell</th><th>because</th></tr>"
    return (
        '<section><h2>Expectations</h2>\n<div class="scroll"><table>'
        f"<thead>{head}</thead><tbody>\n{rows}\n</tbody></table></div></section>"
    )


def _outcome(each: CellOutcome) -> str:
    mark = f'<td class="mark {_OUTCOMES[each.outcome]}">{each.outcome}</td>'
    text, cell, reason = (escape(said) for said in (each.text, each.cell, each.reason))
    return f"<tr>{mark}<td><code>{text}</code></td><td>{cell}</td><td>{reason}</td></tr>"


def _style_sheet() -> str:
    return resources.files("testbed.scenario.report").joinpath("assets", "report.css").read_text("utf-8")


def _row(row: SummaryRow, varied: Sequence[str]) -> str:
    scenario = escape(row.scenario)
    if row.page is not None:
        scenario = f'<a href="{escape(row.page)}">{scenario}</a>'
    cells = [scenario, *(escape(row.varied.get(key, "")) for key in varied), str(row.seed)]
    cells += [escape(row.figure), escape(row.claim)]
    cells.append(f'<span class="{_STYLES.get(row.status, "warn")}"><b>{escape(row.status)}</b></span>')
    cells += [_measured(row), row.fidelity]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


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
