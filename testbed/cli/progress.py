"""What a command is doing, on stderr: a spinner after two seconds on a terminal, log lines with -v."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.status import Status

SPINNER_AFTER_S: Final = 2.0

logger = logging.getLogger(__name__)


class Progress:
    """Hears the stages of a command.

    Args:
        console: stderr.
        is_quiet: show no spinner.

    Attributes:
        stage: the last stage heard.
    """

    def __init__(self, console: Console, *, is_quiet: bool) -> None:
        self.stage = "start"
        self._console = console
        self._is_quiet = is_quiet
        self._status: Status | None = None
        self._timer: threading.Timer | None = None

    def __call__(self, stage: str) -> None:
        """Says which stage begins."""
        self.stage = stage
        logger.info("%s", stage)
        if self._status is not None:
            self._status.update(stage)

    def hide(self) -> None:
        """Takes the spinner away for good: what follows is the result."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Shows a spinner with the stage when the block takes more than SPINNER_AFTER_S on a terminal."""
        if self._is_quiet or not self._console.is_terminal:
            yield
            return
        self._status = Status(self.stage, console=self._console)
        self._timer = threading.Timer(SPINNER_AFTER_S, self._status.start)
        self._timer.daemon = True
        self._timer.start()
        try:
            yield
        finally:
            self.hide()
