"""stdout and stderr of a command on any terminal, disk or pipe."""

import io
import os
import select
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mrc_testbed.printable import printable_lines

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDERR: Final = 2


class OutputError(Exception):
    """stdout cannot be written to: the end of the command, not of a run or an attempt within it."""


class Output(io.FileIO):
    """A descriptor that fails once: what follows a failed write goes to the null device.

    stderr does not fail at all, as nothing is left to say so. Nor does stdout when its reader has left, as
    `| head` does: what a command does, and the status it ends with, do not depend on who reads.

    Args:
        descriptor: 1 or 2.
        is_for_reader: whether the command is to end when the reader has left, by BrokenPipeError.
    """

    def __init__(self, descriptor: int, *, is_for_reader: bool = False) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._is_for_reader = is_for_reader

    def write(self, data: "ReadableBuffer", /) -> Any:
        try:
            while (count := super().write(data)) is None:  # a pipe that does not block
                select.select((), (self,), ())
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError) and self._is_for_reader:
                raise
            if self.fileno() != _STDERR and not isinstance(error, BrokenPipeError):
                raise OutputError(f"stdout cannot be written to: {error.strerror}") from error
            return memoryview(data).nbytes
        return count


def guard_outputs() -> None:
    """Make stdout and stderr of this process such outputs; what an encoding lacks is written as an escape."""
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)


def _guarded(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # None: it was closed before we began
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(Output(stream.fileno())),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class TerminalSafeConsole(Console):
    """Write control characters of given text as escape sequences; its own still steer the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)
