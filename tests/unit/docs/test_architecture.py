"""The files that docs/explanation/architecture.md names exist, and have the functions that it names in
them.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/explanation/architecture.md").read_text()

_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/(?:[\w.-]+\.(?:py|h|c|yaml|lua))?|[\w.-]+\.(?:py|toml)")


def named(text: str) -> list[tuple[str, str]]:
    """(file, name) of each function or class in backticks that follows a file in the same item."""
    found = []
    for item in re.split(r"\n(?=\d+\. |\n|#)", text):
        path = ""
        for span in _SPAN.findall(item):
            if _PATH.fullmatch(span):
                path = span
            elif path.endswith((".py", ".h", ".c", ".js")) and re.fullmatch(r"\w+\(\)|[A-Z][a-z]\w+", span):
                found.append((path, span.removesuffix("()")))
    return found


def place(path: str) -> Path:
    """The file or folder that the page calls *path*: from the root, or a package, or within one."""
    starts = (".", "agents", "testbed", "agents/mrc_agents")
    return next((ROOT / start / path for start in starts if (ROOT / start / path).exists()), ROOT / path)


def test_every_file_and_folder_exists() -> None:
    paths = [span for span in _SPAN.findall(TEXT) if _PATH.fullmatch(span)]
    assert len(paths) > 50
    assert [path for path in paths if not place(path).exists()] == []


WALKS = dict(re.findall(r"^### (.+)\n((?:(?!^###? ).*\n?)*)", TEXT, re.MULTILINE))


@pytest.mark.parametrize("walk", WALKS)
def test_every_function_is_in_the_file_that_is_named_before_it(walk: str) -> None:
    names = named(WALKS[walk])
    assert len(names) >= 2
    missing = [(path, name) for path, name in names if not re.search(rf"\b{name}\b", place(path).read_text())]
    assert missing == []


def test_the_walks_are_there() -> None:
    assert len(WALKS) == 9
