"""The hook on commit messages takes `area: imperative` with a body, and nothing else."""

import re
from pathlib import Path

import pytest

CONFIG = (Path(__file__).parents[3] / ".pre-commit-config.yaml").read_text()
REFUSED = re.compile(re.findall(r"id: commit-title\n.*\n +entry: '(.+)'", CONFIG)[0], re.MULTILINE)
BODY = "\n\nIt was wrong.\n"


@pytest.mark.parametrize("title", ["nic: name it", "nic, switch: whiten paths", "docs: offer an index"])
def test_an_imperative_with_a_body_is_taken(title: str) -> None:
    assert not REFUSED.search(title + BODY)
    assert REFUSED.search(f"{title}\n")


@pytest.mark.parametrize("word", ["What", "Who", "whether", "Nobody", "nothing", "of", "The", "a", "An"])
def test_a_title_that_begins_without_a_verb_is_refused(word: str) -> None:
    assert REFUSED.search(f"nic: {word} path is lost{BODY}")


@pytest.mark.parametrize("title", ["fix it", "nic: fix it.", "nic: x"])
def test_a_title_without_area_or_content_is_refused(title: str) -> None:
    assert REFUSED.search(title + BODY)
