"""A campaign's summary as Markdown: the table of all rows, variants side by side, what did not pass."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mrc_testbed.campaign.folder import NOT_RUN
from mrc_testbed.campaign.judge import outcome_table
from mrc_testbed.campaign.summary import Summary, SummaryRow
from mrc_testbed.campaign.variants import factor_sentence
from mrc_testbed.errors import UsageError
from mrc_testbed.report.table import Table, TableCell
from mrc_testbed.scenario.measure.expectation import answer_of, format_value
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.quantity import Dimension


def build_markdown(summary: Summary) -> str:
    """summary.md: a title, and the body."""
    lines = [f"# {summary.title}", ""]
    lines += [summary.description, ""] if summary.description else []
    return "\n".join([*lines, *_body(summary, level=2)]) + "\n"


def replace_section(path: Path, summary: Summary) -> None:
    """Replaces what stands in a Markdown file between `<!-- campaign NAME -->` and `<!-- end -->`.

    The body comes without a title, its sections one level further down than in summary.md.
    """
    begin, end = f"<!-- campaign {summary.name} -->\n", "<!-- end -->"
    try:
        before, found, rest = path.read_text(encoding="utf-8").partition(begin)
        _, found_end, after = rest.partition(end)
        if not found or not found_end:
            raise UsageError(f"{path}: has no line {begin.strip()!r} with a line {end!r} after it")
        body = "\n".join(_body(summary, level=3))
        path.write_text(f"{before}{begin}{body}\n{end}{after}", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _body(summary: Summary, level: int) -> Iterator[str]:
    yield f"{summary.headline}."
    yield ""
    yield from _table(summary)
    if summary.expectations:
        yield from ("", f"{'#' * level} Expectations of cells", "")
        yield from outcome_table(summary.expectations).markdown()
    if any(row.published for row in summary.rows):
        yield from ("", f"{'#' * level} Published figures", "")
        yield from _published(summary.rows)
    for row in summary.rows:
        if row.variants:
            yield from ("", f"{'#' * level} {row.key}", "")
            factor = factor_sentence(row.compare, row.variants)
            yield from (f"{factor}.", "") if factor else ()
            yield from _variants(row)
    for row in summary.rows:
        if row.status not in ("passed", NOT_RUN):
            yield from ("", f"{'#' * level} {row.key}: {row.status}", "", f"{row.reason}.")
            for each in row.expectations:
                if answer_of(each) != "held":
                    yield f"* `{each['text']}`: {each['reason']}"


def _table(summary: Summary) -> Sequence[str]:
    has_figures = any(row.figure for row in summary.rows)
    heads = ["scenario", *summary.varied, "seed", *(["figure"] if has_figures else [])]
    rows: list[list[TableCell | str]] = [
        [
            row.scenario,
            *(row.varied.get(key, "") for key in summary.varied),
            str(row.seed),
            *([row.figure] if has_figures else []),
            row.claim,
            row.measured,
            TableCell(row.status, is_strong=row.status != "passed"),
            row.fidelity,
        ]
        for row in summary.rows
    ]
    return Table([*heads, "claim", "measured", "verdict", "fidelity"], rows).markdown()


def _published(rows: Sequence[SummaryRow]) -> Sequence[str]:
    """Each published figure beside the measured one, and how far the measured one is from it."""
    return Table(
        ("scenario", "figure", "quantity", "published", "here", "deviation"),
        [
            (
                row.scenario,
                row.figure,
                TableCell(parse_expectation(found["text"]).left_text, is_code=True),
                *_beside(found),
            )
            for row in rows
            for found in row.published
        ],
    ).markdown()


def _beside(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """The published value, the measured one, and their deviation."""
    here, published = found["left"], found["right"]
    if here is None or published is None:
        return ("-", found["reason"], "-")
    dimension = Dimension(found["dimension"])
    deviation = "-" if not published else f"{round(100 * (here / published - 1), 1) + 0.0:+.1f} %"
    return (format_value(published, dimension), format_value(here, dimension), deviation)


def _variants(row: SummaryRow) -> Sequence[str]:
    heads = [*row.variants[0].values, *(f"`{quantity}`" for quantity in row.compare)]
    rows = [[*run.values.values(), *(run.shown(name) for name in row.compare)] for run in row.variants]
    return Table(heads, rows).markdown()
