"""Files of a campaign's summary: Markdown, JSON, JUnit, CSV and HTML."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any, Final

from markupsafe import Markup

from mrc_testbed.campaign.campaign_page import build_page
from mrc_testbed.campaign.cells import cells_of
from mrc_testbed.campaign.folder import NOT_RUN, SCHEMA_VERSION, CampaignFolder
from mrc_testbed.campaign.judge import CellOutcome
from mrc_testbed.campaign.markdown import build_markdown
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.summary import Summary, SummaryRow, summarize_campaign
from mrc_testbed.campaign.tables import build_csv, finished_run, run_row
from mrc_testbed.campaign.variants import factor_sentence, size_axis, size_of, without_window
from mrc_testbed.document.text_file import read_result
from mrc_testbed.report.chart import SECONDS, STYLES, Axis, Band, Chart, Series, bar_chart, size_chart
from mrc_testbed.report.chart_file import figure_files
from mrc_testbed.report.page import Section, chart_cards, chart_data, page, render
from mrc_testbed.report.table import Table, TableCell
from mrc_testbed.scenario.measure.expectation import FORMATS, answer_of
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.junit import Case, expectation_case, junit_suite, junit_text
from mrc_testbed.scenario.report.panel import TIME_TITLE
from mrc_testbed.scenario.report.report_tables import expectation_table
from mrc_testbed.scenario.report.run_page import embedded_report
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.expression_tree import Quantity
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import Scale, format_rate, format_time
from mrc_testbed.workloads.job import slowest_of_each, step_word

_ROW_KEYS: Final = (
    "index", "key", "scenario", "varied", "seed", "figure", "claim", "status", "reason", "folder",
    "fidelity", "untrusted_before", "expectations",
)  # fmt: skip
_SKIPPED: Final = {NOT_RUN: "the campaign ended before it", Status.UNTRUSTED.value: "UNTRUSTED: "}
"""Statuses that JUnit knows as skipped -> what the message begins with."""

_POINTS_MAX: Final = 400


def variant_charts(row: SummaryRow) -> tuple[Chart, ...]:
    """Charts of the variants: one per quantity, its windows side by side; flows at the end."""
    if not row.variants or not any(run.measures for run in row.variants):
        return ()
    sizes = size_axis(row.variants)
    charts = _over_sizes(row, sizes) if sizes is not None else _side_by_side(row)
    return (*charts, *_flows(row))


def _scale(quantity: Quantity) -> Scale:
    """Scale of a quantity's values; of a count that has a unit, with that."""
    return Scale(((1, quantity.kind.unit),)) if quantity.kind.unit else FORMATS[quantity.dimension]


def _over_sizes(row: SummaryRow, sizes: str) -> Iterator[Chart]:
    for name in row.compare:
        curves: dict[str, dict[int, float]] = {}
        for run in row.variants:
            value, size_bytes = run.value(name), size_of(run.values[sizes])
            others = [other for axis, other in run.values.items() if axis != sizes]
            if value is not None and size_bytes is not None:
                curves.setdefault("-".join(others), {})[size_bytes] = value
        quantity = parse_quantity(name)
        yield size_chart(name, without_window(quantity), curves, _scale(quantity))


def _side_by_side(row: SummaryRow) -> Iterator[Chart]:
    by_kind: dict[str, list[Quantity]] = {}
    for name in row.compare:
        quantity = parse_quantity(name)
        by_kind.setdefault(without_window(quantity), []).append(quantity)
    for base, quantities in by_kind.items():
        bars = {
            str(quantity).removeprefix(base).strip(): _values(row, str(quantity)) for quantity in quantities
        }
        title = str(quantities[0]) if len(quantities) == 1 else base
        shown = {"": bars.popitem()[1]} if len(quantities) == 1 else bars
        yield bar_chart(title, base, shown, _scale(quantities[0]))


def _values(row: SummaryRow, quantity: str) -> dict[str, float]:
    found = ((run.name, run.value(quantity)) for run in row.variants)
    return {name: value for name, value in found if value is not None}


def _flows(row: SummaryRow) -> Iterator[Chart]:
    """A bar for each flow, where the scenario draws flows."""
    bars: dict[str, Mapping[str, float]] = {run.name: run.flows for run in row.variants if run.flows}
    if bars:
        yield bar_chart("Goodput of each flow", "goodput", bars, format_rate)


def time_chart(folder: CampaignFolder, runs: Sequence[PlannedRun]) -> Chart | None:
    """Step times of the first job, else goodput; None when no run or too many have left any."""
    plan = runs[0].plan
    job = next((each for each in plan.workloads if each.shared_work is not None), None)
    curves = []
    for run in runs:
        curve = _goodput(folder, run) if job is None else _steps(folder, run, job.name)
        if curve.y:
            curves.append(curve)
    if not 1 < len(curves) <= STYLES:
        return None
    time = _time_axis(plan, max(curve.x[-1] for curve in curves))
    if job is None or job.shared_work is None:
        return Chart("Goodput, all variants", "lines", time, Axis("goodput", format_rate), curves)
    name = f"{step_word(job.shared_work)} time"
    title = f"{name.capitalize()}, all variants"
    return Chart(title, "steps", time, Axis(name, format_time), curves)


def _steps(folder: CampaignFolder, run: PlannedRun, job: str) -> Series:
    """Time of each step of a job, from its beginning to that of the next."""
    steps = [
        (float(row["step_begin_ns"]), float(row["end_ns"]))
        for row in folder.rows(run, "operations.csv")
        if row["workload"] == job
    ]
    slowest = list(slowest_of_each(steps, _POINTS_MAX, lambda step: step[1] - step[0]))
    edges = [begin for begin, _ in slowest] + [end for _, end in slowest[-1:]]
    return Series(run.plan.variant or "", edges, [end - begin for begin, end in slowest])


