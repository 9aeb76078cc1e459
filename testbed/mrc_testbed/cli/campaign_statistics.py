"""campaign stats | baseline | check | export."""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.campaign_page import times_table
from mrc_testbed.campaign.cells import Cell, CellComparison, CellFigure, cells_of, compare_cells
from mrc_testbed.campaign.folder import CampaignFolder, find_campaign, require_latest
from mrc_testbed.campaign.gate import (
    BaselineFigure,
    GateFinding,
    build_baseline,
    check,
    dump_baseline,
    gate_status,
    load_baseline,
    named_figures,
)
from mrc_testbed.campaign.judge import outcome_table, outcomes_of
from mrc_testbed.campaign.run_figures import format_figure
from mrc_testbed.campaign.statistics import ALL_TIMES, MEDIAN_OF_RUNS, Estimate, estimate
from mrc_testbed.campaign.tables import TABLES, finished_runs, rows_of, statistics_rows, write_csv
from mrc_testbed.cli.campaign_options import (
    CAMPAIGNS,
    CampaignName,
    CampaignsFolder,
    opened_campaign,
    place_of,
    refuse_shard,
)
from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.render import plain_table, show, shown_table
from mrc_testbed.document.one_step import write_in_one_step, writing
from mrc_testbed.errors import UsageError
from mrc_testbed.extras import from_extra
from mrc_testbed.metrics.series import summarize
from mrc_testbed.scenario.measure.expectation import FORMATS
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.result_text import Row
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.shown import format_count, format_share
from mrc_testbed.units import parse_ratio

_STYLES: Final = {
    "worse": "bold red",
    "gone": "bold red",
    "better": "green",
    "cannot tell": "yellow",
    "not shown": "yellow",
}


def register(app: typer.Typer) -> None:
    command(app, "stats")(stats)
    command(app, "baseline")(baseline)
    command(app, "check")(check_campaign)
    command(app, "export")(export)


def stats(settings: Settings, what: CampaignName, campaigns: CampaignsFolder = CAMPAIGNS) -> None:
    """Show medians over seeds with 95 % intervals, compared with the baseline cell.

    A cell is all runs that differ only in their seed, UNTRUSTED ones left out.
    Percentiles are of the times of all its runs together. Cells are compared by
    the Mann-Whitney U test with Holm's correction; delta is Cliff's.

    [bold]Examples[/bold]

      mrc-testbed campaign stats loss-ratio
      mrc-testbed campaign stats loss-ratio -o json
    """
    with opened_campaign(campaigns, what) as folder:
        cells = cells_of(folder)
    comparisons = compare_cells(cells, folder.plan.baseline)
    show(
        settings,
        "CampaignStatistics",
        {
            "campaign": folder.plan.name,
            "baseline": dict(folder.plan.baseline),
            "cells": [_cell_document(cell) for cell in cells],
            "comparisons": [_comparison_document(each) for each in comparisons],
        },
        lambda: _tables(folder, cells, comparisons),
        lines="cells",
    )


