"""Terms within bounds, and expectations that those leave no doubt about."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.scenario.measure.expectation import evaluate
from mrc_testbed.scenario.measure.lateness_bounds import Bounds, bound
from mrc_testbed.scenario.measure.measurement import Measures
from mrc_testbed.scenario.measure.recording import NotMeasured
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.expression_tree import Quantity

TEXTS = (
    "messages == 3",
    "messages != 3",
    "messages == retransmits",
    "messages != retransmits + 1",
    "messages < 3",
    "messages <= retransmits",
    "messages > 2 * retransmits - qp_errors",
    "messages >= retransmits * qp_errors",
    "messages / retransmits < qp_errors / messages",
    "(retransmits * retransmits - messages) / (qp_errors + 1) >= 200%",
)
ENDS = st.integers(-4, 4) | st.floats(-5, 5, allow_subnormal=False)
INTERVALS = st.tuples(ENDS, ENDS).map(lambda ends: Bounds(float(min(ends)), float(max(ends))))


class Values(Measures):
    """Values by name."""

    def __init__(self, **values: float) -> None:
        self._values = values

    def measure(self, quantity: Quantity) -> float:
        return self._values[quantity.name]


@given(st.sampled_from(TEXTS), st.tuples(*[INTERVALS] * 3), st.data())
def test_what_is_certain_is_the_same_for_all_values_within_the_bounds(
    text: str, intervals: tuple[Bounds, ...], data: st.DataObject
) -> None:
    comparison = parse_expectation(text)
    bounds = dict(zip(("messages", "retransmits", "qp_errors"), intervals, strict=True))

    def somewhere() -> Values:
        return Values(**{name: data.draw(st.floats(each.low, each.high)) for name, each in bounds.items()})

    doubted = evaluate(comparison, somewhere(), lambda quantity: bounds[quantity.name])
    if doubted.answer != "cannot tell":
        other = evaluate(comparison, somewhere())
        assert other.left is not None
        assert other.answer == doubted.answer


@pytest.mark.parametrize(
    ("text", "messages", "answer"),
    [
        ("messages < 5", (1, 4), "held"),
        ("messages < 5", (1, 5), "cannot tell"),
        ("messages < 5", (5, 6), "failed"),
        ("messages <= 5", (1, 5), "held"),
        ("messages <= 5", (5, 6), "cannot tell"),
        ("messages > 5", (5, 6), "cannot tell"),
        ("messages > 5", (6, 7), "held"),
        ("messages >= 5", (1, 4), "failed"),
        ("messages == 5", (5, 5), "held"),
        ("messages == 5", (4, 6), "cannot tell"),
        ("messages == 5", (5, 6), "cannot tell"),
        ("messages == 5", (6, 8), "failed"),
        ("messages != 5", (5, 5), "failed"),
        ("messages != 5", (4, 6), "cannot tell"),
        ("messages != 5", (6, 8), "held"),
        ("2 * messages - 1 < 8", (1, 4), "held"),
        ("8 / messages >= 200%", (1, 4), "held"),
        ("8 / messages >= 200%", (0, 4), "cannot tell"),
        ("5 > messages", (1, 4), "held"),
    ],
)
def test_an_expectation_is_certain_if_no_value_turns_it(
    text: str, messages: tuple[float, float], answer: str
) -> None:
    bounds = Bounds(*messages)
    outcome = evaluate(parse_expectation(text), Values(messages=bounds.high), lambda _: bounds)
    assert outcome.answer == answer
    assert ("cannot tell" in outcome.reason) is (answer == "cannot tell")


def test_the_reason_of_an_uncertain_one_has_its_bounds() -> None:
    outcome = evaluate(parse_expectation("messages < 5"), Values(messages=4.0), lambda _: Bounds(3, 6))
    assert outcome.reason == (
        "messages was 4, less than 5 was expected; cannot tell: "
        "on a machine in time messages lies between 3 and 6"
    )
    assert outcome.document() | {"passed": True, "outcome": "cannot tell"} == outcome.document()
    outcome = evaluate(
        parse_expectation("1 / messages < 500%"), Values(messages=4.0), lambda _: Bounds(-1, 6)
    )
    assert outcome.reason.endswith("on a machine in time 1 / messages may be anything")


def test_what_was_not_measured_is_uncertain() -> None:
    def nowhere(quantity: Quantity) -> Bounds:
        raise NotMeasured(f"{quantity}: it never happened")

    comparison = parse_expectation("messages < 5")
    outcome = evaluate(comparison, Values(messages=4.0), nowhere)
    assert (outcome.answer, outcome.reason) == ("cannot tell", "not measured: messages: it never happened")


def test_without_bounds_an_expectation_holds_or_fails() -> None:
    comparison = parse_expectation("messages < 5")
    assert [evaluate(comparison, Values(messages=at)).answer for at in (4.0, 5.0)] == ["held", "failed"]


def test_infinite_bounds_stay_bounds() -> None:
    everything, zero = Bounds(-inf, inf), Bounds(0, 0)
    assert [everything + zero, everything - everything, everything * zero, zero / everything] == [
        everything
    ] * 4
    assert Bounds(1, 2) / Bounds(-2, -1) == Bounds(-2, -0.5)
    term = parse_expectation("messages - messages == 0").left
    assert bound(term, lambda _: Bounds(1, 2)) == Bounds(-1, 1)
