"""A run whose workload sent nothing, or ended with an error, does not pass, whatever its file expects."""

import pytest
from hand_made import recording
from scenario_text import scenario

from mrc_testbed.scenario.measure.expectation import Outcome
from mrc_testbed.scenario.measure.measurement import Measured
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.measure.verdict import unwritten_outcomes
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.workloads.flow import FlowOutcome


def ended(messages: int, errors: list[str | None]) -> Recording:
    made = recording(scenario(""), [])
    flow = made.plan.workloads[0].flows[0]
    made.outcomes = [FlowOutcome(flow, 256, 0, 1, messages, messages, messages, 0, error) for error in errors]
    return made


def about_qp_errors(value: float, *, has_passed: bool) -> Outcome:
    comparison = parse_expectation("qp_errors > 0")
    [quantity] = comparison.quantities()
    return Outcome(comparison.text, has_passed, "", Dimension.COUNT, value, 0, (Measured(quantity, value),))


@pytest.mark.parametrize(
    ("messages", "errors", "text", "reason"),
    [
        (0, ["depth: 64 is too much"], "sends", "no message completed; h0 -> h4: depth: 64 is too much"),
        (0, [None], "sends", "no message completed"),
        (5, [None, "no answer"], "ends without an error", "1 of 2 QPs failed; h0 -> h4: no answer"),
    ],
)
@pytest.mark.parametrize(
    "written", [[], [about_qp_errors(0, has_passed=True)], [about_qp_errors(1, has_passed=False)]]
)
def test_what_did_not_hold(
    messages: int, errors: list[str | None], text: str, reason: str, written: list[Outcome]
) -> None:
    [outcome] = unwritten_outcomes(ended(messages, errors), written)
    assert not outcome.has_passed
    assert outcome.text.endswith(text)
    assert outcome.reason == reason


def test_what_held() -> None:
    assert unwritten_outcomes(ended(5, [None]), []) == ()


@pytest.mark.parametrize("messages", [0, 5])
def test_qps_that_are_to_fail_may(messages: int) -> None:
    made = ended(messages, ["retry_exceeded"])
    assert unwritten_outcomes(made, [about_qp_errors(1, has_passed=True)]) == ()


def test_a_run_that_did_not_get_that_far_says_why_itself() -> None:
    assert unwritten_outcomes(ended(0, []), []) == ()
