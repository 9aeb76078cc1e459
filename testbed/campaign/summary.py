"""Summary of a campaign: one row per run, as Markdown, JSON, JUnit and HTML."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final
from xml.etree import ElementTree as ET

from testbed.campaign.cell_comparison import compare_cells
from testbed.campaign.cell_page import Comparisons
from testbed.campaign.folder import SCHEMA_VERSION, CampaignFolder
from testbed.campaign.markdown import build_markdown
from testbed.campaign.measured import cells_of, outcomes_of
from testbed.campaign.page import build_page
from testbed.campaign.plan import PlannedRun
from testbed.campaign.row import NOT_RUN, Summary, SummaryRow
from testbed.campaign.side_by_side import VariantRun, judge_across, reason_of, worst_status
from testbed.campaign.variant_chart import in_order
from testbed.campaign.variant_page import build_variant_page, page_charts
from testbed.campaign.variant_time import time_chart
from testbed.report.figure import figure_files
from testbed.scenario.measure.verdict import Status
from testbed.scenario.report.result_text import printable

_SKIPPED: Final = {NOT_RUN: "the campaign ended before it", Status.UNTRUSTED.value: "UNTRUSTED: "}
"""Statuses that JUnit knows as skipped -> what the message begins with."""


def summarize_campaign(folder: CampaignFolder) -> Summary:
    """The summary of a campaign as its journal has it now."""
    runs = sorted(folder.wanted, key=lambda run: run.index)
    keys = dict.fromkeys(key for run in runs for key in run.varied)
    groups: dict[str, list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    rows = (
        _row(folder, group[0]) if group[0].plan.variant is None else _row_of_variants(folder, group)
        for group in groups.values()
    )
    plan = folder.plan
    return Summary(plan.name, plan.description, tuple(keys), tuple(rows), outcomes_of(folder))


def write_summary(folder: CampaignFolder) -> Summary:
    """Writes summary.md, summary.json, junit.xml and report.html; returns what they say.

    Raises:
        TestbedError: a file cannot be written.
    """
    summary = summarize_campaign(folder)
    folder.write("summary.md", build_markdown(summary))
    folder.write("summary.json", json.dumps(summary_document(summary), indent=2, ensure_ascii=False) + "\n")
    folder.write("junit.xml", build_junit(summary))
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
        cells = cells_of(folder)
        baseline = folder.plan.baseline
        report = build_page(summary, Comparisons(cells, baseline, compare_cells(cells, baseline)))
    folder.write("report.html", report)


def _reports(folder: CampaignFolder, runs: Iterable[PlannedRun]) -> dict[str, str]:
    """Variant -> report.html of its run; without those that have left none."""
    found = {}
    for run in runs:
        entry = folder.entry(run)
        path = None if entry is None or entry.folder is None else folder.path / entry.folder / "report.html"
        if path is not None and path.is_file():
            found[run.plan.variant or ""] = path.read_text(encoding="utf-8")
    return found


def summary_document(summary: Summary) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": summary.name,
        "description": summary.description,
        "counts": dict(summary.counts),
        "expectations": [asdict(each) for each in summary.expectations],
        "runs": [
            {
                "index": row.index,
                "key": row.key,
                "scenario": row.scenario,
                "varied": dict(row.varied),
                "seed": row.seed,
                "figure": row.figure,
                "claim": row.claim,
                "status": row.status,
                "reason": row.reason,
                "folder": row.folder,
                "fidelity": row.fidelity,
                "untrusted_before": row.untrusted_before,
                "expectations": [dict(each) for each in row.expectations],
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
    and so is what is UNTRUSTED: it has neither passed nor failed.
    """
    suites = ET.Element("testsuites", name=summary.name)
    for row in summary.rows:
        skipped = _SKIPPED.get(row.status)
        is_broken = row.status not in ("passed", "failed", *_SKIPPED)
        failures = sum(not each["passed"] for each in row.expectations) if skipped is None else 0
        suite = ET.SubElement(
            suites,
            "testsuite",
            name=printable(row.key),
            tests=str(len(row.expectations) + 1),
            failures=str(failures),
            errors=str(int(is_broken)),
            skipped=str(0 if skipped is None else len(row.expectations) + 1),
        )
        run = ET.SubElement(suite, "testcase", classname=row.scenario, name="run")
        if skipped is not None:
            ET.SubElement(run, "skipped", message=printable(f"{skipped}{row.reason}"))
        elif is_broken:
            ET.SubElement(run, "error", type=row.status, message=printable(row.reason))
        for each in row.expectations:
            case = ET.SubElement(suite, "testcase", classname=row.scenario, name=printable(each["text"]))
            if skipped is not None:
                ET.SubElement(case, "skipped", message=printable(f"{skipped}{row.reason}"))
            elif not each["passed"]:
                ET.SubElement(case, "failure", type="expectation", message=printable(each["reason"]))
    _add_expectations(suites, summary)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _add_expectations(suites: ET.Element, summary: Summary) -> None:
    """A suite of the campaign's own expectations, a case per cell."""
    if not summary.expectations:
        return
    outcomes = [each.outcome for each in summary.expectations]
    suite = ET.SubElement(
        suites,
        "testsuite",
        name=printable(summary.name),
        tests=str(len(outcomes)),
        failures=str(outcomes.count("failed")),
        errors="0",
        skipped=str(outcomes.count("cannot tell")),
    )
    for each in summary.expectations:
        name = printable(f"{each.text}: {each.cell}")
        case = ET.SubElement(suite, "testcase", classname=summary.name, name=name)
        if each.outcome == "failed":
            ET.SubElement(case, "failure", type="expectation", message=printable(each.reason))
        elif each.outcome == "cannot tell":
            ET.SubElement(case, "skipped", message=printable(each.reason))


