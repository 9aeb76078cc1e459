"""The clock of a real run: CLOCK_MONOTONIC, waiting that a signal ends, and what the signal was.

The first SIGINT or SIGTERM asks for an orderly end, the second ends by force. A signal from before or after
goes to the handler that is there then.
"""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType

from agents.clock import monotonic_ns

_CAUGHT = (signal.SIGINT, signal.SIGTERM)


class SignalClock:
    """Time of this machine; see `catching_signals`."""

    def __init__(self, wake_descriptor: int) -> None:
        self._wake_descriptor = wake_descriptor
        self._interruption: str | None = None

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return monotonic_ns()

    def utc_now(self) -> datetime:
        """The date."""
        return datetime.now(UTC)

    def wait_until_ns(self, deadline_ns: int) -> None:
        """Returns at *deadline_ns*, or when a signal came."""
        while self._interruption is None:
            left_ns = deadline_ns - monotonic_ns()
            if left_ns <= 0:
                return
            select.select([self._wake_descriptor], [], [], left_ns / 1e9)

    def interruption(self) -> str | None:
        """Name of the signal that came; None while none did."""
        return self._interruption

    def interrupt(self, name: str) -> None:
        """Asks for an early end, as a signal of that name does."""
        self._interruption = name


@contextmanager
def catching_signals(force: Callable[[], object] | None = None) -> Iterator[SignalClock]:
    """A clock that SIGINT and SIGTERM interrupt while the context lasts; main thread only.

    Args:
        force: called at the second signal; None sends that signal to the handler of before.
    """
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    clock = SignalClock(read_end)
    before = {number: signal.getsignal(number) for number in _CAUGHT}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, _frame: FrameType | None) -> None:
        if clock.interruption() is None:
            clock.interrupt(signal.Signals(number).name)
            os.write(write_end, b"!")
            return
        if force is not None:
            force()
            return
        restore()
        signal.raise_signal(number)

    try:
        for number in _CAUGHT:
            signal.signal(number, handle)
        yield clock
    finally:
        restore()
        os.close(read_end)
        os.close(write_end)
