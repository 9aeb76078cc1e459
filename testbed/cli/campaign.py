"""campaign run | list | show | resume | report, and compare."""

import signal
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.execution import (
    execute_campaign,
    execute_in_parallel,
    exit_code,
    live_stage,
    virtual_stage,
)
from mrc_testbed.campaign.figures import ComparedFigure, compare_runs
from mrc_testbed.campaign.folder import FINISHED, CampaignFolder, all_campaigns, find_campaign
from mrc_testbed.campaign.markdown import put_into
from mrc_testbed.campaign.plan import CampaignPlan, Repeat, plan_campaign
from mrc_testbed.campaign.summary import Summary, summarize_campaign
from mrc_testbed.campaign.summary_files import summary_document, write_summary
from mrc_testbed.cli import campaign_soak, campaign_statistics
from mrc_testbed.cli.campaign_options import (
    CAMPAIGNS,
    CampaignName,
    CampaignsFolder,
    opened_campaign,
    place_of,
)
from mrc_testbed.cli.campaign_table import plan_document, plan_table, summary_table
from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.overload import OverloadGate, OverloadOption
from mrc_testbed.cli.ready import complete, file_or_ready
from mrc_testbed.cli.render import plain_table, show
from mrc_testbed.cli.where import BudgetOption, JobsOption, RetryOption, RuntimeOption, VirtualOption, Where
from mrc_testbed.document.latest import latest_of
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.report.manifest_file import has_ended, load_manifest
from mrc_testbed.scenario.run.stage import remove_orphans

SCHEMA_VERSION: Final = 1
_BUDGET_RUNS_MAX: Final = 20
"""Runs of a cell at most, where the file does not say."""

app = typer.Typer(no_args_is_help=True, help="Run scenarios x parameters x seeds and summarise them.")
campaign_statistics.register(app)
campaign_soak.register(app)

CampaignFile = Annotated[
    Path,
    typer.Argument(
        metavar="CAMPAIGN",
        callback=file_or_ready,
        autocompletion=complete,
        help="Campaign file, or a name of `scenarios list`.",
    ),
]


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="campaign")
    command(root, "compare")(compare)


@command(app, "run", flags=("name", "dry_run", "seed"), needs_root=True)
def run(
    settings: Settings,
    path: CampaignFile,
    runtime: RuntimeOption = None,
    overload: OverloadOption = False,
    virtual: VirtualOption = False,
    jobs: JobsOption = 1,
    retry_untrusted: RetryOption = 0,
    budget: BudgetOption = None,
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> int:
    """Run every combination of a campaign file and summarise the runs.

    Runs on the same topology share a lab. A failed run does not end the campaign.
    Ctrl-C ends it and keeps what was measured; `campaign resume` continues. The
    exit status is that of the worst run: 1 an error, 4 an expectation failed,
    5 aborted, 7 UNTRUSTED, 0 all passed.

    [bold]Examples[/bold]

      mrc-testbed campaign run campaigns/loss-ratio --dry-run
      mrc-testbed campaign run campaigns/loss-ratio
      mrc-testbed campaign run paper/all --virtual --jobs 2
      mrc-testbed campaign run campaigns/loss-ratio --budget 30m
    """
    where = Where(runtime, is_virtual=virtual, jobs=jobs, retries=retry_untrusted, budget_ns=budget)
    gate = OverloadGate(insists=overload, is_virtual=virtual)
    repeat = None if budget is None else Repeat(until=0.0, at_most=_BUDGET_RUNS_MAX)
    plan = plan_campaign(path, seed=settings.seed, repeat=repeat, admit=gate.plan)
    if not virtual:
        gate.say_warnings(settings)
    if settings.is_dry_run:
        show_plan(settings, plan)
        return 0
    return run_campaign(settings, CampaignFolder.create(campaigns, plan), where, frozenset())


@command(app, "resume", flags=("name",), needs_root=True)
def resume(
    settings: Settings,
    what: CampaignName,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            "--retry",
            metavar="STATUS",
            help="Status of runs to repeat: failed, aborted or untrusted. Repeatable.",
        ),
    ] = None,
    runtime: RuntimeOption = None,
    virtual: VirtualOption = False,
    jobs: JobsOption = 1,
    retry_untrusted: RetryOption = 0,
    budget: BudgetOption = None,
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> int:
    """Continue a campaign: repeat runs in error or interrupted, then do the rest.

    Runs the plan that was made at first, even if files have changed since.

    [bold]Examples[/bold]

      mrc-testbed campaign resume loss-ratio
      mrc-testbed campaign resume loss-ratio --retry untrusted
    """
    where = Where(runtime, is_virtual=virtual, jobs=jobs, retries=retry_untrusted, budget_ns=budget)
    chosen = frozenset(retry or ())
    if unknown := sorted(chosen - FINISHED):
        raise UsageError(f"--retry {unknown[0]}: {', '.join(sorted(FINISHED))} are accepted")
    folder = CampaignFolder.open(find_campaign(campaigns, what))
    return run_campaign(settings, folder, where, chosen)


@command(app, "list")
def list_campaigns(settings: Settings, campaigns: CampaignsFolder = CAMPAIGNS) -> None:
    """List campaigns and their progress.

    [bold]Examples[/bold]

      mrc-testbed campaign list
    """
    summaries = {path: summarize_campaign(CampaignFolder.open(path)) for path in all_campaigns(campaigns)}
    document = {
        "campaigns": [
            {"folder": str(path), "campaign": summary.name, "counts": dict(summary.counts)}
            for path, summary in summaries.items()
        ]
    }

    def table() -> RenderableType:
        if not summaries:
            return Text(f"no campaign in {campaigns}")
        shown = plain_table("campaign", "begun", "came to")
        for path, summary in summaries.items():
            shown.add_row(summary.name, path.name, summary.headline)
        return shown

    show(settings, "CampaignList", SCHEMA_VERSION, document, table, lines="campaigns")


