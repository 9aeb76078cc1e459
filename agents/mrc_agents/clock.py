"""The one clock of all Python code: CLOCK_MONOTONIC, or the time of the simulation that this process runs.

The linter forbids the clocks of `time` everywhere else: in a simulation they would mix the machine's time
with simulated times, and nothing would say so.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class _Source:
    now_ns: Callable[[], int]


_SOURCE: Final = _Source(time.monotonic_ns)


def monotonic_ns() -> int:
    """Time that never steps back, in ns: CLOCK_MONOTONIC of the kernel, or that of a simulation."""
    return _SOURCE.now_ns()


def machine_ns() -> int:
    """CLOCK_MONOTONIC of the machine, also during a simulation: for what people and other programs do."""
    return time.monotonic_ns()


def epoch_ns() -> int:
    """The machine's date, in ns since the Unix epoch."""
    return time.time_ns()


@contextmanager
def simulated(now_ns: Callable[[], int]) -> Iterator[None]:
    """While the context lasts, `monotonic_ns` is the time of a simulation, in all of this process."""
    before = _SOURCE.now_ns
    _SOURCE.now_ns = now_ns
    try:
        yield
    finally:
        _SOURCE.now_ns = before
