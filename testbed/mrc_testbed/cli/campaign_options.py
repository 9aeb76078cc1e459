"""Arguments that the campaign commands share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.folder import CampaignFolder, find_campaign
from mrc_testbed.errors import UsageError

CampaignsFolder = Annotated[Path, typer.Option("--campaigns", metavar="FOLDER", help="Folder of campaigns.")]
CampaignName = Annotated[
    str,
    typer.Argument(metavar="CAMPAIGN", help="Folder or bundle of a campaign, or its name for its latest."),
]
CAMPAIGNS: Final = Path("campaigns")


@contextmanager
def opened_campaign(campaigns: Path, what: str) -> Iterator[CampaignFolder]:
    """Open the campaign that *what* names; a bundle stays unpacked while the context lasts."""
    with opened(Path(what), "campaign") as given:
        yield CampaignFolder.open(find_campaign(campaigns, str(given)))


def place_of(what: str, folder: CampaignFolder) -> Path:
    """Path of the results that *what* names: a bundle, or the folder."""
    return Path(what) if Path(what).is_file() else folder.path


def refuse_shard(what: str, folder: CampaignFolder) -> None:
    """Refuse to judge the cells of a shard, which lack runs."""
    if folder.plan.shard is not None:
        raise UsageError(
            f"{what}: shard {folder.plan.shard} alone, whose cells lack the runs of the other shards",
            hint="`mrc-testbed campaign merge` puts shards together",
        )
