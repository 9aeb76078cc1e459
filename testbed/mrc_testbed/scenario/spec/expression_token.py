"""The words of an expectation: numbers with their units, names, operators. Pure."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from mrc_testbed.errors import UsageError


class TokenKind(Enum):
    NUMBER = "number"
    NAME = "name"
    OPERATOR = "operator"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text."""

    kind: TokenKind  # what it is
    text: str  # as written; a number with its unit
    start: int  # place of its first character, from 0

    @property
    def column(self) -> int:
        """Place of its first character, from 1, as messages count."""
        return self.start + 1

    def __str__(self) -> str:
        return f"'{self.text}'" if self.text else "the end"


_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>[0-9]+(?:\.[0-9]+)?[ ]?(?:%|[A-Za-z]+)?(?![A-Za-z0-9_.%]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*)
    | (?P<operator><=|>=|==|!=|[-+*/()<>,])
    )""",
    re.VERBOSE | re.ASCII,
)


def refuse(column: int, message: str) -> NoReturn:
    """Raises UsageError for what is wrong at a column."""
    raise UsageError(f"column {column}: {message}")


def tokenize(text: str) -> list[Token]:
    """The words of *text*, and the end."""
    tokens: list[Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            word = re.match(r"[^\s()<>=,]+", text[start:])
            found = word.group() if word and word.group()[0].isdigit() else text[start]
            refuse(start + 1, f"{found!r} is not part of the language")
        kind = TokenKind(match.lastgroup)
        number_or_name = match.group(kind.value)
        start = match.start(kind.value)
        if kind is TokenKind.NUMBER and number_or_name.endswith((" of", " to")):
            number_or_name = number_or_name[:-3]  # a word of the language, not a unit
        tokens.append(Token(kind, number_or_name, start))
        position = start + len(number_or_name)
    tokens.append(Token(TokenKind.END, "", end))
    return tokens
