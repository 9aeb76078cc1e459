"""Signals and --timeout: the first cancels and cleans up, a second ends the process at once."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from mrc_testbed.errors import TestbedError
from mrc_testbed.signals import EndingSignals, exit_status, forget_signals, handled_by, say
from mrc_testbed.units import format_duration_ns


class CommandTimeoutError(TestbedError):
    """The command took longer than --timeout allows."""


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Turn the first signal into KeyboardInterrupt; a later one ends the process."""

    def interrupt(number: int) -> None:
        name = signal.Signals(number).name
        say(f"\n{name}: stopping and cleaning up; once more to force\n")
        raise KeyboardInterrupt

    forget_signals()
    with handled_by(EndingSignals(interrupt, force_end).handle):
        yield


@contextmanager
def signals_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Call *stop* at the first signal, for work that ends in good order; a later one ends the process."""
    with handled_by(EndingSignals(lambda _: stop(), force_end).handle):
        yield


def time_out() -> Callable[[], bool]:
    """A function that returns True once the time of `deadline`, which rings once, is over."""
    has_limit = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    return lambda: has_limit and signal.getitimer(signal.ITIMER_REAL)[0] == 0


def force_end(_number: int = 0) -> NoReturn:
    """End the process at once, and name the command that removes what is left."""
    say("\nforced: `mrc-testbed down` removes what is left\n")
    os._exit(exit_status())


@contextmanager
def deadline(timeout_ns: int | None, stage: Callable[[], str]) -> Iterator[None]:
    """Raise CommandTimeoutError in the main thread when the block takes longer.

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
