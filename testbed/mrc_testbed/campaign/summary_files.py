"""Files of a campaign's summary: Markdown, JSON, JUnit, CSV and HTML."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any, Final

from mrc_testbed.campaign.campaign_page import build_page
from mrc_testbed.campaign.cells import cells_of
from mrc_testbed.campaign.folder import NOT_RUN, SCHEMA_VERSION, CampaignFolder
from mrc_testbed.campaign.judge import CellOutcome
from mrc_testbed.campaign.markdown import build_markdown
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.summary import Summary, SummaryRow, summarize_campaign
from mrc_testbed.campaign.tables import build_csv, finished_run, run_row
from mrc_testbed.campaign.variant_charts import time_chart
from mrc_testbed.campaign.variant_page import build_variant_page, page_charts
from mrc_testbed.document.text_file import read_result
from mrc_testbed.report.chart_file import figure_files
from mrc_testbed.scenario.measure.expectation import answer_of
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.junit import Case, expectation_case, junit_suite, junit_text

_ROW_KEYS: Final = (
    "index", "key", "scenario", "varied", "seed", "figure", "claim", "status", "reason", "folder",
    "fidelity", "untrusted_before", "expectations",
)  # fmt: skip
_SKIPPED: Final = {NOT_RUN: "the campaign ended before it", Status.UNTRUSTED.value: "UNTRUSTED: "}
"""Statuses that JUnit knows as skipped -> what the message begins with."""


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
