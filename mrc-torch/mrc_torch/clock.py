"""Virtual time as a rank sees it. Needs no torch.

The thread that runs the rank's collectives moves the clock: by the time that it declares to compute, by its
sleeps, and to the end of operations that it has waited for. Other threads and children of the process sleep
by the machine's clock, and so do the standard library and torch: they wait, with a limit, for what happens in
the machine.
"""

import concurrent.futures
import multiprocessing.popen_fork
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from mrc_torch.rank import is_rank

NOW_VARIABLE: Final = "MRC_TESTBED_VIRTUAL_NOW_NS"

SPIN_READS: Final = 1_000_000
"""Reads of a clock that stands, after which the program is taken to wait for it."""

SPIN_NS: Final = 100_000
"""Time that each further read takes."""

_LIBRARIES: Final = sys.stdlib_module_names | {"torch"}

_POLLS: Final[tuple[tuple[Any, str, Callable[[Any], bool]], ...]] = (
    (subprocess.Popen, "poll", lambda status: status is None),
    (multiprocessing.popen_fork.Popen, "poll", lambda status: status is None),
    (threading.Thread, "is_alive", bool),
    (concurrent.futures.Future, "done", lambda is_done: not is_done),
)
"""Methods that ask for the end of something in the machine, and which answers mean that it goes on."""


class RankClock:
    """Virtual time of this process, in ns; what follows an operation has a time of its own."""

    def __init__(self) -> None:
        self._now_ns = int(os.environ.get(NOW_VARIABLE, "0"))
        self._own = threading.local()
        self._reads = 0
        self.program = threading.main_thread()  # the thread that moves it
        # lets time pass until then; the simulation does, where there is one
        self.sleep_until: Callable[[int], None] = self.join

    @property
    def now_ns(self) -> int:
        now_ns: int = getattr(self._own, "now_ns", self._now_ns)
        return now_ns

    @property
    def is_of_program(self) -> bool:
        """Return True if the calling thread moves the clock."""
        return threading.current_thread() is self.program

    @property
    def _is_of_follower(self) -> bool:
        return hasattr(self._own, "now_ns")

    def compute(self, duration_ns: int) -> None:
        self.join(self.now_ns + duration_ns)

    def join(self, time_ns: int) -> None:
        """Move to a time that is not past."""
        if self._is_of_follower:
            self._own.now_ns = max(self._own.now_ns, time_ns)
        elif self.is_of_program and time_ns > self._now_ns:
            self._now_ns = time_ns
            self._reads = 0

    def read(self) -> int:
        """The time, in ns; it passes for a program that does nothing but look at it."""
        if self.is_of_program:
            self._reads += 1
            if self._reads > SPIN_READS:
                self.sleep_until(self._now_ns + SPIN_NS)
                self._reads = SPIN_READS
        return self.now_ns

    def sleep(self, duration_ns: int) -> bool:
        """Let time pass; False: a thread that does not move the clock sleeps by the machine's."""
        if self._is_of_follower:
            self.compute(duration_ns)
        elif self.is_of_program and not vars(self._own).pop("is_polling", False):
            if duration_ns:
                self.sleep_until(self._now_ns + duration_ns)
            else:
                self.read()
        else:
            return False
        return True

    def note_poll(self) -> None:
        """Let the next sleep of this thread be by the machine's clock: it waits for something there."""
        self._own.is_polling = True

    @contextmanager
    def of_this_thread(self, time_ns: int) -> Iterator[None]:
        """Let it be *time_ns* in this thread, whatever the time of the others."""
        self._own.now_ns = time_ns
        try:
            yield
        finally:
            del self._own.now_ns


CLOCK: Final = RankClock()


def take_over_time() -> None:
    """Let the clocks of module `time` show virtual time, and sleep() take it.

    What a script measures and prints is then the same each time. The date begins with 1970.
    """
    for name in ("monotonic", "perf_counter", "time"):
        setattr(time, name, _shown(getattr(time, name), 1e9, waits=name == "monotonic"))
        setattr(time, f"{name}_ns", _shown(getattr(time, f"{name}_ns"), 1, waits=name == "monotonic"))
    machine_sleep = time.sleep

    def sleep(duration_s: float) -> None:
        is_virtual = is_rank() and not _is_library(sys._getframe(1).f_globals)  # noqa: SLF001 - the caller's
        if not (is_virtual and duration_s >= 0 and CLOCK.sleep(round(duration_s * 1e9))):
            machine_sleep(duration_s)

    time.sleep = sleep  # type: ignore[assignment] # takes what has no float() too
    for of, method, goes_on in _POLLS:
        setattr(of, method, _noted(getattr(of, method), goes_on))


def _shown(machine: Callable[[], Any], per_s: Any, *, waits: bool) -> Callable[[], Any]:
    """A clock that shows virtual time; where libraries wait by it, they see the machine's."""

    def read() -> Any:
        is_library = _is_library(sys._getframe(1).f_globals)  # noqa: SLF001 - the caller's
        if not is_rank() or (waits and is_library):
            return machine()
        now_ns = CLOCK.now_ns if is_library else CLOCK.read()
        return now_ns if per_s == 1 else now_ns / per_s

    return read


def _noted(ask: Callable[..., Any], goes_on: Callable[[Any], bool]) -> Callable[..., Any]:
    def noted(*arguments: Any, **named: Any) -> Any:
        answer = ask(*arguments, **named)
        if goes_on(answer):
            CLOCK.note_poll()
        return answer

    return noted


def _is_library(names: dict[str, Any]) -> bool:
    return str(names.get("__name__", "")).partition(".")[0] in _LIBRARIES
