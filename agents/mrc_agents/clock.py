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


class Timeout:
    """A wait in steps. A step counts as no longer than it should be: the rest is a pause of the machine.

    Args:
        timeout_ns: how long to wait in all.
    """

    STEP_NS: Final = 1_000_000_000

    def __init__(self, timeout_ns: int) -> None:
        self._left_ns = timeout_ns
        self._step_ns = 0
        self._began_ns = monotonic_ns()

    def next_step_ns(self) -> int:
        """Nanoseconds to wait before asking again, at most STEP_NS; 0 or less: it is over."""
        now_ns = monotonic_ns()
        self._left_ns -= min(now_ns - self._began_ns, self._step_ns)
        self._step_ns, self._began_ns = min(self._left_ns, self.STEP_NS), now_ns
        return self._step_ns


@contextmanager
def simulated(now_ns: Callable[[], int]) -> Iterator[None]:
    """While the context lasts, `monotonic_ns` is the time of a simulation, in all of this process."""
    before = _SOURCE.now_ns
    _SOURCE.now_ns = now_ns
    try:
        yield
    finally:
        _SOURCE.now_ns = before
