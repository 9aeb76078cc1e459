"""The judgement of an expectation, with the numbers and the reason in plain words. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isinf
from operator import eq, ge, gt, le, lt, ne
from typing import Annotated, Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

from mrc_testbed.scenario.measure.lateness_bounds import Bounds, BoundsOf, bound
from mrc_testbed.scenario.measure.measurement import Measured, Measurement, Measures
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.expression_tree import Comparison, ComparisonOperator, Number, Quantity
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.scenario.spec.scenario_spec import ExpectationText, QuantityText, accepted_by
from mrc_testbed.shown import DIGITS, Scale, format_count, format_rate, format_share, format_size, format_time

Answer = Literal["held", "failed", "cannot tell"]


class ExpectationRecord(TypedDict):
    """An `Outcome` as manifests have it."""

    text: ExpectationText
    passed: bool
    outcome: NotRequired[Answer]  # older ones have but `passed`
    reason: str
    dimension: Annotated[str, accepted_by(Dimension)]
    left: float | None
    right: float | None
    measured: dict[QuantityText, float]


_HOLDS: Final[dict[ComparisonOperator, Callable[[float, float], bool]]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "==": eq,
    "!=": ne,
}
_WORDS: Final[dict[ComparisonOperator, str]] = {
    "<": "less than",
    "<=": "at most",
    ">": "more than",
    ">=": "at least",
    "==": "exactly",
    "!=": "anything but",
}

FORMATS: Final[dict[Dimension, Scale]] = {
    Dimension.COUNT: format_count,
    Dimension.RATIO: format_share,
    Dimension.TIME: format_time,
    Dimension.RATE: format_rate,
    Dimension.SIZE: format_size,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one expectation."""

    text: str  # as written
    has_passed: bool  # whether it held; what could not be measured did not hold
    reason: str  # one sentence with the numbers
    dimension: Dimension  # of both sides
    # left, right: values of the two sides in the base unit; None when they could not be measured
    left: float | None
    right: float | None
    measured: tuple[Measured, ...]  # value of each quantity in it; empty when one could not be measured
    is_written: bool = True  # whether it stands in the file; some hold for every run
    is_certain: bool = True  # whether it would have come to the same on a machine in time

    @property
    def answer(self) -> Answer:
        """Answer of the run to it."""
        if not self.is_certain:
            return "cannot tell"
        return "held" if self.has_passed else "failed"

    def document(self) -> ExpectationRecord:
        """The same as manifests have it."""
        return {
            "text": self.text,
            "passed": self.has_passed,
            "outcome": self.answer,
            "reason": self.reason,
            "dimension": self.dimension.value,
            "left": self.left,
            "right": self.right,
            "measured": {str(each.quantity): each.value for each in self.measured},
        }


def answer_of(found: Mapping[str, Any]) -> Answer:
    """The answer of an expectation as a manifest has it; older ones have but `passed`."""
    answer: Answer = found.get("outcome", "held" if found["passed"] else "failed")
    return answer


def evaluate_expectations(
    texts: Iterable[str], recording: Recording, bounds_of: BoundsOf | None = None, *, is_late: bool = True
) -> tuple[Outcome, ...]:
    """Outcome of each expectation, in order; see `evaluate`.

    In a run that was not late, what held is certain, because lateness within its limits hardly improves a
    figure. A failure may still be due to the machine.
    """
    measurement = Measurement(recording)
    outcomes = []
    for comparison in map(parse_expectation, texts):
        outcome = evaluate(comparison, measurement, bounds_of if is_late else None)
        if not is_late and bounds_of is not None and not outcome.has_passed and outcome.measured:
            outcome = evaluate(comparison, measurement, bounds_of)
        outcomes.append(outcome)
    return tuple(outcomes)


