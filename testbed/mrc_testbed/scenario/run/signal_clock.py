"""The clock of a real run: CLOCK_MONOTONIC, waiting that a signal ends, and what the signal was.

The first signal asks for an orderly end, a later one ends by force (mrc_testbed.signals). A signal from
before or after goes to the handler that is there then.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.signals import EndingSignals, handled_by, signals_wake

NO_DESCRIPTOR: Final = -1
"""For a clock that no signal interrupts."""


class SignalClock:
    """Time of this machine; see `catching_signals`."""

    def __init__(self, wake_descriptor: int, came_descriptor: int = NO_DESCRIPTOR) -> None:
        self._wake_descriptor = wake_descriptor
        self._came_descriptor = came_descriptor
        self._interruption: str | None = None

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return monotonic_ns()

    def utc_now(self) -> datetime:
        return datetime.now(UTC)

    def wait_until_ns(self, deadline_ns: int) -> None:
        """Returns at *deadline_ns*, or when a signal came."""
        while self._interruption is None:
            left_ns = deadline_ns - monotonic_ns()
            if left_ns <= 0:
                return
            if select.select([self._wake_descriptor], [], [], left_ns / 1e9)[0]:
                os.read(self._wake_descriptor, select.PIPE_BUF)  # also of one that is for ranks

    def fileno(self) -> int:
        """Readable once a signal came."""
        return self._came_descriptor

    def interruption(self) -> str | None:
        """Name of the signal that came; None while none did."""
        return self._interruption

    def interrupt(self, name: str) -> None:
        """Asks for an early end, as a signal of that name does."""
        self._interruption = name
        if self._came_descriptor != NO_DESCRIPTOR:
            os.eventfd_write(self._came_descriptor, 1)


@contextmanager
def catching_signals(force: Callable[[], object] | None = None) -> Iterator[SignalClock]:
    """A clock that the signals of `handled_by` interrupt while the context lasts; main thread only.

    Args:
        force: called at a later signal; None sends that signal to the handler of before.
    """

    def interrupt(number: int) -> None:
        clock.interrupt(signal.Signals(number).name)

    def end(number: int) -> None:
        if force is not None:
            force()
            return
        handlers.close()
        signal.raise_signal(number)

    with ExitStack() as handlers:
        came = os.eventfd(0, os.EFD_CLOEXEC)
        handlers.callback(os.close, came)
        clock = SignalClock(handlers.enter_context(signals_wake()), came)
        handlers.enter_context(handled_by(EndingSignals(interrupt, end).handle))
        yield clock
