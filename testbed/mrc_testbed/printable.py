"""Text from anywhere as a terminal may show it. Pure."""

import re
from typing import Final

_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, those that turn the direction of text, and what is no character."""


def printable(text: str) -> str:
    """One line of *text*: what would steer a terminal, newlines too, is written as an escape sequence."""
    return printable_lines(text).replace("\n", "\\n")


def printable_lines(text: str) -> str:
    """*text* with what would steer a terminal, but not tabs and newlines, written as escape sequences."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
