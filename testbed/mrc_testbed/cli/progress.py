"""Progress of a command on stderr: a bar after two seconds on a terminal, log lines with -v.

A run in virtual time shows how much time it has simulated. Without a terminal, a line every ten seconds says
how far the command is.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console

from mrc_agents.clock import machine_ns
from mrc_testbed.shown import format_time

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SHOWN_AFTER_S: Final = 2.0
LINE_EVERY_NS: Final = 10_000_000_000
_UPDATE_EVERY_NS: Final = 100_000_000

logger = logging.getLogger(__name__)


class Progress:
    """Show the stages of a command."""

    def __init__(self, console: Console, *, is_quiet: bool) -> None:
        self.stage = "start"  # the last stage, with how far it was
        self._name = ""
        self._console = console
        self._is_quiet = is_quiet
        self._bar: Bar | None = None
        self._timer: threading.Timer | None = None
        self._simulation_began_ns: int | None = None
        self._next_update_ns: int | None = None

    def __call__(self, name: str, done: int | None = None, total: int | None = None) -> None:
        """Set the stage, and its progress if known; from any thread."""
        if name != self._name:
            logger.info("%s", name)
        self._name = name
        amount = "" if total is None else f"{done}/{total}"
        self.stage = f"{name} {amount}".rstrip()
        self._draw(done or 0, total, amount)
        if total is not None and self._is_due(machine_ns()):
            self._write(self.stage)

    def simulate(self, done_ns: int, total_ns: int | None) -> None:
        """Set the simulated time, and its total if known; cheap enough to call often."""
        now_ns = machine_ns()
        if self._simulation_began_ns is None:
            self._simulation_began_ns = now_ns
        if not self._is_due(now_ns):
            return
        amount = _simulated(done_ns, total_ns, now_ns - self._simulation_began_ns)
        self._draw(done_ns, total_ns, amount)
        self._write(f"simulated {amount}")

    def count(self, text: str) -> None:
        """Set how far work without an end in sight is; cheap enough to call often."""
        if self._is_due(machine_ns()):
            self.stage = text
            self._draw(0, None, text)
            self._write(text)

    def _is_due(self, now_ns: int) -> bool:
        """Return True if the next line or update of the bar is due; the first call sets the time."""
        next_ns = self._next_update_ns
        if next_ns is None or now_ns >= next_ns:
            self._next_update_ns = now_ns + (LINE_EVERY_NS if self._bar is None else _UPDATE_EVERY_NS)
        return next_ns is not None and now_ns >= next_ns

    def _write(self, line: str) -> None:
        if self._bar is None and not self._is_quiet:
            self._console.print(line, highlight=False)

    def _draw(self, done: int, total: int | None, amount: str) -> None:
        bar = self._bar
        if bar is not None:
            [task] = bar.task_ids
            bar.update(task, description=self._name, completed=done, total=total, amount=amount)

    def hide(self) -> None:
        """Remove the bar for good: the result follows."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show a bar with the stage when the block takes more than SHOWN_AFTER_S on a terminal."""
        if self._is_quiet or not self._console.is_terminal:
            yield
            return
        from rich import progress  # noqa: PLC0415 - commands in scripts and completion do without it

        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[amount]}"),
            progress.TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._bar.add_task(self.stage, total=None, amount="")
        self._timer = threading.Timer(SHOWN_AFTER_S, self._bar.start)
        self._timer.daemon = True
        self._timer.start()
        try:
            yield
        finally:
            self.hide()


def _simulated(done_ns: int, total_ns: int | None, elapsed_ns: int) -> str:
    """Describe simulated time: its share, and an estimate of the time left."""
    if total_ns is None or not 0 < done_ns <= total_ns:
        return format_time(done_ns)
    left_s = elapsed_ns * (total_ns - done_ns) / done_ns / 1e9
    share_percent = 100 * done_ns // total_ns
    return f"{format_time(done_ns)} of {format_time(total_ns)}, {share_percent} %, about {left_s:.0f} s left"
