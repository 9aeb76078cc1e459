"""Ctrl-C, SIGTERM and --timeout: the first cancels and cleans up, a second ends the process at once."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from testbed.errors import Interrupted, TestbedError
from testbed.units import format_duration_ns


class CommandTimeoutError(TestbedError):
    """The command took longer than --timeout allows."""


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Turns the first SIGINT or SIGTERM into KeyboardInterrupt, and the second into an immediate end."""
    is_second = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal is_second
        if is_second:
            force_end()
        is_second = True
        name = signal.Signals(number).name
        os.write(sys.stderr.fileno(), f"\n{name}: stopping and cleaning up; once more to force\n".encode())
        raise KeyboardInterrupt

    with _handled_by(handle):
        yield


@contextmanager
def signals_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Calls *stop* at the first SIGINT or SIGTERM, for work that then ends in good order; a second forces."""
    is_second = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_second
        if is_second:
            force_end()
        is_second = True
        stop()

    with _handled_by(handle):
        yield


def force_end() -> NoReturn:
    """Ends the process at once, and says what removes the remains."""
    os.write(sys.stderr.fileno(), b"\nforced: `mrc-testbed down` removes what is left\n")
    os._exit(Interrupted.exit_code)


@contextmanager
def _handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deadline(timeout_ns: int | None, stage: Callable[[], str]) -> Iterator[None]:
    """Raises CommandTimeoutError in the main thread when the block takes longer.

    Args:
        timeout_ns: None sets no limit.
        stage: what the command is waiting for, asked when the time is over.
    """
    if timeout_ns is None:
        yield
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise CommandTimeoutError(
            f"not done after {format_duration_ns(timeout_ns)} (--timeout); it was at: {stage()}",
            hint="give --timeout more time, or -v to see where the time goes",
        )

    handler_before = signal.signal(signal.SIGALRM, handle)
    timer_before = signal.setitimer(signal.ITIMER_REAL, timeout_ns / 1e9)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer_before)
        signal.signal(signal.SIGALRM, handler_before)
