"""The exceptions of the project, each with the exit status it ends a command with.

    TestbedError            1    something went wrong while running
    ├── UsageError          2    wrong command line, invalid file: the user can mend it
    ├── PreflightError      3    the machine lacks something; `mrc-testbed doctor` says how to mend it
    ├── CleanupError        6    something of ours is left behind on the machine
    ├── FabricError         1    a node, link, BPF program or switch
    ├── AgentError          1    a NIC agent refused, died or did not answer
    ├── FaultError          1    a fault could not be applied or reverted
    ├── WireError           1    bytes that are not a packet of the protocol
    └── Interrupted       130    SIGINT or SIGTERM; faults are reverted, results kept as partial

A verdict is a value, not an exception: statuses 4, 5 and 7 belong to testbed.scenario.verdict. Only
testbed.cli turns `exit_code` into a process status.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar


class TestbedError(Exception):
    """A failure that the user is told about in one message, without a traceback.

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
    """The command line or a file is wrong.

    It is a ValueError so that a pydantic validator may raise it: testbed.document then adds file and line.
    """

    exit_code = 2


class PreflightError(TestbedError):
    """The machine cannot do what is asked: no root, no BTF, a missing program, a stopped Docker Engine."""

    exit_code = 3


class CleanupError(TestbedError):
    """Something that belongs to us could not be removed."""

    exit_code = 6


class FabricError(TestbedError):
    """A node, a link or the data plane could not be set up, changed or read."""


class AgentError(TestbedError):
    """A NIC agent refused a request, died, or did not answer before the deadline."""


class FaultError(TestbedError):
    """A fault could not be applied, or not reverted."""


class WireError(TestbedError):
    """Bytes that are not a well-formed packet, or a value that does not fit its field."""


class Interrupted(TestbedError):  # noqa: N818 - the name every command line uses for it
    """A signal ended the work early; what had been injected is already reverted."""

    exit_code = 130


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """The member of *known* that *name* is most likely a misspelling of; case is ignored."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    matches = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ending `; did you mean 'x'?` for a message, or nothing when no member of *known* is close to *name*."""
    closest = closest_name(name, known)
    return "" if closest is None else f"; did you mean {closest!r}?"
