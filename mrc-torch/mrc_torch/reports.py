"""Lines of JSON for the process that has started a rank: steps, and a trace on demand. Needs no torch.

A line of a trace is an array, with times of now_ns(). IN is the operation that the calling thread follows;
null: the program; below 0: another thread.

    ["begin", NS]                                          time 0 of the rank
    ["group", NAME, [RANK, ...]]                           before its first operation
    ["start", IN, ID, NS, KIND, GROUP, BYTES, PEER, TAG]   PEER: a global rank, also a root, or null
    ["end", ID, NS]
    ["wait", IN, [ID, ...], BEGIN_NS, END_NS]              without an ID: for what has ended meanwhile
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final

from mrc_torch.clock import CLOCK
from mrc_torch.rank import inherited, is_rank, is_virtual

REPORT_VARIABLE: Final = "MRC_TESTBED_REPORT_FD"
TRACE_VARIABLE: Final = "MRC_TESTBED_TRACE"
"""Set to 1 where a trace is wanted."""

_REPORTS: Final = inherited(REPORT_VARIABLE)
_TRACED: Final = _REPORTS is not None and os.environ.get(TRACE_VARIABLE) == "1"
_WRITING: Final = threading.Lock()
_HERE: Final = threading.local()
_IDS: Final = count()
_GROUPS: Final[set[tuple[str, tuple[int, ...]]]] = set()


def now_ns() -> int:
    """Virtual time, or CLOCK_MONOTONIC."""
    return CLOCK.now_ns if is_virtual() else time.monotonic_ns()


def are_wanted() -> bool:
    """Return True if somebody reads them."""
    return _REPORTS is not None


def report(line: object) -> None:
    """Write a line, as a whole, if somebody reads it; children of a rank write none."""
    if _REPORTS is not None and is_rank():
        with _WRITING:
            os.write(_REPORTS, (json.dumps(line) + "\n").encode())


def trace(*row: object) -> None:
    """Write a line of the trace, if one is wanted."""
    if _TRACED:
        report(row)


def trace_start(
    kind: str, group: str, ranks: Sequence[int], size_bytes: int, peer: int | None, tag: int
) -> int | None:
    """The number of an operation that starts now; None: no trace is wanted."""
    if not _TRACED:
        return None
    number = next(_IDS)
    if number == 0:
        CLOCK.program = threading.current_thread()
    if (group, tuple(ranks)) not in _GROUPS:
        _GROUPS.add((group, tuple(ranks)))
        trace("group", group, [*ranks])
    trace("start", _place(), number, now_ns(), kind, group, size_bytes, peer, tag)
    return number


@contextmanager
def waiting(*operations: int | None) -> Iterator[None]:
    """Trace the time of a wait, for those operations."""
    if not _TRACED:
        yield
        return
    began_ns = now_ns()
    try:
        yield
    finally:
        trace_wait([each for each in operations if each is not None], began_ns)


def trace_wait(operations: Sequence[int], began_ns: int) -> None:
    """Trace a wait that ends now."""
    trace("wait", _place(), [*operations], began_ns, now_ns())


def followed() -> int | None:
    """The operation that the calling thread follows, if a trace is wanted; None: it follows none."""
    number: int | None = getattr(_HERE, "followed", None)
    return number


def following(operation: int | None, function: Callable[[], None]) -> Callable[[], None]:
    """A function that follows an operation."""

    def follow() -> None:
        _HERE.followed = operation
        try:
            function()
        finally:
            _HERE.followed = None

    return follow if _TRACED else function


def _place() -> int | None:
    number = followed()
    return number if number is not None or CLOCK.is_of_program else -threading.get_native_id()