@command(app, "show")
def show_campaign(settings: Settings, what: CampaignName, campaigns: CampaignsFolder = CAMPAIGNS) -> int:
    """Show the state of a campaign, also while it runs, and return its exit status.

    [bold]Examples[/bold]

      mrc-testbed campaign show loss-ratio
    """
    with opened_campaign(campaigns, what) as folder:
        show_summary(settings, place_of(what, folder), summarize_campaign(folder))
        return exit_code(folder)


@command(app, "report")
def report(
    settings: Settings,
    what: CampaignName,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="FILE",
            help="Markdown file in which the tables replace what stands between the lines "
            "`<!-- campaign NAME -->` and `<!-- end -->`.",
        ),
    ] = None,
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> None:
    """Write the summary's files again: Markdown, JSON, JUnit, HTML.

    [bold]Examples[/bold]

      mrc-testbed campaign report loss-ratio
      mrc-testbed campaign report loss-ratio.tar.zst
      mrc-testbed campaign report paper --into docs/explanation/paper.md
    """
    with opened_campaign(campaigns, what) as folder:
        summary = write_summary(folder)
        if into is not None:
            put_into(into, summary)
        show_summary(settings, place_of(what, folder), summary)


def compare(
    settings: Settings,
    before: Annotated[
        str, typer.Argument(metavar="A", help="Result folder, bundle, or a scenario's name for its latest.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Run to compare with.")],
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of result folders.")] = Path(
        "runs"
    ),
) -> None:
    """Compare two runs: every figure that both have, and the ratio.

    [bold]Examples[/bold]

      mrc-testbed compare runs/t0-t1-flap/20261121T170000Z-3fa2b1 t0-t1-flap
    """
    manifests = [_manifest(runs, what) for what in (before, after)]
    figures = compare_runs(*manifests)
    names = [f"{manifest['scenario']} {manifest['run']}" for manifest in manifests]
    document = {
        "before": manifests[0]["run"],
        "after": manifests[1]["run"],
        "figures": [figure_document(figure) for figure in figures],
    }

    def table() -> RenderableType:
        shown = plain_table("", *"AB", "B/A", right=("A", "B", "B/A"))
        for figure in figures:
            ratio = "-" if figure.ratio is None else f"{figure.ratio:.3f}"
            shown.add_row(figure.name, figure.shown(figure.before), figure.shown(figure.after), ratio)
        heads = [
            Text(f"{letter}  {name}: {manifest['status']}")
            for letter, name, manifest in zip("AB", names, manifests, strict=True)
        ]
        return Group(*heads, Text(), shown)

    show(settings, "Comparison", SCHEMA_VERSION, document, table, lines="figures")


def figure_document(figure: ComparedFigure) -> dict[str, Any]:
    return {**asdict(figure), "ratio": figure.ratio}


def _manifest(runs: Path, what: str) -> Mapping[str, Any]:
    with opened(Path(what), "run") as given:
        folder = given if (given / "manifest.json").is_file() else latest_of(runs / what)
        try:
            found = load_manifest(folder / "manifest.json")
        except OSError as error:
            raise UsageError(
                f"there is no run at {what} or {folder}: {error.strerror}",
                hint="name a result folder, a bundle, or a scenario and the folder of its --runs",
            ) from error
    if not has_ended(found):
        raise UsageError(f"{folder}: the run has not ended, or was killed")
    return found


def run_campaign(settings: Settings, folder: CampaignFolder, where: Where, retry: frozenset[str]) -> int:
    """Do the pending runs of *folder*, show the summary, return the campaign's exit status."""
    status = carry_out_campaign(settings, folder, where, retry)
    show_summary(settings, folder.path, summarize_campaign(folder))
    return status


def carry_out_campaign(
    settings: Settings, folder: CampaignFolder, where: Where, retry: frozenset[str]
) -> int:
    """Do the pending runs of *folder* and return the campaign's exit status."""
    if where.jobs > 1:
        return execute_in_parallel(
            folder, where.jobs, progress=settings.progress, retry=retry, budget_ns=where.budget_ns
        )
    if not where.is_virtual and not folder.pending(retry):
        remove_orphans(settings.progress)  # a campaign that was killed at its end has left its lab
    stage = (
        virtual_stage(force_end)
        if where.is_virtual
        else live_stage(
            name=settings.name if settings.names_lab else folder.lab,
            runtime=where.runtime,
            force=force_end,
            progress=settings.progress,
        )
    )
    has_limit = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    return execute_campaign(
        folder,
        stage,
        progress=settings.progress,
        retry=retry,
        retries=where.retries,
        # --timeout ends the run that is under way when it rings, and rings once
        is_out_of_time=lambda: has_limit and signal.getitimer(signal.ITIMER_REAL)[0] == 0,
        budget_ns=where.budget_ns,
    )


def show_plan(settings: Settings, plan: CampaignPlan) -> None:
    show(
        settings, "CampaignPlan", SCHEMA_VERSION, plan_document(plan), lambda: plan_table(plan), lines="runs"
    )


def show_summary(settings: Settings, path: Path, summary: Summary) -> None:
    """Print the summary of the campaign in the folder or bundle at *path*."""
    document = summary_document(summary) | {"folder": str(path.resolve())}
    document.pop("schema_version")
    show(
        settings,
        "CampaignSummary",
        SCHEMA_VERSION,
        document,
        lambda: summary_table(summary, path),
        lines="runs",
    )
