"""campaign run | resume | list | show | report."""

from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from mrc_testbed.bundle.merge import Source, merge_campaigns
from mrc_testbed.campaign.execution import (
    carry_out_virtually,
    execute_campaign,
    execute_in_parallel,
    exit_code,
    live_stage,
    virtual_stage,
)
from mrc_testbed.campaign.folder import FINISHED, CampaignFolder, all_campaigns, find_campaign, note_refused
from mrc_testbed.campaign.markdown import replace_section
from mrc_testbed.campaign.plan import Shard, plan_campaign
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.campaign.summary_files import write_summary
from mrc_testbed.campaign.workers import LocalWorkers, Workers
from mrc_testbed.cli import campaign_soak, campaign_statistics
from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.campaign_options import (
    CAMPAIGNS,
    CampaignName,
    CampaignsFolder,
    opened_campaign,
    place_of,
)
from mrc_testbed.cli.campaign_table import show_plan, show_summary
from mrc_testbed.cli.interruption import force_end, time_out
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.ready import file_argument
from mrc_testbed.cli.render import plain_table, say, show
from mrc_testbed.cli.where import (
    ClusterOption,
    ExecutionTarget,
    JobsOption,
    RetryOption,
    RuntimeOption,
    VirtualOption,
    cluster_at,
)
from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Kind
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.scenario.run.stage import remove_orphans

if TYPE_CHECKING:
    from mrc_testbed.cluster.connection import Cluster


app = typer.Typer(no_args_is_help=True, help="Run scenarios x parameters x seeds and summarise them.")
COMMANDS.add_typer(app, name="campaign")
campaign_statistics.register(app)
campaign_soak.register(app)

CampaignFile = Annotated[Path, file_argument("CAMPAIGN", "Campaign file")]


