"""Signals that end a command early and in good order."""

import contextlib
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from mrc_testbed.agents.clock import machine_ns

FORCE_AFTER_NS: Final = 300_000_000
"""A signal that follows the first one sooner is no further request: timeout(1) sends two at once."""

_INTERRUPTED: Final = 130
_HUNG_UP: Final = 129

_OUTPUTS: Final = (1, 2)


@dataclass(slots=True)
class _Seen:
    name: str | None = None


_SEEN: Final = _Seen()


class EndingSignals:
    """Signals that came since handlers were set.

    Args:
        first: called with the number of the first one.
        force: called with the number of one that comes FORCE_AFTER_NS later, or after that.
    """

    def __init__(self, first: Callable[[int], object], force: Callable[[int], object]) -> None:
        self._first = first
        self._force = force
        self._came_ns: int | None = None

    def handle(self, number: int, _frame: FrameType | None) -> None:
        now_ns = machine_ns()
        if self._came_ns is None:
            self._came_ns = now_ns
            _SEEN.name = signal.Signals(number).name
            self._first(number)
        elif now_ns - self._came_ns >= FORCE_AFTER_NS:
            self._force(number)


def forget_signals() -> None:
    _SEEN.name = None


def exit_status() -> int:
    """Exit status of a process that a signal has ended: 128 + its number; SIGTERM counts as SIGINT."""
    return _HUNG_UP if _SEEN.name == signal.SIGHUP.name else _INTERRUPTED


@contextmanager
def handled_by(handle: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Has *handle* called at SIGINT, SIGTERM, and SIGHUP unless nohup(1) has it ignored; main thread only."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals_wake() -> Iterator[int]:
    """Descriptor that a signal with a handler makes readable, whichever thread it reaches; main thread only.

    Python calls a handler between two bytecodes of the main thread. A signal just before select(2) sleeps
    comes after the last of them, and the sleep goes on. This descriptor is written as the signal comes.
    """
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(before)
        os.close(write_end)
        os.close(read_end)


def say(text: str) -> None:
    """Writes to stderr, from a handler. A terminal that is gone becomes the null device: work that ends in
    good order does not stop because nobody reads what it says.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for descriptor in _OUTPUTS:
        with contextlib.suppress(OSError):  # it is closed
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
    with contextlib.suppress(OSError):  # a pipe that nobody reads
        os.write(sys.stderr.fileno(), text.encode())