def evaluate(comparison: Comparison, measurement: Measures, bounds_of: BoundsOf | None = None) -> Outcome:
    """The outcome of an expectation.

    Args:
        bounds_of: bounds of the quantities of a late run; None for values that are as they should be.
    """
    dimension = comparison.left.dimension
    try:
        measured = measurement.measured(comparison)
        left, right = measurement.evaluate(comparison.left), measurement.evaluate(comparison.right)
        sides = None
        if bounds_of is not None:
            sides = bound(comparison.left, bounds_of), bound(comparison.right, bounds_of)
    except NotMeasured as error:
        reason = f"not measured: {error.message}"
        is_certain = bounds_of is None
        return Outcome(comparison.text, False, reason, dimension, None, None, (), is_certain=is_certain)
    has_passed = _HOLDS[comparison.operator](left, right)
    reason = _reason(comparison, left, right, measured)
    is_certain = sides is None or _is_certain(comparison.operator, *sides)
    if sides is not None and not is_certain:
        reason = f"{reason}; cannot tell: on a machine in time {_described(comparison, *sides)}"
    return Outcome(
        comparison.text, has_passed, reason, dimension, left, right, measured, is_certain=is_certain
    )


def _is_certain(operator: ComparisonOperator, left: Bounds, right: Bounds) -> bool:
    """Return True if a comparison comes to the same for all values within the bounds."""
    if operator in ("==", "!="):
        is_apart = left.high < right.low or right.high < left.low
        return is_apart or (left.is_exact and right.is_exact)
    holds = _HOLDS[operator]
    return holds(left.low, right.high) == holds(left.high, right.low)


def _described(comparison: Comparison, left: Bounds, right: Bounds) -> str:
    """Such as `p99(packet_rtt) lies between 31us and 33us`."""
    unit = comparison_unit(comparison)
    shown = []
    for text, side in ((comparison.left_text, left), (comparison.right_text, right)):
        if isinf(side.high):
            shown.append(f"{text} may be anything")
        elif not side.is_exact:
            ends = [format_value(end, comparison.left.dimension, unit=unit) for end in (side.low, side.high)]
            shown.append(f"{text} lies between {' and '.join(ends)}")
    return ", ".join(shown)


def format_value(value: float, dimension: Dimension, digits: int = DIGITS, *, unit: str = "") -> str:
    """*value* for people.

    Args:
        value: in the base unit of its dimension.
        unit: of a count that has one, such as `steps/s` or `packets`.
    """
    return f"{FORMATS[dimension](value, digits)} {unit}".rstrip()


def comparison_unit(comparison: Comparison) -> str:
    """Unit of both sides; empty for none, for quotients, and where they have different ones."""
    if comparison.left.dimension is not Dimension.COUNT or comparison.has_quotient:
        return ""
    units = {quantity.kind.unit for quantity in comparison.quantities()}
    return units.pop() if len(units) == 1 else ""


def format_measured(value: float, quantity: Quantity) -> str:
    """The value of a quantity for people, with its unit."""
    return format_value(value, quantity.dimension, unit=quantity.kind.unit)


def _reason(comparison: Comparison, left: float, right: float, measured: tuple[Measured, ...]) -> str:
    """Such as `p99(packet_rtt) was 31us, less than 80ms was expected`."""
    dimension = comparison.left.dimension
    unit = comparison_unit(comparison)
    digits = FORMATS[dimension].digits_apart(left, right)
    shown = [format_value(value, dimension, digits, unit=unit) for value in (left, right)]
    was = f"{comparison.left_text} was {shown[0]}"
    expected = f"{_WORDS[comparison.operator]} {shown[1]} was expected"
    details = []
    if not isinstance(comparison.right, Number):
        details.append(comparison.right_text)
    if not isinstance(comparison.left, Quantity) or not isinstance(comparison.right, Number):
        details += [
            f"{each.quantity} was {format_measured(each.value, each.quantity)}"
            for each in measured
            if str(each.quantity) not in (comparison.left_text, comparison.right_text)
        ]
    return f"{was}, {expected}" + (f" ({'; '.join(details)})" if details else "")
