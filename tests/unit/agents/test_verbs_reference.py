"""One table of verbs: agent, client and docs/reference/verbs.md have the same, with the same signatures."""

import inspect
from pathlib import Path

from verbs_reference import reference_page, verb_methods

from mrc_agents.nic import verb_methods as generated
from mrc_agents.nic.daemon import NicAgent
from mrc_agents.nic.verb import verbs_of
from mrc_agents.nic.verb_methods import VerbMethods
from mrc_agents.nic.verbs import Verbs

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "verbs.md"
DECLARED = {
    name: getattr(holder, name)
    for holder in (NicAgent, *reversed(Verbs.__mro__))
    for name in verbs_of(holder)
}


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference_page(), (
        "python -m tests.verbs_reference page > docs/reference/verbs.md"
    )


def test_methods_of_the_client_are_up_to_date() -> None:
    found = Path(generated.__file__).read_text()
    assert found == verb_methods(), "see the head of tests/verbs_reference.py"


def test_every_verb_is_on_the_page_and_in_the_client() -> None:
    page = reference_page()
    assert len(DECLARED) == page.count("\n### ")
    for name, verb in DECLARED.items():
        assert f"### {name}\n" in page
        method = getattr(VerbMethods, name)
        assert list(inspect.signature(method).parameters) == list(inspect.signature(verb).parameters)
