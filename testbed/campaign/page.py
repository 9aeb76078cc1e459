"""report.html of a campaign: one file that opens offline, a row per run, linked to its own report. Pure."""

from collections.abc import Sequence
from html import escape
from typing import Final

from testbed.campaign.row import SummaryRow

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c2530 }
body { margin: 2rem auto; max-width: 78rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; vertical-align: top }
th, td { border-bottom: 1px solid #d9dee4 }
.passed { color: #18794e } .failed, .error, .aborted { color: #c62a2f }
.untrusted, .interrupted { color: #a15c07 }
.status { font-weight: 600 } .quiet { color: #6a7683 }
ul { margin: .2rem 0 0; padding-left: 1.1rem }
@media (prefers-color-scheme: dark) {
  body { background: #14181d; color: #dfe5ec } th, td { border-color: #2c343d } a { color: #7cb3f5 }
  .passed { color: #4cc38a } .failed, .error, .aborted { color: #ff8589 }
  .untrusted, .interrupted { color: #f1a10d }
}
"""


def build_page(name: str, description: str, headline: str, rows: Sequence[SummaryRow]) -> str:
    """The page."""
    varied = list(dict.fromkeys(key for row in rows for key in row.varied))
    heads = ["scenario", *varied, "seed", "figure", "claim", "verdict", "measured", "fidelity"]
    return (
        "\n".join(
            [
                "<!doctype html>",
                '<html lang="en"><head><meta charset="utf-8">',
                f"<title>{escape(name)}</title><style>{_STYLE}</style></head><body>",
                f"<h1>{escape(name)}</h1><p>{escape(description)}</p><p><b>{escape(headline)}</b></p>",
                "<table><thead><tr>",
                *(f"<th>{escape(head)}</th>" for head in heads),
                "</tr></thead><tbody>",
                *(_row(row, varied) for row in rows),
                "</tbody></table></body></html>",
            ]
        )
        + "\n"
    )


def _row(row: SummaryRow, varied: Sequence[str]) -> str:
    scenario = escape(row.scenario)
    if row.page is not None:
        scenario = f'<a href="{escape(row.page)}">{scenario}</a>'
    cells = [scenario, *(escape(row.varied.get(key, "")) for key in varied), str(row.seed)]
    cells += [escape(row.figure), escape(row.claim)]
    cells.append(f'<span class="status {escape(row.status.split()[0])}">{escape(row.status)}</span>')
    cells += [_measured(row), row.fidelity]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _measured(row: SummaryRow) -> str:
    if not row.expectations:
        return f'<span class="quiet">{escape(row.reason)}</span>'
    items = "".join(
        f'<li class="{"passed" if each["passed"] else "failed"}">{escape(str(each["reason"]))}</li>'
        for each in row.expectations
    )
    is_judged = row.status in ("passed", "failed")
    why = "" if is_judged else f'<div class="quiet">{escape(row.reason)}</div>'
    opened = " open" if row.status == "failed" else ""
    shown = escape(row.measured)
    return f"{why}<details{opened}><summary>{shown}</summary><ul>{items}</ul></details>"
