"""Expectations of a report: what was measured as a bar, and its limit as a mark. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from markupsafe import Markup

from mrc_testbed.report.page import part
from mrc_testbed.report.table import Table, TableCell
from mrc_testbed.scenario.measure.expectation import (
    Answer,
    answer_of,
    comparison_unit,
    format_measured,
    format_value,
)
from mrc_testbed.scenario.spec.expression import parse_expectation, parse_quantity
from mrc_testbed.scenario.spec.quantity import Dimension

_FULL: Final = 180
"""Length of the bar of the larger of both sides."""

_MARKS: Final[dict[Answer, tuple[str, str]]] = {
    "held": ("good", "\u2713"),
    "failed": ("bad", "\u2717"),
    "cannot tell": ("warn", "?"),
}
_SIGNS: Final = {"<": "<", "<=": "\u2264", ">": ">", ">=": "\u2265", "==": "=", "!=": "\u2260"}


@dataclass(frozen=True, slots=True)
class JudgedExpectation:
    """An expectation as manifests have it: as `Outcome.document` makes it; and the run."""

    text: str
    answer: Answer
    reason: str
    dimension: Dimension
    left: float | None
    right: float | None
    measured: Mapping[str, float]
    run: str = ""

    @classmethod
    def load(cls, found: Mapping[str, Any], run: str = "") -> Self:
        """Row of a manifest or of a summary."""
        kept = {key: value for key, value in found.items() if key not in ("passed", "outcome")}
        dimension = Dimension(found["dimension"])
        return cls(**{**kept, "answer": answer_of(found), "dimension": dimension}, run=run)


def expectation_table(expectations: Iterable[JudgedExpectation]) -> Markup:
    """A row for each: whether it held, what was measured, and what was asked for."""
    return Table(("", "expectation", "#measured", "#limit", ""), list(map(_row, expectations))).html()


def _row(each: JudgedExpectation) -> tuple[TableCell | str, ...]:
    style, sign = _MARKS[each.answer]
    mark = TableCell(f"{sign} {each.answer}", f"mark {style}")
    run = f"{each.run}: " if each.run else ""
    if each.left is None or each.right is None:
        text = TableCell(each.text, lead=run, is_code=True, notes=(each.reason,))
        return mark, text, "\u2013", "\u2013", ""
    comparison = parse_expectation(each.text)
    unit = comparison_unit(comparison)
    left, right = (format_value(value, each.dimension, unit=unit) for value in (each.left, each.right))
    unclear = (each.reason,) if each.answer == "cannot tell" else ()
    return (
        mark,
        TableCell(each.text, lead=run, is_code=True, notes=(*_notes(each), *unclear)),
        left,
        f"{_SIGNS[comparison.operator]} {right}",
        TableCell("", "bar", more=_bar(each.left, each.right, style=style, label=each.reason)),
    )


def _notes(each: JudgedExpectation) -> Iterator[str]:
    """Values that the sides are made of, where they differ from the sides."""
    comparison = parse_expectation(each.text)
    for name, value in each.measured.items():
        if name not in (comparison.left_text, comparison.right_text):
            yield f"{name}: {format_measured(value, parse_quantity(name))}"


def _bar(value: float, limit: float, *, style: str, label: str) -> Markup:
    """The value as a bar from zero, the limit as a line across."""
    full = max(value, limit, 0.0) or 1.0
    length, at = (max(0.0, side) / full * _FULL for side in (value, limit))
    return part("bar", f"{max(1.5, length):.1f}", f"{max(1.0, at):.1f}", style, label)
