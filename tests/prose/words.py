"""Finds words in sentences and in identifiers."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent

SUFFIXES = (
    ".c", ".css", ".def", ".h", ".html", ".js", ".lua", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"
)  # fmt: skip
NAMES = ("Makefile", "Dockerfile", ".ci/run")
"""Files without a suffix that are read as well."""

EXEMPT = (
    "LICENSES/*",
    "docs/explanation/vocabulary.md",
    "tests/prose/*",
    "tests/unit/cli/hostile/*",
    "tests/unit/prose/*",
)
"""Files that name the words on purpose, or are there to be misread."""

FOREIGN = frozenset({("news", "testbed/mrc_testbed/observe/grafana_server.py")})
"""Words in names of other programs, with the file: Grafana's section of its settings."""

_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IN_NAME = re.compile(r"_?")
_ANYWHERE = re.compile(r"[ \t]*[_-]?[ \t]*|[ \t]*\n[ \t]*(?:\*|#|//|>)?[ \t]*")
_CODE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True)
class Finding:
    """One word in one file."""

    path: str
    line: int
    word: str
    replacement: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word} ==> {self.replacement}"


@dataclass(frozen=True)
class _Phrase:
    words: tuple[str, ...]
    gap: re.Pattern[str]
    text: str
    replacement: str

    def is_at(self, tokens: Sequence[re.Match[str]], index: int, text: str) -> bool:
        """Return True if the words from *index* on are those of the phrase."""
        there = tokens[index : index + len(self.words)]
        return tuple(token.group().lower() for token in there) == self.words and all(
            self.gap.fullmatch(text, before.end(), after.start()) for before, after in pairwise(there)
        )


class Words:
    """Words and phrases, with their replacements."""

    def __init__(self, everywhere: Mapping[str, str], in_c: Mapping[str, str]) -> None:
        self._everywhere = _by_first(everywhere)
        self._in_c = _by_first({**everywhere, **in_c})

    @classmethod
    def read(cls) -> "Words":
        """The lists beside this file."""
        return cls(read_dictionary(FOLDER / "words.txt"), read_dictionary(FOLDER / "words_c.txt"))

    def find(self, path: str, text: str) -> list[Finding]:
        """All words of the lists in a file, in order. Names between backticks in a changelog are history."""
        if path == "CHANGELOG.md":
            text = _CODE.sub(lambda match: " " * len(match.group()), text)
        phrases = self._in_c if path.endswith((".c", ".h", ".def")) else self._everywhere
        tokens = list(_WORD.finditer(text))
        return [
            Finding(path, text.count("\n", 0, token.start()) + 1, phrase.text, phrase.replacement)
            for index, token in enumerate(tokens)
            for phrase in phrases.get(token.group().lower(), ())
            if phrase.is_at(tokens, index, text) and (phrase.text, path) not in FOREIGN
        ]


def read_dictionary(path: Path) -> dict[str, str]:
    """Word to replacement.

    Raises:
        ValueError: a line without `->`, a word twice, or words out of order.
    """
    entries: dict[str, str] = {}
    last = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        word, arrow, replacement = line.partition("->")
        if not arrow or not word or not replacement or word != word.lower() or word <= last:
            raise ValueError(f"{path.name}:{number}: {line!r} is no `word->replacement` after {last!r}")
        entries[word] = replacement
        last = word
    return entries


def tracked_files(paths: Sequence[str] = ()) -> Iterator[str]:
    """Files to read, relative to the root, sorted. What is generated elsewhere is left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in sorted(set(listed.split("\0")) - {""}):
        is_text = path.endswith((*SUFFIXES, *NAMES))
        if is_text and not any(fnmatchcase(path, pattern) for pattern in EXEMPT) and (ROOT / path).is_file():
            yield path


def _by_first(entries: Mapping[str, str]) -> dict[str, list[_Phrase]]:
    phrases: dict[str, list[_Phrase]] = {}
    for phrase, replacement in entries.items():
        words = tuple(re.split(r"[ _]", phrase))
        gap = _IN_NAME if "_" in phrase else _ANYWHERE
        phrases.setdefault(words[0], []).append(_Phrase(words, gap, phrase, replacement))
    return phrases
