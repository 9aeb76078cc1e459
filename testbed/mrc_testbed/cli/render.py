"""Results on stdout, in the four formats. Every document carries a schema_version; tables are for people."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mrc_testbed.cli.options import OutputFormat, Settings
from mrc_testbed.report import table as report_table
from mrc_testbed.shown import format_time

"""Version of documents that are as they were; a command whose document changed has its own."""

_WIDTH_MAX: Final = 10_000
_CELL_STYLES: Final = {"good": "green", "bad": "bold red", "warn": "yellow"}

JsonValue = Mapping[str, Any] | Sequence[Any] | str | int | float | bool | None


def show(
    settings: Settings,
    kind: str,
    document: Mapping[str, JsonValue],
    table: Callable[[], RenderableType],
    *,
    lines: str | None = None,
    version: int = 1,
) -> None:
    """Print one result.

    Args: settings: say in which format. kind: what the document is, such as
    `LabStatus`. document: the result for programs. table: makes the result for
    people. lines: key of the list in *document* that `-o jsonl` prints one by one;
    None: the whole on one line. version: of the document's shape; it grows when a
    key changes its meaning or goes.
    """
    whole = {"schema_version": version, "kind": kind, **document}
    if settings.output is OutputFormat.TABLE:
        write_out(settings, at_full_width(settings.stdout, table()))
    elif settings.output is OutputFormat.JSON:
        write_out(settings, json.dumps(whole, indent=2) + "\n")
    elif settings.output is OutputFormat.YAML:
        import yaml  # noqa: PLC0415 - only this format waits for it

        plain = json.loads(json.dumps(whole))
        write_out(settings, yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
    else:
        items = document[lines] if lines is not None else [document]
        if not isinstance(items, Sequence):
            raise TypeError(lines)
        for item in items:
            line = {"schema_version": version, "kind": kind, **_mapping(item)}
            write_out(settings, json.dumps(line, separators=(",", ":")) + "\n")


def write_out(settings: Settings, text: str) -> None:
    """Write *text* to stdout at once; nothing else writes there."""
    settings.progress.hide()
    settings.stdout.file.write(text)
    settings.stdout.file.flush()


def at_full_width(console: Console, shown: RenderableType) -> str:
    """Render *shown* at its natural width: a narrow terminal wraps lines, but no cell is cut."""
    natural = console.measure(shown, options=console.options.update(max_width=_WIDTH_MAX)).maximum
    terminal = console.width
    console.width = max(natural, terminal)
    try:
        with console.capture() as capture:
            console.print(shown, crop=False, overflow="ignore", no_wrap=True)
    finally:
        console.width = terminal
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _mapping(item: Any) -> Mapping[str, Any]:
    return item if isinstance(item, Mapping) else {"value": item}


def plain_table(*columns: str, rows: Iterable[Iterable[Any]] = ()) -> Table:
    """A table of the project's look: no frame, headings in bold.

    Args:
        columns: as of a `report.table.Table`.
        rows: likewise; a cell's text has the color of its style, a whole number has commas.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        side: Literal["left", "right"] = "right" if name.startswith("#") else "left"
        table.add_column(name.removeprefix("#"), justify=side, no_wrap=True)
    for row in rows:
        table.add_row(*map(_shown_cell, row))
    return table


def shown_table(table: report_table.Table) -> Table:
    return plain_table(*table.columns, rows=table.rows)


def _shown_cell(cell: Any) -> RenderableType:
    if isinstance(cell, report_table.TableCell):
        return Text(cell.text, style=_CELL_STYLES.get(cell.style.removeprefix("mark "), ""))
    if isinstance(cell, str | int):
        return Text(cell if isinstance(cell, str) else f"{cell:,}")
    return "-" if cell is None else cell


def rows_table(columns: report_table.Columns, rows: Iterable[Mapping[str, Any]]) -> Table:
    """Rows that a document lists, on the terminal."""
    return shown_table(report_table.Table.of(columns, rows))


def judged_table(judged: Iterable[tuple[str, str, str]]) -> Table:
    """Table of expectations: the answer to each, its text, the reason."""
    return plain_table("", "expectation", "measured", rows=(report_table.judged(*each) for each in judged))


def key_values(pairs: Sequence[tuple[str, RenderableType]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    for key, value in pairs:
        table.add_row(key, value)
    return table


def result_lines(path: Path) -> list[Text]:
    """Lines that name a result folder, or a bundle."""
    path = path.resolve()
    report = f"mrc-testbed bundle open {path}" if path.is_file() else path / "report.html"
    return [Text(f"report   {report}"), Text(f"results  {path}")]


def good(text: str) -> Text:
    return Text(text, style="green")


def bad(text: str) -> Text:
    return Text(text, style="red")


def known(value: float | None, shown: Callable[[float], str] = format_time) -> str | None:
    """The text of a value; None where it is not known."""
    return None if value is None else shown(value)


def say(console: Console, text: str) -> None:
    """Print one line; a terminal wraps it, nothing is cut."""
    console.print(text, soft_wrap=True)


def show_rows(
    settings: Settings,
    kind: str,
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    columns: report_table.Columns,
    *,
    document: Mapping[str, JsonValue] | None = None,
    empty: str = "",
    head: Sequence[RenderableType] = (),
    tail: Sequence[RenderableType] = (),
    version: int = 1,
) -> None:
    """Print rows as `show` prints a result; `-o jsonl` prints one row per line.

    Args:
        rows: key of the list in the document -> its rows.
        document: what else the document has, before the rows.
        empty: text in place of a table without rows.
    """
    [(key, listed)] = rows.items()
    show(
        settings,
        kind,
        {**(document or {}), key: listed},
        lambda: Group(*head, rows_table(columns, listed) if listed else Text(empty), *tail),
        lines=key,
        version=version,
    )


def titled_table(title: str, rows: Sequence[Mapping[str, str | int | None]]) -> RenderableType:
    """At least one row under a title and its keys in words, columns of numbers to the right."""
    heads = (
        f"{'#' * all(isinstance(row[key], int | None) for row in rows)}{key.replace('_', ' ')}"
        for key in rows[0]
    )
    cells = [[None if cell is None else str(cell) for cell in row.values()] for row in rows]
    return Group(Text(title, style="bold"), plain_table(*heads, rows=cells))


def show_tables(
    settings: Settings,
    kind: str,
    tables: Mapping[str, Sequence[Mapping[str, str | int | None]]],
) -> None:
    show(
        settings,
        kind,
        {"tables": [{"title": title, "rows": rows} for title, rows in tables.items()]},
        lambda: Group(*(part for each in tables.items() for part in (titled_table(*each), Text()))),
        lines="tables",
    )
