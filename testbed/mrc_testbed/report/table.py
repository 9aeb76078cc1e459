"""Tables as data, and as HTML: on a narrow screen a row is a card whose cells carry headings. Pure."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class TableCell:
    text: str  # what it says
    style: str = ""  # class of the style sheet; of a column of numbers `number` by itself
    lead: str = ""  # before the text
    # is_code, is_strong: how the text is set
    is_code: bool = False
    is_strong: bool = False
    notes: tuple[str, ...] = ()  # lines below it, in small print
    link: str = ""  # of the text; empty for none
    codes: tuple[str, ...] = ()  # names below it, a line each, as code
    last: str = ""  # below those
    more: Markup | None = None  # HTML below it, from a template
    is_heading: bool = False  # it names its row


_ANSWERS: Final = {"held": "good", "failed": "bad", "cannot tell": "warn"}

Columns = Mapping[str, str | Callable[[Any], Any]]
"""Name of each column -> key of what the rows have there, or a function of a row."""


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[str]  # their names; a `#` before one sets it to the right. Empty for a table without.
    # of cells; a text stands for a cell with nothing but that. For CSV of values; on a terminal also of
    # numbers, None for a dash, and what rich shows
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, columns: Columns, rows: Iterable[Mapping[str, Any]]) -> Self:
        """The table of rows that a document lists; None stands for an empty text."""
        cells = [[row[of] if isinstance(of, str) else of(row) for of in columns.values()] for row in rows]
        return cls(tuple(columns), [[None if cell == "" else cell for cell in row] for row in cells])

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows((self.columns, *self.rows))
        return text.getvalue()

    def html(self) -> Markup:
        """HTML; empty without rows."""
        if not self.rows:
            return Markup()
        from mrc_testbed.report.page import part  # noqa: PLC0415 - terminals wait for no templates

        heads = [(name.removeprefix("#"), name.startswith("#")) for name in self.columns]
        return part("table", heads, [list(_filled(row, self.columns)) for row in self.rows])

    def markdown(self) -> list[str]:
        aligned = ["---:" if name.startswith("#") else "---" for name in self.columns]
        heads = [name.removeprefix("#") for name in self.columns]
        return [_line(heads), _line(aligned), *(_line(map(_marked, row)) for row in self.rows)]


def judged(answer: str, text: str, *more: str) -> tuple[TableCell | str, ...]:
    """A row: the answer to an expectation, its text, and more."""
    mark = TableCell(answer, f"mark {_ANSWERS[answer]}", is_strong=answer != "held")
    return mark, TableCell(text, is_code=True), *more


def _filled(row: Iterable[TableCell | str], columns: Sequence[str]) -> Iterable[tuple[TableCell, str]]:
    """Each cell and the name of its column."""
    for place, cell in enumerate(row):
        name = columns[place] if place < len(columns) else ""
        made = TableCell(cell) if isinstance(cell, str) else cell
        if name.startswith("#") and not made.style:
            made = replace(made, style="number")
        yield made, name.removeprefix("#")


def _marked(cell: TableCell | str) -> str:
    if isinstance(cell, str):
        return cell
    text = f"`{cell.text}`" if cell.is_code else cell.text
    return f"**{text}**" if cell.is_strong else text


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
