"""The page of a scenario's variants: the figure, expectations across them, a row for each. Pure."""

from collections.abc import Iterable
from html import escape
from importlib import resources
from typing import Final

from testbed.campaign.row import SummaryRow
from testbed.campaign.variant_chart import variant_charts
from testbed.scenario.report.chart import draw_figure

_MARKS: Final = {"passed": ("good", "\u2713"), "failed": ("bad", "\u2717"), "error": ("bad", "!")}
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def build_variant_page(row: SummaryRow, description: str, *, base: str) -> str:
    """The page as HTML text.

    Args:
        row: of the variants.
        description: of the scenario.
        base: where the campaign's folder is, as seen from the page.
    """
    style, mark = _MARKS.get(row.status, ("warn", "?"))
    head = [
        f'<div class="head"><h1>{escape(row.key)}</h1>'
        f'<span class="badge {style}">{mark} {escape(row.status)}</span></div>',
        f"<p>{escape(description)}</p>",
        f'<p class="muted">{escape(_sentence(row))} Seed {row.seed}.</p>',
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(row.scenario)}: {escape(row.status)}</title>
<style>
{_style_sheet()}</style>
</head>
<body>
<main>
<header>{"".join(head)}</header>
{_figure(row)}
<section><h2>Expectations</h2>
{_expectations(row)}
</section>
<section><h2>Variants</h2>
{_variants(row, base)}
</section>
</main>
</body>
</html>
"""


def build_variant_figure(row: SummaryRow) -> str | None:
    """The figure as an SVG file; None when nothing was measured."""
    charts = variant_charts(row)
    return draw_figure(charts, is_file=True) if charts else None


def _sentence(row: SummaryRow) -> str:
    parts = [part.rstrip(".") + "." for part in (row.figure, row.claim, row.reason) if part]
    return " ".join(part[:1].upper() + part[1:] for part in parts)


def _figure(row: SummaryRow) -> str:
    charts = variant_charts(row)
    return f'<div class="card">{draw_figure(charts, is_file=False)}</div>' if charts else ""


def _expectations(row: SummaryRow) -> str:
    rows = []
    for each in row.expectations:
        style, mark = ("good", "\u2713 held") if each["passed"] else ("bad", "\u2717 not")
        text, reason = escape(each["text"]), escape(each["reason"])
        mark_cell = f'<td class="mark {style}">{mark}</td>'
        rows.append(f"<tr>{mark_cell}<td><code>{text}</code></td><td>{reason}</td></tr>")
    return _table(("", "expectation", "what was measured"), rows)


def _variants(row: SummaryRow, base: str) -> str:
    rows = []
    for run in row.variants:
        name = escape(run.name)
        if run.folder is not None:
            name = f'<a href="{escape(base)}{escape(run.folder)}/report.html">{name}</a>'
        style = _MARKS.get(run.status, ("warn", "?"))[0]
        cells = "".join(f'<td class="number">{escape(run.shown(quantity))}</td>' for quantity in row.compare)
        status = f'<td class="mark {style}">{escape(run.status)}</td>'
        rows.append(f"<tr><td>{name}</td>{cells}{status}<td>{escape(run.reason)}</td></tr>")
    return _table(("variant", *row.compare, "run", ""), rows)


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _style_sheet() -> str:
    return resources.files("testbed.scenario.report").joinpath("assets", "report.css").read_text("utf-8")
