"""Every relative link of a page, with its anchor, and every page that any file names, exists."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]

_LINK = re.compile(r"\]\((?![a-z]+:)([^()\s#]*)(?:#([^()\s]+))?\)")
_FENCE = re.compile(r"^```.*?^```$|^ {4}.*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@cache
def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and the site make them."""
    seen: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = seen.get(slug, 0)
        seen[slug] = number + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


def broken_links(page: str) -> list[str]:
    here = ROOT / page
    broken = []
    for target, anchor in _LINK.findall(_FENCE.sub("", here.read_text())):
        there = (here.parent / target).resolve() if target else here
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(f"{page}: {target}{'#' if anchor else ''}{anchor}")
    return broken


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "a.md").write_text(
        "# One `two`: 3\n\n[x](#one-two-3) [x](#one) [x](a.md#one-two-3) [x](b.md)\n"
    )
    assert broken_links("a.md") == ["a.md: #one", "a.md: b.md"]


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs/README.md"
    linked = {(index.parent / target).resolve() for target, _ in _LINK.findall(index.read_text())}
    pages = {path for path in (ROOT / "docs").rglob("*.md") if path != index}
    assert sorted(str(path) for path in pages - linked if not path.name.startswith("0000")) == []


def test_every_page_that_a_file_names_exists() -> None:
    command = ["git", "grep", "-hoIE", r"\bdocs/[A-Za-z0-9_/.-]+\.md", "--", ":!CHANGELOG.md"]
    named = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert sorted({name for name in named if not (ROOT / name).is_file()}) == []
