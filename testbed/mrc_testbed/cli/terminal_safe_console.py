"""Console that escapes control characters in names and texts of others."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from mrc_testbed.printable import printable_lines


class TerminalSafeConsole(Console):
    """Write control characters of given text as escape sequences; its own still steer the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)