def baseline(
    settings: Settings,
    what: CampaignName,
    into: Annotated[Path, typer.Option("--into", metavar="FILE", help="File to write or replace.")],
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> None:
    """Write the figures of a campaign to a file for `campaign check`.

    [bold]Examples[/bold]

      mrc-testbed campaign baseline loss-ratio --into loss-ratio.json
    """
    with opened_campaign(campaigns, what) as folder:
        refuse_shard(what, folder)
        found = build_baseline(folder.plan.name, cells_of(folder))
    with writing(into):
        write_in_one_step(into, dump_baseline(found))
    settings.progress(f"{len(found.cells)} cells in {into}")


def check_campaign(
    settings: Settings,
    what: CampaignName,
    baseline_file: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="File of `campaign baseline`.")
    ] = None,
    tolerance: Annotated[
        str, typer.Option("--tolerance", metavar="SHARE", help="Share by which a median may be worse.")
    ] = "2%",
    all_figures: Annotated[
        bool, typer.Option("--all-figures", help="Judge all figures of the baseline, not the named ones.")
    ] = False,
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> int:
    """Check a campaign against its expectations and an earlier one's figures.

    For CI. The exit status is 4 when an expectation failed, or a cell got worse
    by more than the tolerance or is missing; 7 when too few runs count to decide;
    else 0. Cells are judged over seeds, by rank, with an error of 1 % in all: it
    takes six seeds or more. The figures are those that the campaign names in
    `expect`, or its scenarios in `compare`.

    [bold]Examples[/bold]

      mrc-testbed campaign check loss-ratio --baseline loss-ratio.json
      mrc-testbed campaign check loss-ratio --baseline old.json --tolerance 2%
    """
    share = parse_ratio(tolerance)
    reference = None if baseline_file is None else load_baseline(baseline_file)
    require_latest(campaigns, what)
    with opened_campaign(campaigns, what) as folder:
        refuse_shard(what, folder)
        if folder.pending() == folder.wanted:
            raise UsageError(
                f"{what}, begun {folder.begun_utc}: none of its runs has a result",
                hint=f"mrc-testbed campaign resume {what}",
            )
        cells, outcomes = cells_of(folder), outcomes_of(folder)
    name = folder.plan.name
    if reference is None and not folder.plan.expect:
        raise UsageError(
            f"nothing to hold {name!r} against: it has no `expect`",
            hint="--baseline FILE names figures that `campaign baseline` wrote",
        )
    if reference is not None and reference.campaign != name:
        raise UsageError(f"{baseline_file} is of the campaign {reference.campaign!r}, not of {name!r}")
    names = None if all_figures else named_figures(folder.plan)
    findings = () if reference is None else check(cells, reference, share, names)
    status = _worst(gate_status(findings), {each.status for each in outcomes})
    show(
        settings,
        "CampaignCheck",
        {
            "campaign": name,
            "folder": str(place_of(what, folder)),
            "begun_utc": folder.begun_utc,
            "tolerance": share,
            "exit_code": status,
            "findings": [
                {
                    "cell": finding.cell,
                    "figure": finding.name,
                    "outcome": finding.outcome,
                    "certainty": finding.certainty,
                    "ratio": finding.ratio,
                }
                for finding in findings
            ],
            "expectations": [asdict(each) for each in outcomes],
        },
        lambda: Group(
            Text(f"{name}, begun {folder.begun_utc}: {place_of(what, folder)}\n"),
            *((shown_table(outcome_table(outcomes)), Text()) if outcomes else ()),
            *((_gate_table(findings, share),) if reference is not None else ()),
        ),
        lines="findings",
    )
    return status


def _worst(status: int, statuses: Collection[str]) -> int:
    """Worse of the gate's exit status and those of expectations."""
    codes = {status, *(Status(each).exit_code for each in statuses)}
    return next((code for code in (Status.FAILED.exit_code, Status.UNTRUSTED.exit_code) if code in codes), 0)


def export(
    settings: Settings,
    what: CampaignName,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="Folder for the tables; created.")],
    file_format: Annotated[
        Literal["csv", "parquet"], typer.Option("--format", "-f", help="parquet needs mrc-testbed[data].")
    ] = "csv",
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> None:
    """Write tables for pandas, R or a spreadsheet: runs, figures, samples.

    Takes the folder or bundle of a campaign or of one run. Of a campaign it also
    writes statistics: the median of each figure of a cell, its interval, and p.

    [bold]Examples[/bold]

      mrc-testbed campaign export loss-ratio --into tables
      mrc-testbed campaign export runs/t0-t1-flap/latest --into tables
    """
    with opened(Path(what)) as given:
        is_run = os.path.lexists(given / "manifest.json")
        path = given if is_run else find_campaign(campaigns, str(given))
        runs = finished_runs(path)
        tables: dict[str, Callable[[], Iterable[Row]]]
        tables = {table: partial(rows_of, table, runs) for table in TABLES}
        if not is_run:
            statistics = statistics_rows(CampaignFolder.open(path))
            tables["statistics"] = lambda: statistics
        with writing(into):
            into.mkdir(parents=True, exist_ok=True)
            for table, rows in tables.items():
                file = into / f"{table}.{file_format}"
                write_csv(file, rows) if file_format == "csv" else _write_parquet(file, rows())
    settings.progress(f"{len(runs)} runs in {into}")


def _write_parquet(path: Path, rows: Iterable[Row]) -> None:
    with from_extra("data"):
        import pandas as pd  # noqa: PLC0415 - slow to import

        import_module("pyarrow")  # pandas needs it here, and would say so in its own words
    pd.DataFrame(rows).to_parquet(path, index=False)


