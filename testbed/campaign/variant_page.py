"""The page of a scenario's variants, in one file: what they come to, in a sentence and a chart over time;
expectations across them, a row for each, and their own reports. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from testbed.campaign.row import SummaryRow
from testbed.campaign.variant_chart import variant_charts
from testbed.campaign.variant_factor import factor_sentence
from testbed.scenario.report.chart import Chart, draw_figure
from testbed.scenario.report.expectation_table import JudgedExpectation, expectation_table
from testbed.scenario.report.html_table import number_cell, table, text_cell
from testbed.scenario.report.outline import Section, contents, draw_sections, page
from testbed.scenario.report.page import cursor_script, embedded_report

_MARKS: Final = {"passed": ("good", "\u2713"), "failed": ("bad", "\u2717"), "error": ("bad", "!")}
_REPORTS_MAX_BYTES: Final = 8_000_000
"""Reports beyond that are left in their folders: what is larger is refused by many a mail server."""


def build_variant_page(row: SummaryRow, over_time: Chart | None, reports: Mapping[str, str]) -> str:
    """The page as HTML text.

    Args:
        row: of the variants.
        over_time: all variants over time; None where nothing was read.
        reports: variant -> report.html of its run.
    """
    embedded = _embedded(row, reports)
    sections = [
        Section("time", "Over time", _card([over_time]) if over_time else ""),
        Section("compared", "Compared", _card(variant_charts(row))),
        Section("variants", "Variants", _variants(row, embedded)),
        Section("expectations", "Expectations", expectation_table(_expectations(row))),
        Section("reports", "Reports of the variants", "\n".join(embedded.values())),
    ]
    body = f"{_head(row)}\n{contents(sections)}\n{draw_sections(sections)}"
    return page(f"{row.scenario}: {row.status}", body, script=cursor_script())


def build_variant_figure(row: SummaryRow, over_time: Chart | None) -> str | None:
    """The figure as an SVG file; None when nothing was measured."""
    charts = [*([over_time] if over_time else []), *variant_charts(row)]
    return draw_figure(charts, is_file=True) if charts else None


def _head(row: SummaryRow) -> str:
    style, mark = _MARKS.get(row.status, ("warn", "?"))
    texts = [f"{text.rstrip('.')}." for text in (row.figure, row.claim) if text]
    factor = factor_sentence(row.compare, row.variants)
    headline = f'<p class="headline">{escape(factor)}.</p>' if factor else ""
    reason = f'<p class="muted">{escape(row.reason.rstrip("."))}. Seed {row.seed}.</p>'
    return (
        f'<header><div class="head"><h1>{escape(row.scenario)}</h1>'
        f'<span class="badge {style}">{mark} {escape(row.status)}</span></div>'
        f"<p>{escape(' '.join(texts))}</p>{headline}{reason}</header>"
    )


def _expectations(row: SummaryRow) -> Iterator[JudgedExpectation]:
    """Those across variants; of those that hold for each variant, one for each."""
    for each in row.expectations:
        own = [
            JudgedExpectation.load(found, run.name)
            for run in row.variants
            for found in run.expectations
            if found["text"] == each["text"]
        ]
        yield from own or [JudgedExpectation.load(each)]


def _card(charts: Sequence[Chart]) -> str:
    return f'<div class="card">{draw_figure(charts, is_file=False)}</div>' if charts else ""


def _variants(row: SummaryRow, embedded: Mapping[str, str]) -> str:
    rows = []
    for run in row.variants:
        name = escape(run.name)
        if run.name in embedded:
            name = f'<a href="#run-{name}">{name}</a>'
        style = _MARKS.get(run.status, ("warn", "?"))[0]
        figures = [number_cell(run.shown(quantity)) for quantity in row.compare]
        rows.append(
            [f"<td>{name}</td>", *figures, text_cell(run.status, f"mark {style}"), text_cell(run.reason)]
        )
    return table(("variant", *(f"#{quantity}" for quantity in row.compare), "result", "why"), rows)


def _embedded(row: SummaryRow, reports: Mapping[str, str]) -> dict[str, str]:
    """The reports, folded, as far as there is room for them."""
    found: dict[str, str] = {}
    room = _REPORTS_MAX_BYTES
    for run in row.variants:
        report = reports.get(run.name)
        if report is None or len(report) > room:
            continue
        room -= len(report)
        name, inner = escape(run.name), embedded_report(report, f"{run.name}-")
        found[run.name] = (
            f"<details><summary>{name}: {escape(run.status)}</summary>\n"
            f'<article class="run" id="run-{name}">{inner}</article></details>'
        )
    return found
