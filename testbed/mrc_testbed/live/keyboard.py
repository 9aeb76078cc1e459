"""Single keys of a terminal. Live."""

import os
import select
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NAMED: Final = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[5~": "page-up", b"\x1b[6~": "page-down"}


class Keyboard:
    """Keys as they are pressed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def key(self, timeout_s: float) -> str | None:
        """A key, arrows and page keys by name; None when none was pressed in time."""
        ready, _, _ = select.select([self._descriptor], [], [], timeout_s)
        if not ready:
            return None
        typed = os.read(self._descriptor, 8)
        return _NAMED.get(typed) or typed[:1].decode("latin-1") or "q"


@contextmanager
def keyboard(descriptor: int) -> Iterator[Keyboard]:
    """The keys of a terminal, which echoes nothing meanwhile."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
