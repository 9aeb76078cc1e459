"""Expectations of a report: what was measured as a bar, and its limit as a mark. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

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
from mrc_testbed.scenario.spec.expression_tree import Comparison
from mrc_testbed.scenario.spec.quantity import Dimension

_FULL: Final = 180
"""Length of the bar of the larger of both sides."""

_MARKS: Final[dict[Answer, tuple[str, str]]] = {
    "held": ("good", "\u2713"),
    "failed": ("bad", "\u2717"),
    "cannot tell": ("warn", "?"),
}
_SIGNS: Final = {"<": "<", "<=": "\u2264", ">": ">", ">=": "\u2265", "==": "=", "!=": "\u2260"}


def expectation_table(expectations: Iterable[tuple[str, Mapping[str, Any]]]) -> Markup:
    """A row for each: whether it held, what was measured, and what was asked for.

    Args:
        expectations: as manifests have them, each with the name of its run; empty where there is but one.
    """
    rows = [_row(*each) for each in expectations]
    return Table(("", "expectation", "#measured", "#limit", ""), rows).html()


def _row(run: str, found: Mapping[str, Any]) -> tuple[TableCell | str, ...]:
    answer, text, reason = answer_of(found), found["text"], found["reason"]
    style, sign = _MARKS[answer]
    mark = TableCell(f"{sign} {answer}", f"mark {style}")
    lead = f"{run}: " if run else ""
    if found["left"] is None or found["right"] is None:
        cell = TableCell(text, lead=lead, is_code=True, notes=(reason,))
        return mark, cell, "\u2013", "\u2013", ""
    comparison = parse_expectation(text)
    unit, dimension = comparison_unit(comparison), Dimension(found["dimension"])
    left, right = (format_value(found[side], dimension, unit=unit) for side in ("left", "right"))
    unclear = (reason,) if answer == "cannot tell" else ()
    return (
        mark,
        TableCell(text, lead=lead, is_code=True, notes=(*_notes(comparison, found["measured"]), *unclear)),
        left,
        f"{_SIGNS[comparison.operator]} {right}",
        TableCell("", "bar", more=_bar(found["left"], found["right"], style=style, label=reason)),
    )


def _notes(comparison: Comparison, measured: Mapping[str, float]) -> Iterator[str]:
    """Values that the sides are made of, where they differ from the sides."""
    for name, value in measured.items():
        if name not in (comparison.left_text, comparison.right_text):
            yield f"{name}: {format_measured(value, parse_quantity(name))}"


def _bar(value: float, limit: float, *, style: str, label: str) -> Markup:
    """The value as a bar from zero, the limit as a line across."""
    full = max(value, limit, 0.0) or 1.0
    length, at = (max(0.0, side) / full * _FULL for side in (value, limit))
    return part("bar", f"{max(1.5, length):.1f}", f"{max(1.0, at):.1f}", style, label)
