"""The exceptions that agents raise, and what all exceptions of the project have in common."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar


class TestbedError(Exception):
    """A failure reported to the user in one message, without a traceback.

    Args:
        message: what went wrong, where, and why; may have several lines.
        hint: what to do next, as one imperative sentence.
    """

    __test__: ClassVar = False  # pytest would otherwise collect it for its name
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TestbedError, ValueError):
    """The command line, a file or a request is wrong.

    It is a ValueError so that a pydantic validator may raise it.

    Args:
        number: errno that a C library has for it.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None, number: int = errno.EINVAL) -> None:
        super().__init__(message, hint=hint)
        self.number = number


class PreflightError(TestbedError):
    """The machine cannot do what is asked: no root, no BTF, a missing program, a stopped Docker Engine."""

    exit_code = 3


class FabricError(TestbedError):
    """A node, a link or the data plane could not be set up, changed or read."""


class AgentError(TestbedError):
    """A NIC agent refused a request, died, or did not answer before the deadline."""


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """The member of *known* that *name* is most likely a misspelling of; case is ignored."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    matches = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ending `; did you mean 'x'?` for a message, or nothing when no member of *known* is close to *name*."""
    closest = closest_name(name, known)
    return "" if closest is None else f"; did you mean {closest!r}?"
