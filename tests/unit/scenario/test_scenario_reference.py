from pathlib import Path

import pytest
from reference_pages import scenario_page

from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario, scenario_schema
from mrc_testbed.scenario.spec.quantity import QUANTITIES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "scenario.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == scenario_page(), (
        "python -m tests.reference_pages scenario > docs/reference/scenario.md"
    )


def test_the_example_of_the_page_is_a_valid_scenario() -> None:
    lines = PAGE.read_text().split("## Time")[0].splitlines()
    example = "\n".join(line[4:] for line in lines if line.startswith("    "))
    assert load_scenario(example).metadata.name == "t0-t1-flap"


@pytest.mark.parametrize("kind", QUANTITIES, ids=lambda kind: kind.name)
def test_every_quantity_is_described(kind: object) -> None:
    assert f"| `{kind.name}" in PAGE.read_text()  # type: ignore[attr-defined]


@pytest.mark.parametrize("status", Status)
def test_every_status_is_described_with_its_exit_code(status: Status) -> None:
    assert f"| {status.value} | {status.exit_code} |" in PAGE.read_text()


def test_every_key_of_the_schema_has_a_description() -> None:
    """The page and editors show it; a key without one teaches nobody."""
    bare = [
        f"{name}.{key}"
        for name, model in scenario_schema()["$defs"].items()
        for key, entry in model.get("properties", {}).items()
        if "description" not in entry and key != "kind"
    ]
    assert not bare
