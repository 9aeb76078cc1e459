"""Rows of a result: one dataclass gives a command's table and its JSON document."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import JsonValue, plain_table, show
from mrc_testbed.shown import format_time


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    header: str  # above it
    # name of the row's attribute, or a function of the row. A dash stands for None and an empty text; numbers
    # have commas.
    cell: str | Callable[[Any], RenderableType | int | None]
    is_right: bool = False  # aligned right, as numbers are

    def text(self, row: object) -> RenderableType:
        """The text of a row."""
        value = getattr(row, self.cell) if isinstance(self.cell, str) else self.cell(row)
        if isinstance(value, int):
            return f"{value:,}"
        return "-" if value in (None, "") else value


class Row:
    """Base of row dataclasses: their fields are the document's keys, COLUMNS the table's."""

    COLUMNS: ClassVar[tuple[Column, ...]]


def number(header: str, cell: str | Callable[[Any], RenderableType | int | None]) -> Column:
    """A column that is aligned right."""
    return Column(header, cell, is_right=True)


def known_time(time_ns: float | None) -> str | None:
    """The text of a time; None where it is not known."""
    return None if time_ns is None else format_time(time_ns)


def rows_table(rows: Sequence[Row]) -> Table:
    """The table of at least one row."""
    columns = rows[0].COLUMNS
    right = [column.header for column in columns if column.is_right]
    table = plain_table(*(column.header for column in columns), right=right)
    for row in rows:
        table.add_row(*(column.text(row) for column in columns))
    return table


def row_documents(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows for programs."""
    return [asdict(row) for row in rows]  # type: ignore[call-overload]


def show_rows(
    settings: Settings,
    kind: str,
    version: int,
    rows: Mapping[str, Sequence[Row]],
    *,
    document: Mapping[str, JsonValue] | None = None,
    empty: str = "",
    head: Sequence[RenderableType] = (),
    tail: Sequence[RenderableType] = (),
) -> None:
    """Print rows as `render.show` prints a result; `-o jsonl` prints one row per line.

    Args:
        settings: say in which format.
        kind: of the document.
        version: of the document.
        rows: key of the list in the document -> its rows.
        document: what else the document has, before the rows.
        empty: text in place of a table without rows.
        head: printed above the table.
        tail: printed below the table.
    """
    [(key, listed)] = rows.items()
    show(
        settings,
        kind,
        version,
        {**(document or {}), key: row_documents(listed)},
        lambda: Group(*head, rows_table(listed) if listed else Text(empty), *tail),
        lines=key,
    )