@command(app, "run", flags=("name", "dry_run", "seed", "overload"), needs_root=True)
def run(
    settings: Settings,
    path: CampaignFile,
    runtime: RuntimeOption = None,
    virtual: VirtualOption = False,
    jobs: JobsOption = 1,
    retry_untrusted: RetryOption = 0,
    cluster: ClusterOption = None,
    shard: Annotated[
        Shard | None,
        typer.Option(
            "--shard",
            parser=Shard.parse,
            metavar="I/N",
            help="Run part I of N parts of the runs, as each of N machines does; `campaign merge` puts them "
            "together.",
        ),
    ] = None,
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
      mrc-testbed campaign run paper/all --virtual --cluster tcp://head:8786
      mrc-testbed campaign run campaigns/loss-ratio --shard 3/10
    """
    where = ExecutionTarget(runtime, is_virtual=virtual, jobs=jobs, retries=retry_untrusted, cluster=cluster)
    folder = None
    try:
        with cluster_at(None if settings.is_dry_run else cluster) as workers:
            admission = Admission(is_virtual=virtual)
            plan = replace(plan_campaign(path, seed=settings.seed, admit=admission.plan), shard=shard)
            admission.say(settings)
            if plan.too_few_seeds and settings.verbosity >= 0:
                say(settings.stderr, plan.too_few_seeds)
            if settings.is_dry_run:
                show_plan(settings, plan)
                return 0
            folder = CampaignFolder.create(campaigns, plan)
            return run_campaign(settings, folder, where, frozenset(), workers)
    except TestbedError as error:
        if folder is None and not settings.is_dry_run:
            with suppress(UsageError, OSError):  # no name, or no room for this either
                note_refused(campaigns, document.load(path, Kind.CAMPAIGN).metadata.name, error.message)
        raise


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
    cluster: ClusterOption = None,
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> int:
    """Continue a campaign: repeat runs in error or interrupted, then do the rest.

    Runs the plan that was made at first, even if files have changed since.

    [bold]Examples[/bold]

      mrc-testbed campaign resume loss-ratio
      mrc-testbed campaign resume loss-ratio --retry untrusted
    """
    where = ExecutionTarget(runtime, is_virtual=virtual, jobs=jobs, retries=retry_untrusted, cluster=cluster)
    chosen = frozenset(retry or ())
    if unknown := sorted(chosen - FINISHED):
        raise UsageError(f"--retry {unknown[0]}: {', '.join(sorted(FINISHED))} are accepted")
    folder = CampaignFolder.open(find_campaign(campaigns, what))
    folder.plan.check_known()
    with cluster_at(cluster) as workers:
        return run_campaign(settings, folder, where, chosen, workers)


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
        rows = [(summary.name, path.name, summary.headline) for path, summary in summaries.items()]
        return plain_table("campaign", "begun", "came to", rows=rows)

    show(settings, "CampaignList", document, table, lines="campaigns")


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
            replace_section(into, summary)
        show_summary(settings, place_of(what, folder), summary)


def run_campaign(
    settings: Settings,
    folder: CampaignFolder,
    where: ExecutionTarget,
    retry: frozenset[str],
    cluster: "Cluster | None" = None,
) -> int:
    """Do the pending runs of *folder*, show the summary, return the campaign's exit status.

    Args:
        cluster: whose workers carry the runs out; None: this machine does.
    """
    status = carry_out_campaign(settings, folder, where, retry, cluster)
    show_summary(settings, folder.path, summarize_campaign(folder))
    return status


def carry_out_campaign(
    settings: Settings,
    folder: CampaignFolder,
    where: ExecutionTarget,
    retry: frozenset[str],
    cluster: "Cluster | None" = None,
) -> int:
    """Do the pending runs of *folder* and return the campaign's exit status; see `run_campaign`."""
    if where.jobs > 1 or cluster is not None:
        with _workers(settings, folder, where, cluster) as workers:
            return execute_in_parallel(
                folder, workers, progress=settings.progress, retry=retry, retries=where.retries
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
    return execute_campaign(
        folder,
        stage,
        progress=settings.progress,
        retry=retry,
        retries=where.retries,
        is_out_of_time=time_out(),  # --timeout ends the run that is under way when it rings
    )


def _workers(
    settings: Settings, folder: CampaignFolder, where: ExecutionTarget, cluster: "Cluster | None"
) -> AbstractContextManager[Workers]:
    if cluster is None:
        return LocalWorkers(folder.path, where.jobs, carry_out_virtually)
    from mrc_testbed.cluster.head import ClusterWorkers  # noqa: PLC0415

    return nullcontext(
        ClusterWorkers(
            cluster, folder, is_virtual=where.is_virtual, runtime=where.runtime, progress=settings.progress
        )
    )


@command(app, "merge")
def merge(
    settings: Settings,
    parts: Annotated[
        list[str],
        typer.Argument(metavar="A B ...", help="Folders or bundles of one campaign, such as shards."),
    ],
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> int:
    """Merge shards of a campaign into a new folder, and return its exit status.

    The parts stay as they are. Refuses parts of another plan, or whose runs are
    of another version. Names runs that are missing: `campaign resume` runs them.
    A run that two parts finished is kept once if both took place in virtual time
    and are the same; otherwise it is refused.

    [bold]Examples[/bold]

      mrc-testbed campaign merge shard-1/* shard-2/* shard-3/*
      mrc-testbed campaign merge one.tar.zst two.tar.zst --campaigns campaigns
    """
    with ExitStack() as stack:
        sources = []
        for part in parts:
            folder = stack.enter_context(opened_campaign(campaigns, part))
            sources.append(Source(str(place_of(part, folder)), folder))
        merged = merge_campaigns(sources, campaigns)
    for double in merged.doubles:
        say(settings.stderr, double)
    for key in merged.missing:
        say(settings.stderr, f"missing: {key}")
    if merged.missing:
        say(settings.stderr, f"`mrc-testbed campaign resume {merged.folder.path}` runs what is missing")
    show_summary(settings, merged.folder.path, summarize_campaign(merged.folder))
    return exit_code(merged.folder)
