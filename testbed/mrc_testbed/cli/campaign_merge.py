"""campaign merge."""

from contextlib import ExitStack
from typing import Annotated

import typer

from mrc_testbed.bundle.merge import Source, merge_campaigns
from mrc_testbed.campaign.execution import exit_code
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.cli.campaign_options import CAMPAIGNS, CampaignsFolder, opened_campaign, place_of
from mrc_testbed.cli.campaign_table import show_summary
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say


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
