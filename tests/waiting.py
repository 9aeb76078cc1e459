"""Waiting for what nobody announces: state in mapped memory, samples in a server."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

_T = TypeVar("_T")

DEADLINE_S = 120.0
"""So late that only something that never comes is missed, on a busy machine too."""
DEADLINE_NS = int(DEADLINE_S) * 10**9


def poll_until(
    predicate: Callable[[], _T], deadline_s: float = DEADLINE_S, *, interval_s: float = 0.01, what: str = "it"
) -> _T:
    """The first result of *predicate* that is true; the test fails when none is by the deadline."""
    end_s = time.monotonic() + deadline_s
    while not (found := predicate()):
        if time.monotonic() > end_s:
            pytest.fail(f"{what} did not come true in {deadline_s} s; last: {found!r}")
        threading.Event().wait(interval_s)
    return found
