"""Signals that end a command early and in good order, and those that are for the ranks of a program."""

import contextlib
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from mrc_agents.clock import machine_ns

FORCE_AFTER_NS: Final = 300_000_000
"""A signal that follows the first one sooner is no further request: timeout(1) sends two at once."""

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGXCPU)
_FOR_RANKS: Final = (signal.SIGUSR1, signal.SIGUSR2)

_OUTPUTS: Final = (1, 2)

_SEEN: Final[list[int]] = []

_ROUTES: Final[set[int]] = set()
_ROUTES_LOCK: Final = threading.RLock()


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
            _SEEN[:] = [number]
            self._first(number)
        elif number != signal.SIGXCPU and now_ns - self._came_ns >= FORCE_AFTER_NS:  # it comes every second
            self._force(number)


def forget_signals() -> None:
    _SEEN.clear()


def exit_status() -> int:
    """Exit status of a process that a signal has ended: 128 + its number; SIGTERM counts as SIGINT."""
    return 128 + next((number for number in _SEEN if number != signal.SIGTERM), signal.SIGINT)


@contextmanager
def handled_by(handle: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have *handle* called at signals that end, SIGHUP unless nohup(1) has it ignored; main thread only.

    SIGUSR1 and SIGUSR2 end nothing: `passed_on` has them.
    """
    handlers = {**dict.fromkeys(_ENDING, handle), **dict.fromkeys(_FOR_RANKS, _pass_on)}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = handle
    before = {number: signal.signal(number, each) for number, each in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pass_on(number: int, _frame: FrameType | None) -> None:
    with _ROUTES_LOCK:
        for route in _ROUTES:
            with contextlib.suppress(BlockingIOError):  # thousands wait there
                os.write(route, bytes((number,)))


@contextmanager
def passed_on() -> Iterator[int]:
    """Descriptor of the numbers of signals that are for ranks, a byte each."""
    with _nonblocking_pipe() as (read_end, write_end):
        with _ROUTES_LOCK:
            _ROUTES.add(write_end)
        try:
            yield read_end
        finally:
            with _ROUTES_LOCK:
                _ROUTES.remove(write_end)


@contextmanager
def signals_wake() -> Iterator[int]:
    """Descriptor that a signal with a handler makes readable, whichever thread it reaches; main thread only.

    Python calls a handler between two bytecodes of the main thread. A signal just before select(2) sleeps
    comes after the last of them, and the sleep goes on. This descriptor is written as the signal comes.
    """
    with _nonblocking_pipe() as (read_end, write_end):
        before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        try:
            yield read_end
        finally:
            signal.set_wakeup_fd(before)


@contextmanager
def _nonblocking_pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


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
