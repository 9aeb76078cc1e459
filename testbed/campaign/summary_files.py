"""Files of a campaign's summary: Markdown, JSON, JUnit and HTML."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final
from xml.etree import ElementTree as ET

from testbed.campaign.cells import cells_of
from testbed.campaign.folder import NOT_RUN, SCHEMA_VERSION, CampaignFolder
from testbed.campaign.markdown import build_markdown
from testbed.campaign.page import build_page
from testbed.campaign.plan import PlannedRun
from testbed.campaign.summary import Summary, summarize_campaign
from testbed.campaign.variant_charts import time_chart
from testbed.campaign.variant_page import build_variant_page, page_charts
from testbed.report.figure import figure_files
from testbed.scenario.measure.verdict import Status
from testbed.scenario.report.result_text import printable

_SKIPPED: Final = {NOT_RUN: "the campaign ended before it", Status.UNTRUSTED.value: "UNTRUSTED: "}
"""Statuses that JUnit knows as skipped -> what the message begins with."""


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
        report = build_page(summary, cells_of(folder), folder.plan.baseline)
    folder.write("report.html", report)


def _reports(folder: CampaignFolder, runs: Iterable[PlannedRun]) -> dict[str, str]:
    """Variant -> report.html of its run; without those that have left none."""
    paths = {run.plan.variant or "": folder.file(run, "report.html") for run in runs}
    return {
        variant: path.read_text(encoding="utf-8")
        for variant, path in paths.items()
        if path is not None and path.is_file()
    }


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