def _tables(
    folder: CampaignFolder, cells: Sequence[Cell], comparisons: Sequence[CellComparison]
) -> RenderableType:
    keys = list(dict.fromkeys(key for cell in cells for key in cell.place))
    table = plain_table("scenario", *keys, "figure", "#runs", f"#{MEDIAN_OF_RUNS}", "#95 % interval")
    for cell in cells:
        head = [cell.scenario, *(cell.place.get(key, "") for key in keys)]
        if not cell.figures:
            table.add_row(*head, "-", f"0 of {sum(cell.statuses.values())}", "-", "-")
        for name, figure in cell.figures.items():
            found = estimate(figure.values)
            shown = format_figure(found.median, figure.dimension)
            interval = ", ".join(filter(None, [_interval(found, figure.dimension), figure.modes]))
            table.add_row(*head, name, str(found.runs), shown, interval)
    parts: list[RenderableType] = [Text(folder.plan.name, style="bold"), Text(), table]
    if any(cell.times for cell in cells):
        rows = [([cell.scenario, *(cell.place.get(key, "") for key in keys)], cell) for cell in cells]
        times = shown_table(times_table(("scenario", *keys), rows))
        parts += [Text(), Text(ALL_TIMES, style="bold"), Text(), times]
    if folder.plan.baseline:
        named = ", ".join(f"{key}={value}" for key, value in folder.plan.baseline.items())
        heads = (f"#{MEDIAN_OF_RUNS}", "#baseline", "#ratio", "#delta", "#p", "")
        against = plain_table("cell", "figure", *heads)
        for each in comparisons:
            against.add_row(
                each.cell,
                each.name,
                *_medians(each.figure, each.reference),
                each.factor or ("-" if each.ratio is None else f"{each.ratio:.3f}"),
                f"{each.effect.test.delta:+.2f}",
                f"{each.effect.p:.2g}",
                Text(each.verdict, style=_STYLES.get(each.verdict, "")),
            )
        parts += [Text(), Text(f"against {named}", style="bold"), Text(), against]
    return Group(*parts)


def _medians(*figures: CellFigure | BaselineFigure | None) -> list[str]:
    """Median of each, with as many digits as tell them apart; a dash for none."""
    known = [figure for figure in figures if figure is not None]
    scale = FORMATS[known[0].dimension] if known else format_count
    digits = scale.digits_apart(*(median(figure.values) for figure in known))
    return ["-" if figure is None else scale(median(figure.values), digits) for figure in figures]


def _interval(found: Estimate, dimension: Dimension) -> str:
    if found.low is None or found.high is None:
        return "-"
    return FORMATS[dimension].range(found.low, found.high)


def _gate_table(findings: Sequence[GateFinding], share: float) -> RenderableType:
    shown = [finding for finding in findings if finding.outcome != "within"]
    within = sum(finding.outcome in ("within", "better") for finding in findings)
    margin = format_share(share)
    counted = f"{within} of {len(findings)} figures are not worse than the baseline by more than {margin}"
    if not shown:
        return Text(counted)
    table = plain_table("", "cell", "figure", f"#now ({MEDIAN_OF_RUNS})", "#baseline", "#ratio", "certainty")
    for finding in shown:
        table.add_row(
            Text(finding.outcome, style=_STYLES.get(finding.outcome, "")),
            finding.cell,
            finding.name,
            *_medians(finding.figure, finding.reference),
            "-" if finding.ratio is None else f"{finding.ratio:.3f}",
            finding.certainty,
        )
    return Group(table, Text(), Text(counted))


def _cell_document(cell: Cell) -> dict[str, Any]:
    return {
        "key": cell.key,
        "scenario": cell.scenario,
        "varied": dict(cell.place),
        "statuses": dict(cell.statuses),
        "exact": cell.is_exact,
        "figures": {
            name: {
                "dimension": figure.dimension.value,
                "values": list(figure.values),
                "median": (found := estimate(figure.values)).median,
                "low": found.low,
                "high": found.high,
                "modes": figure.modes,
            }
            for name, figure in cell.figures.items()
        },
        "times": {
            name: asdict(latency)
            for name, histogram in cell.times.items()
            if (latency := summarize(histogram)) is not None
        },
    }


def _comparison_document(each: CellComparison) -> dict[str, Any]:
    return {
        "cell": each.cell,
        "baseline": each.baseline,
        "figure": each.name,
        "ratio": each.ratio,
        "delta": each.effect.test.delta,
        "p": each.effect.p,
        "verdict": each.verdict,
        "more_runs": each.effect.more_runs,
        "within": each.effect.within,
    }
