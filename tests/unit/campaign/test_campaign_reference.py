"""The reference page of Campaign files: made from the models, whole, and with an example that is accepted."""

from pathlib import Path

from reference_pages import CAMPAIGN_SECTIONS, campaign_page

from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.spec import RUNS_MAX, campaign_schema

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "campaign.md"
WITHOUT_KEYS = {"JsonValue", "Metadata"}
"""The one is any value, the other on the page of scenarios too."""


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == campaign_page(), (
        "python -m tests.reference_pages campaign > docs/reference/campaign.md"
    )


def test_every_model_is_on_the_page_and_every_key_described() -> None:
    definitions = campaign_schema()["$defs"]
    assert {name for _, names in CAMPAIGN_SECTIONS for name in names} == definitions.keys() - WITHOUT_KEYS
    bare = [
        f"{name}.{key}"
        for name, model in definitions.items()
        for key, entry in model.get("properties", {}).items()
        if "description" not in entry
    ]
    assert not bare


def test_the_example_of_the_page_is_a_valid_campaign(tmp_path: Path) -> None:
    example = [line[4:] for line in PAGE.read_text().splitlines() if line.startswith("    ")]
    folder = tmp_path / "scenarios" / "campaigns"
    folder.mkdir(parents=True)
    for name in ("gray-loss", "t0-t1-flap"):
        (folder.parent / f"{name}.yaml").write_text((ROOT / "scenarios" / f"{name}.yaml").read_text())
    (folder / "windows.yaml").write_text("\n".join(example))
    found = plan_campaign(folder / "windows.yaml")
    assert found.name == "windows"
    assert len(found.runs) == 2 * 6 + 2 * 2 * 2
    assert len(found.runs) <= RUNS_MAX
    assert f"at most {RUNS_MAX} runs" in PAGE.read_text()