def _row(folder: CampaignFolder, run: PlannedRun) -> SummaryRow:
    entry, manifest = folder.entry(run), folder.manifest(run)
    return SummaryRow(
        index=run.index,
        key=run.key,
        scenario=run.scenario,
        varied=run.varied,
        seed=run.plan.seed,
        figure=run.metadata.paper or "",
        claim=run.metadata.claim or run.metadata.description,
        status=NOT_RUN if entry is None else entry.status,
        reason="" if entry is None else entry.reason,
        folder=None if entry is None else entry.folder,
        expectations=() if manifest is None else tuple(manifest.get("expectations", ())),
        untrusted_before=folder.untrusted_before(run),
    )


def _row_of_variants(folder: CampaignFolder, group: list[PlannedRun]) -> SummaryRow:
    first = group[0]
    runs = tuple(_variant_run(folder, run) for run in group)
    planned = sum(each.group == first.group for each in folder.plan.runs)
    is_whole = len(group) == planned and all(run.measures for run in runs)
    expectations = judge_across(first.expect, runs) if is_whole else ()
    status = worst_status(runs, expectations)
    return SummaryRow(
        index=first.index,
        key=first.group,
        scenario=first.scenario,
        varied=first.varied,
        seed=first.plan.seed,
        figure=first.metadata.paper or "",
        claim=first.metadata.claim or first.metadata.description,
        status=status,
        reason=reason_of(status, runs, expectations),
        folder=None,
        expectations=expectations,
        variants=runs,
        compare=in_order(first.compare),
    )


def _variant_run(folder: CampaignFolder, run: PlannedRun) -> VariantRun:
    entry, manifest = folder.entry(run), folder.manifest(run) or {}
    return VariantRun(
        name=run.plan.variant or "",
        values=run.axes,
        status=NOT_RUN if entry is None else entry.status,
        reason="" if entry is None else entry.reason,
        folder=None if entry is None else entry.folder,
        expectations=tuple(manifest.get("expectations", ())),
        measures={each["quantity"]: each for each in manifest.get("measures", ())},
        flows=folder.flows(run) if any(each.kind == "per-flow" for each in run.plan.figure) else {},
    )
