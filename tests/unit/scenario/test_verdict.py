from dataclasses import replace

import pytest

from mrc_testbed.errors import CleanupError, Interrupted
from mrc_testbed.scenario.measure.expectation import Outcome
from mrc_testbed.scenario.measure.verdict import Ending, Status, decide
from mrc_testbed.scenario.spec.quantity import Dimension

HELD = Outcome("a", True, "", Dimension.COUNT, 0, 0, ())
MISSED = Outcome("b", False, "", Dimension.COUNT, 1, 0, ())
PAUSED = ("the machine stood still for 1.00 s (limit: 0.50 s)",)


@pytest.mark.parametrize(
    ("outcomes", "untrusted", "ending", "status", "exit_code", "reason"),
    [
        ((HELD, HELD), (), None, "passed", 0, "all 2 expectations held"),
        ((), (), None, "passed", 0, "nothing was expected, and the run came to its end"),
        ((HELD, MISSED), (), None, "failed", 4, "1 of 2 expectations did not hold"),
        ((HELD,), PAUSED, None, "untrusted", 7, PAUSED[0]),
        ((MISSED,), PAUSED, None, "untrusted", 7, PAUSED[0]),
        ((HELD,), (), Ending(Status.ABORTED, "too hot"), "aborted", 5, "too hot"),
        ((MISSED,), PAUSED, Ending(Status.ABORTED, "too hot"), "aborted", 5, "too hot"),
        ((HELD,), (), Ending(Status.INTERRUPTED, "SIGINT"), "interrupted", 130, "SIGINT"),
        ((HELD,), (), Ending(Status.ERROR, "agent died"), "error", 1, "agent died"),
        ((HELD,), (), Ending(Status.ERROR, "left over", CleanupError.exit_code), "error", 6, "left over"),
    ],
)
def test_verdict(
    outcomes: tuple[Outcome, ...],
    untrusted: tuple[str, ...],
    ending: Ending | None,
    status: str,
    exit_code: int,
    reason: str,
) -> None:
    verdict = decide(outcomes, untrusted, ending)
    assert (verdict.status.value, verdict.exit_code, verdict.reason) == (status, exit_code, reason)
    assert verdict.outcomes == outcomes
    assert verdict.is_trusted is not bool(untrusted)


LATE = ("frames were late",)
UNCLEAR = replace(HELD, is_certain=False)
TURNED = "this could not have turned the verdict"


@pytest.mark.parametrize(
    ("outcomes", "untrusted", "status", "reason", "is_trusted"),
    [
        ((HELD, HELD), (), "passed", f"all 2 expectations held; frames were late; {TURNED}", True),
        ((HELD, MISSED), (), "failed", f"1 of 2 expectations did not hold; frames were late; {TURNED}", True),
        (
            (UNCLEAR, MISSED),
            (),
            "failed",
            f"1 of 2 expectations did not hold; frames were late; {TURNED}",
            True,
        ),
        (
            (UNCLEAR, HELD, UNCLEAR),
            (),
            "untrusted",
            "frames were late; this could have turned 2 of 3 expectations",
            False,
        ),
        ((), (), "untrusted", "frames were late", False),
        ((MISSED,), PAUSED, "untrusted", f"{PAUSED[0]}; frames were late", False),
    ],
)
def test_verdict_of_a_late_run(
    outcomes: tuple[Outcome, ...], untrusted: tuple[str, ...], status: str, reason: str, *, is_trusted: bool
) -> None:
    verdict = decide(outcomes, untrusted, None, LATE)
    assert (verdict.status.value, verdict.reason, verdict.late) == (status, reason, LATE)
    assert verdict.is_trusted is is_trusted


def test_an_early_end_outweighs_lateness() -> None:
    verdict = decide((HELD,), PAUSED, Ending(Status.ABORTED, "too hot"), LATE)
    assert (verdict.status, verdict.reason, verdict.untrusted) == (Status.ABORTED, "too hot", PAUSED + LATE)


def test_an_interruption_has_one_exit_code_everywhere() -> None:
    assert Status.INTERRUPTED.exit_code == Interrupted.exit_code
