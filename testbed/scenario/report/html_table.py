"""Tables of reports as HTML text: on a narrow screen a row is a card whose cells carry headings. Pure."""

from collections.abc import Iterable, Sequence
from html import escape


def text_cell(text: str, style: str = "") -> str:
    """A cell of a table."""
    attribute = f' class="{style}"' if style else ""
    return f"<td{attribute}>{escape(text)}</td>"


def number_cell(text: str) -> str:
    """A cell that is set to the right."""
    return text_cell(text, "number")


def table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; empty without rows.

    Args:
        header: names of columns; a `#` before one sets it to the right. Empty for a table without.
        rows: of cells as HTML, as `text_cell` makes them.
    """
    names = [name.removeprefix("#") for name in header]
    body = "\n".join(f"<tr>{''.join(_labelled(row, names))}</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(_heading(name) for name in header)
    heading = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<div class="scroll"><table>{heading}<tbody>\n{body}\n</tbody></table></div>'


def _labelled(row: Iterable[str], names: Sequence[str]) -> Iterable[str]:
    for place, content in enumerate(row):
        name = names[place] if place < len(names) else ""
        yield content.replace("<td", f'<td data-label="{escape(name)}"', 1) if name else content


def _heading(name: str) -> str:
    style = ' class="number"' if name.startswith("#") else ""
    return f'<th scope="col"{style}>{escape(name.removeprefix("#"))}</th>'
