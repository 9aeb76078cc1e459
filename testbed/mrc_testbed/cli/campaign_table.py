"""Tables of campaigns: plan, summary, variants of a scenario side by side."""

from pathlib import Path
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.campaign.judge import outcome_table
from mrc_testbed.campaign.plan import CampaignPlan
from mrc_testbed.campaign.summary import Summary, SummaryRow
from mrc_testbed.campaign.summary_files import summary_document
from mrc_testbed.campaign.variants import factor_sentence
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import judged_table, plain_table, result_lines, show, shown_table
from mrc_testbed.scenario.measure.expectation import answer_of
from mrc_testbed.units import format_duration_ns

_STYLES: Final = {"passed": "green", "failed": "bold red", "error": "bold red"}


def summary_table(summary: Summary, path: Path) -> RenderableType:
    """Table with a row per run or scenario with variants; of one such scenario alone, its variants.

    Args:
        path: its folder, or the bundle that holds it.
    """
    if summary.is_of_variants:
        return _variants(summary.rows[0], path)
    figures = ("figure",) if any(row.figure for row in summary.rows) else ()
    columns = ("", "scenario", *summary.varied, "#seed", *figures, "measured", "fidelity")
    rows = [
        (
            _status(row.status),
            row.scenario,
            *(row.varied.get(key, "") for key in summary.varied),
            str(row.seed),
            *((row.figure,) if figures else ()),
            row.measured,
            row.fidelity,
        )
        for row in summary.rows
    ]
    return Group(
        Text.assemble((summary.name, "bold"), f"  {summary.headline}"),
        Text(),
        plain_table(*columns, rows=rows),
        Text(),
        *((shown_table(outcome_table(summary.expectations)), Text()) if summary.expectations else ()),
        *result_lines(path),
    )


def _status(status: str) -> Text:
    return Text(status, style=_STYLES.get(status, "yellow"))


def _variants(row: SummaryRow, path: Path) -> RenderableType:
    head = Text.assemble(
        (row.scenario, "bold"),
        "  ",
        (row.status.upper(), _STYLES.get(row.status, "bold yellow")),
        f"  {row.reason}",
    )
    judged = judged_table((answer_of(each), each["text"], each["reason"]) for each in row.expectations)
    columns = ("variant", "run", *(f"#{quantity}" for quantity in row.compare))
    compared = [
        (run.name, _status(run.status), *(run.shown(quantity) for quantity in row.compare))
        for run in row.variants
    ]
    factor = factor_sentence(row.compare, row.variants)
    parts: list[RenderableType] = [head, *([Text(factor)] if factor else []), Text()]
    parts += [judged, Text()] if row.expectations else []
    parts += [plain_table(*columns, rows=compared), Text(), *result_lines(path)]
    return Group(*parts)


def plan_document(plan: CampaignPlan) -> dict[str, Any]:
    return {
        "campaign": plan.name,
        "description": plan.description,
        "runs": [
            {
                "index": run.index,
                "key": run.key,
                "scenario": run.scenario,
                "varied": dict(run.varied),
                "variant": run.plan.variant,
                "seed": run.plan.seed,
                "length_ns": None if run.plan.end_ns is None else run.plan.end_ns - run.plan.start_ns,
            }
            for run in plan.own_runs
        ],
    }


def plan_table(plan: CampaignPlan) -> RenderableType:
    """Table of the runs in order, with the time that sending takes."""
    keys = list(dict.fromkeys(key for run in plan.runs for key in run.varied))
    variants = ("variant",) if any(run.plan.variant for run in plan.runs) else ()
    table = plain_table("#lab", "scenario", *variants, *keys, "#seed", "#length")
    labs, before, total_ns, is_open = 0, None, 0, False
    for run in plan.own_runs:
        labs += run.plan.topology != before
        before = run.plan.topology
        length_ns = None if run.plan.end_ns is None else run.plan.end_ns - run.plan.start_ns
        total_ns += length_ns or 0
        is_open = is_open or length_ns is None
        table.add_row(
            *(str(labs), run.scenario, *((run.plan.variant or "",) if variants else ())),
            *(run.varied.get(key, "") for key in keys),
            str(run.plan.seed),
            "by iterations" if length_ns is None else format_duration_ns(length_ns),
        )
    more = ", and those by iterations" if is_open else ""
    plural = "" if labs == 1 else "s"
    sending = f"sending takes {format_duration_ns(total_ns)}{more}"
    total = f"{len(plan.own_runs)} runs on {labs} lab{plural}; {sending}"
    return Group(Text(plan.name, style="bold"), Text(), table, Text(), Text(total))


def show_plan(settings: Settings, plan: CampaignPlan) -> None:
    show(settings, "CampaignPlan", plan_document(plan), lambda: plan_table(plan), lines="runs")


def show_summary(settings: Settings, path: Path, summary: Summary) -> None:
    """Print the summary of the campaign in the folder or bundle at *path*."""
    document = summary_document(summary) | {"folder": str(path.resolve())}
    document.pop("schema_version")
    show(settings, "CampaignSummary", document, lambda: summary_table(summary, path), lines="runs")
