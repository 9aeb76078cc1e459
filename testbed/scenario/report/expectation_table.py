"""Expectations of a report: what was measured as a bar, and its limit as a mark. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Self

from testbed.scenario.measure.expectation import Outcome, comparison_unit, format_measured, format_value
from testbed.scenario.report.html_table import table, text_cell
from testbed.scenario.spec.expression import parse_expectation, parse_quantity
from testbed.scenario.spec.quantity import Dimension

_WIDTH: Final = 200
_HEIGHT: Final = 22
_FULL: Final = 180
"""Length of the bar of the larger of both sides."""

_SIGNS: Final = {"<": "<", "<=": "\u2264", ">": ">", ">=": "\u2265", "==": "=", "!=": "\u2260"}


@dataclass(frozen=True, slots=True)
class JudgedExpectation:
    """An expectation as manifests have it: what `measure.expectation.Outcome` says, by names; and the run."""

    text: str
    passed: bool
    reason: str
    dimension: Dimension
    left: float | None
    right: float | None
    measured: Mapping[str, float]
    run: str = ""

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """That of a run just measured."""
        measured = {str(each.quantity): each.value for each in outcome.measured}
        sides = outcome.left, outcome.right
        return cls(outcome.text, outcome.has_passed, outcome.reason, outcome.dimension, *sides, measured)

    @classmethod
    def load(cls, found: Mapping[str, Any], run: str = "") -> Self:
        """That of a manifest or of a summary."""
        return cls(**{**found, "dimension": Dimension(found["dimension"])}, run=run)


def expectation_table(expectations: Iterable[JudgedExpectation]) -> str:
    """A row for each: whether it passed, what was measured, and what was asked for."""
    return table(("", "expectation", "#measured", "#limit", ""), map(_row, expectations))


def _row(each: JudgedExpectation) -> tuple[str, ...]:
    mark = text_cell("\u2713 pass", "mark good") if each.passed else text_cell("\u2717 FAIL", "mark bad")
    run = f"{escape(each.run)}: " if each.run else ""
    if each.left is None or each.right is None:
        text = f"<td>{run}<code>{escape(each.text)}</code><small>{escape(each.reason)}</small></td>"
        return mark, text, text_cell("\u2013", "number"), text_cell("\u2013", "number"), text_cell("")
    comparison = parse_expectation(each.text)
    unit = comparison_unit(comparison)
    left, right = (format_value(value, each.dimension, unit=unit) for value in (each.left, each.right))
    notes = "".join(f"<small>{escape(note)}</small>" for note in _notes(each))
    return (
        mark,
        f"<td>{run}<code>{escape(each.text)}</code>{notes}</td>",
        text_cell(left, "number"),
        text_cell(f"{_SIGNS[comparison.operator]} {right}", "number"),
        f'<td class="bar">{_bar(each.left, each.right, is_good=each.passed, label=each.reason)}</td>',
    )


def _notes(each: JudgedExpectation) -> Iterator[str]:
    """What the sides were made of, where that is not the same."""
    comparison = parse_expectation(each.text)
    for name, value in each.measured.items():
        if name not in (comparison.left_text, comparison.right_text):
            yield f"{name}: {format_measured(value, parse_quantity(name))}"


def _bar(value: float, limit: float, *, is_good: bool, label: str) -> str:
    """The value as a bar from zero, the limit as a line across."""
    full = max(value, limit, 0.0) or 1.0
    length, at = (max(0.0, side) / full * _FULL for side in (value, limit))
    style = "good" if is_good else "bad"
    return (
        f'<svg class="expected" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
        f'<rect class="ground" y="6" width="{_FULL}" height="10"/>'
        f'<rect class="{style}" y="6" width="{max(1.5, length):.1f}" height="10"/>'
        f'<path class="limit" d="M{max(1.0, at):.1f},1v20"/></svg>'
    )