def _goodput(folder: CampaignFolder, run: PlannedRun) -> Series:
    """Goodput of all hosts; of a long run, the mean over each few intervals."""
    rows = [
        (float(row["time_ns"]), float(row["interval_ns"]), float(row["goodput_bps"]))
        for row in folder.rows(run, "series.csv")
    ]
    spacing_ns = max(1.0, (rows[-1][0] - rows[0][0]) / _POINTS_MAX) if rows else 1.0
    middles, rates_bps = [], []
    for _, group in groupby(rows, key=lambda row: row[0] // spacing_ns):
        joined = list(group)
        length_ns = sum(interval_ns for _, interval_ns, _ in joined)
        rates_bps.append(sum(interval_ns * rate for _, interval_ns, rate in joined) / length_ns)
        middles.append(joined[-1][0] - length_ns / 2)
    return Series(run.plan.variant or "", middles, rates_bps)


def _time_axis(plan: Plan, last_ns: float) -> Axis:
    """The time axis, with the faults as they were planned."""
    bands = []
    for fault in plan.faults:
        periods = tuple(
            (float(start_ns), float(last_ns if end_ns is None else end_ns))
            for start_ns, end_ns in fault.periods
        )
        if periods:
            bands.append(Band(fault.fault_id, periods))
    start_ns = float(min(plan.start_ns, 0))
    return Axis(TIME_TITLE, SECONDS, start_ns, last_ns, bands=tuple(bands), measured=(0.0, last_ns))


def write_summary(folder: CampaignFolder) -> Summary:
    """Write summary.md, summary.json, junit.xml, runs.csv and report.html; return what they say."""
    summary = summarize_campaign(folder)
    folder.write("summary.md", build_markdown(summary))
    folder.write("summary.json", json.dumps(summary_document(summary), indent=2, ensure_ascii=False) + "\n")
    folder.write("junit.xml", build_junit(summary))
    ended = (finished_run(folder, run) for run in sorted(folder.wanted, key=lambda run: run.index))
    folder.write("runs.csv", build_csv([run_row(run) for run in ended if run is not None]))
    _write_pages(folder, summary)
    return summary


def _write_pages(folder: CampaignFolder, summary: Summary) -> None:
    """report.html, and for each scenario with variants a page and a figure of its own."""
    report = ""
    for row in summary.rows:
        if row.variants and row.page is not None:
            runs = [run for run in folder.wanted if run.group == row.key]
            over_time = time_chart(folder, runs)
            report = build_variant_page(row, over_time, _reports(folder, runs))
            folder.write(row.page, report)
            for kind, content in figure_files(page_charts(row, over_time)).items():
                folder.write(f"{row.page.removesuffix('.html')}.{kind}", content)
    if not summary.is_of_variants:
        report = build_page(summary, cells_of(folder), folder.plan.baseline)
    folder.write("report.html", report)


def _reports(folder: CampaignFolder, runs: Iterable[PlannedRun]) -> dict[str, str]:
    """Variant -> report.html of its run; without those that have left none."""
    paths = {run.plan.variant or "": folder.file(run, "report.html") for run in runs}
    return {
        variant: read_result(path).decode()
        for variant, path in paths.items()
        if path is not None and os.path.lexists(path)
    }


def summary_document(summary: Summary) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": summary.name,
        "description": summary.description,
        "shard": summary.shard,
        "counts": dict(summary.counts),
        "expectations": [asdict(each) for each in summary.expectations],
        "runs": [
            {
                **{key: getattr(row, key) for key in _ROW_KEYS},
                "variants": [
                    {
                        "variant": run.name,
                        "values": dict(run.values),
                        "status": run.status,
                        "folder": run.folder,
                        "measures": {name: run.value(name) for name in run.measures},
                    }
                    for run in row.variants
                ],
            }
            for row in summary.rows
        ],
    }


def build_junit(summary: Summary) -> str:
    """junit.xml: the campaign is one suite per run, each expectation a case; what has not run is skipped,
    and so is what is not certain of an UNTRUSTED run: it has neither passed nor failed.
    """
    suites = [junit_suite(row.key, list(_cases(row))) for row in summary.rows]
    if summary.expectations:
        suites.append(junit_suite(summary.name, [_case(summary.name, each) for each in summary.expectations]))
    return junit_text(suites, {"name": summary.name})


def _case(campaign: str, found: CellOutcome) -> Case:
    case = Case(campaign, f"{found.text}: {found.cell}", message=found.reason)
    match found.outcome:
        case "held":
            return replace(case, message="")
        case "failed":
            return replace(case, outcome="failure", kind="expectation")
        case "cannot tell":
            return replace(case, outcome="skipped")


def _cases(row: SummaryRow) -> Iterator[Case]:
    """The run, and each of its expectations."""
    skipped = _SKIPPED.get(row.status)
    run = Case(row.scenario, "run")
    if skipped is not None:
        run = replace(run, outcome="skipped", message=f"{skipped}{row.reason}")
    elif row.status not in ("passed", "failed"):
        run = replace(run, outcome="error", message=row.reason, kind=row.status)
    yield run
    for each in row.expectations:
        # Runs of 0.3 do not say which expectations of an UNTRUSTED one are certain.
        answer = answer_of(each) if skipped is None or "outcome" in each else "cannot tell"
        yield expectation_case(Case(row.scenario, each["text"]), answer, each["reason"])


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
