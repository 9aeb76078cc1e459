"""Errors in a file with their place: the only code that writes `file:line: dotted.key: ...`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, Union

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from mrc_testbed.errors import UsageError

Tree: TypeAlias = Union[str, int, float, bool, list["Tree"], dict[str, "Tree"], None]  # noqa: UP007 recursive
"""Content of a parsed file."""

Location: TypeAlias = tuple[str | int, ...]
"""The keys and list indices that lead from the top of a file to an entry."""

SHOWN_MAX: Final = 20
"""Problems listed in one message; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where an entry stands in its file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one entry.

    Args:
        location: of the entry; it need not exist (a missing key).
        message: what was found and what is accepted, without file, line or key.
    """

    location: Location
    message: str


def format_location(location: Location) -> str:
    """Dotted key such as `spec.faults[0].every`; empty for the top of the file."""
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            # A key comes from anybody's file, and the text goes to a terminal.
            key = step if step.isprintable() else repr(step)
            text += f".{key}" if text else key
    return text


def position_of(location: Location, positions: Mapping[Location, Position]) -> Position | None:
    """Where *location* stands, or else the nearest entry around it that exists."""
    for length in range(len(location), -1, -1):
        if location[:length] in positions:
            return positions[location[:length]]
    return None


def usage_error(
    source: str, positions: Mapping[Location, Position], problems: Iterable[Problem]
) -> UsageError:
    """One error listing all *problems* in the order of their lines, each as `source:line: key: message`."""
    lines: list[tuple[int, str]] = []
    for problem in dict.fromkeys(problems):
        position = position_of(problem.location, positions)
        parts = [source if position is None else f"{source}:{position.line}"]
        if problem.location:
            parts.append(format_location(problem.location))
        lines.append((0 if position is None else position.line, ": ".join([*parts, problem.message])))
    lines.sort(key=lambda numbered: numbered[0])
    shown = [text for _, text in lines[:SHOWN_MAX]]
    if len(lines) > SHOWN_MAX:
        shown.append(f"{source}: and {len(lines) - SHOWN_MAX} more")
    return UsageError("\n".join(shown))


class LimitProblems:
    """Cross-field errors, each at the key it is about."""

    def __init__(self) -> None:
        self._details: list[InitErrorDetails] = []

    def __bool__(self) -> bool:
        return bool(self._details)

    def add(self, key: str | Location, value: object, message: str) -> None:
        """Notes that *value*, at a dotted key or a location of keys and list indices, breaks a limit."""
        error = PydanticCustomError("topology_limit", "{message}", {"message": message})
        location = tuple(key.split(".")) if isinstance(key, str) else key
        self._details.append(InitErrorDetails(type=error, loc=location, input=value))

    def raise_if_any(self, title: str) -> None:
        """Ends the validation of the model *title* if anything was noted.

        Raises:
            ValidationError: all that was noted.
        """
        if self._details:
            raise ValidationError.from_exception_data(title, self._details)
