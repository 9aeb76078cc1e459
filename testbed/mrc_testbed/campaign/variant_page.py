"""The page of a scenario's variants, in one file: what they come to, in a sentence and a chart over time;
expectations across them, a row for each, and their own reports. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from markupsafe import Markup

from mrc_testbed.campaign.summary import SummaryRow
from mrc_testbed.campaign.variant_charts import variant_charts
from mrc_testbed.campaign.variants import factor_sentence
from mrc_testbed.report.chart import Chart
from mrc_testbed.report.page import Section, chart_cards, chart_data, page, render
from mrc_testbed.report.table import Table, TableCell
from mrc_testbed.scenario.report.expectation_table import expectation_table
from mrc_testbed.scenario.report.run_page import embedded_report

_MARKS: Final = {"passed": ("good", "\u2713"), "failed": ("bad", "\u2717"), "error": ("bad", "!")}
_PACKAGE: Final = "mrc_testbed.campaign"
_REPORTS_MAX_BYTES: Final = 8_000_000
"""Reports beyond that are left in their folders: what is larger is refused by many a mail server."""


def build_variant_page(row: SummaryRow, over_time: Chart | None, reports: Mapping[str, str]) -> str:
    embedded = _embedded(row, reports)
    charts = page_charts(row, over_time)
    first = charts[: 1 if over_time else 0]
    contained = [(run.name, run.status, embedded[run.name]) for run in row.variants if run.name in embedded]
    sections = [
        Section("time", "Over time", chart_cards(first)),
        Section("compared", "Compared", chart_cards(charts[len(first) :])),
        Section("variants", "Variants", _variants(row, embedded)),
        Section("expectations", "Expectations", expectation_table(_expectations(row))),
        Section("reports", "Reports of the variants", render(_PACKAGE, "reports.html.j2", reports=contained)),
    ]
    style, mark = _MARKS.get(row.status, ("warn", "?"))
    body = render(
        _PACKAGE,
        "variants.html.j2",
        row=row,
        style=style,
        mark=mark,
        texts=" ".join(f"{text.rstrip('.')}." for text in (row.figure, row.claim) if text),
        factor=factor_sentence(row.compare, row.variants),
        reason=row.reason.rstrip("."),
        sections=sections,
        data=chart_data(charts),
    )
    return page(f"{row.scenario}: {row.status}", body)


def page_charts(row: SummaryRow, over_time: Chart | None) -> tuple[Chart, ...]:
    """The charts of the page and of its figure; none when nothing was measured."""
    charts = (*([over_time] if over_time else []), *variant_charts(row))
    return tuple(replace(chart, key=f"variants-{place}") for place, chart in enumerate(charts))


def _expectations(row: SummaryRow) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Those across variants; of those that hold for each variant, one for each."""
    for each in row.expectations:
        of_runs = ((run.name, found) for run in row.variants for found in run.expectations)
        own = [(name, found) for name, found in of_runs if found["text"] == each["text"]]
        yield from own or [("", each)]


def _variants(row: SummaryRow, embedded: Mapping[str, Markup]) -> Markup:
    rows: list[list[TableCell | str]] = [
        [
            TableCell(run.name, link=f"#run-{run.name}" if run.name in embedded else ""),
            *(run.shown(quantity) for quantity in row.compare),
            TableCell(run.status, f"mark {_MARKS.get(run.status, ('warn', '?'))[0]}"),
            run.reason,
        ]
        for run in row.variants
    ]
    return Table(("variant", *(f"#{quantity}" for quantity in row.compare), "result", "why"), rows).html()


def _embedded(row: SummaryRow, reports: Mapping[str, str]) -> dict[str, Markup]:
    """The reports, as far as there is room for them."""
    found: dict[str, Markup] = {}
    room = _REPORTS_MAX_BYTES
    for run in row.variants:
        report = reports.get(run.name)
        if report is not None and len(report) <= room:
            room -= len(report)
            found[run.name] = embedded_report(report, f"{run.name}-")
    return found
