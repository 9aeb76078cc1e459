"""What a command is doing, on stderr: a progress bar after two seconds on a terminal, log lines with -v."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SHOWN_AFTER_S: Final = 2.0

logger = logging.getLogger(__name__)


class Progress:
    """Shows the stages of a command.

    Args:
        console: stderr.
        is_quiet: show no bar.

    Attributes:
        stage: the last stage, with how far it was.
    """

    def __init__(self, console: Console, *, is_quiet: bool) -> None:
        self.stage = "start"
        self._name = ""
        self._console = console
        self._is_quiet = is_quiet
        self._bar: Bar | None = None
        self._timer: threading.Timer | None = None

    def __call__(self, name: str, done: int | None = None, total: int | None = None) -> None:
        """Says which stage is under way, and how far it is if that is known; from any thread."""
        if name != self._name:
            logger.info("%s", name)
        self._name = name
        self.stage = name if total is None else f"{name} {done}/{total}"
        bar = self._bar
        if bar is not None:
            [task] = bar.task_ids
            bar.update(task, description=name, completed=done or 0, total=total)

    def hide(self) -> None:
        """Takes the bar away for good: what follows is the result."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Shows a bar with the stage when the block takes more than SHOWN_AFTER_S on a terminal."""
        if self._is_quiet or not self._console.is_terminal:
            yield
            return
        from rich import progress  # noqa: PLC0415 - commands in scripts and completion do without it

        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._bar.add_task(self.stage, total=None)
        self._timer = threading.Timer(SHOWN_AFTER_S, self._bar.start)
        self._timer.daemon = True
        self._timer.start()
        try:
            yield
        finally:
            self.hide()
