"""A console that shows names and texts of files, nodes and users without obeying them."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from testbed.printable import printable_lines


class TerminalSafeConsole(Console):
    """Writes control characters in what it is given as escape sequences; its own still steer the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts of *renderable*."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)
