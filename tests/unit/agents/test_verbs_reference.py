"""docs/reference/verbs.md is what the generator makes of the verbs."""

from pathlib import Path

from agents.nic.reference import reference_page
from agents.nic.verbs import NAMES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "verbs.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference_page(), "python -m agents.nic.reference > docs/reference/verbs.md"


def test_every_verb_is_on_it() -> None:
    page = reference_page()
    for name in (*NAMES, "wait", "probe_evs"):
        assert f"### {name}\n" in page
