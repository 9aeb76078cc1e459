"""The reference page of Campaign files, made from the models; run as a module, it prints the page."""

import sys
from importlib import resources
from typing import Final

from mrc_testbed.campaign.spec import campaign_schema
from mrc_testbed.scenario.reference import Sections, model_sections

SECTIONS: Final[Sections] = (
    ("## spec", ("CampaignSpec",)),
    ("## A scenario", ("ScenarioEntry",)),
    ("## Seeds", ("SeedRange",)),
    ("## Order", ("ShuffledOrder",)),
    ("## Expectations", ("ExpectationEntry",)),
)


def reference_page() -> str:
    """The page, in Markdown: the template with its tables filled in."""
    page = (
        resources.files("mrc_testbed.campaign").joinpath("reference_template.md").read_text(encoding="utf-8")
    )
    return page.replace("@models\n", "".join(model_sections(campaign_schema()["$defs"], SECTIONS)))


if __name__ == "__main__":
    sys.stdout.write(reference_page())
