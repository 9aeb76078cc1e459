"""Arguments that the commands about campaigns share."""

from pathlib import Path
from typing import Annotated, Final

import typer

CampaignsFolder = Annotated[Path, typer.Option("--campaigns", metavar="FOLDER", help="Folder of campaigns.")]
CampaignName = Annotated[
    str, typer.Argument(metavar="CAMPAIGN", help="Folder of a campaign, or its name for its latest.")
]
CAMPAIGNS: Final = Path("campaigns")
