"""The verdict on a run, and its exit status. Pure."""

from dataclasses import dataclass
from enum import Enum

from mrc_testbed.scenario.measure.expectation import Outcome


class Status(Enum):
    """The end of a run; the value is written to results."""

    PASSED = "passed"
    FAILED = "failed"
    ABORTED = "aborted"
    UNTRUSTED = "untrusted"
    INTERRUPTED = "interrupted"
    ERROR = "error"

    @property
    def exit_code(self) -> int:
        return {
            Status.PASSED: 0,
            Status.FAILED: 4,
            Status.ABORTED: 5,
            Status.UNTRUSTED: 7,
            Status.INTERRUPTED: 130,
            Status.ERROR: 1,
        }[self]


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run did not end as planned.

    Attributes:
        status: ABORTED, INTERRUPTED or ERROR.
        reason: one sentence.
        exit_code: of the exception behind it; None for that of the status.
    """

    status: Status
    reason: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a run.

    Attributes:
        status: how it ended.
        reason: one sentence.
        outcomes: of the expectations, in the order of the file.
        untrusted: why the numbers are not to be believed, one sentence each; empty when they are.
        exit_code: exit status of the command.
    """

    status: Status
    reason: str
    outcomes: tuple[Outcome, ...]
    untrusted: tuple[str, ...]
    exit_code: int

    @property
    def is_trusted(self) -> bool:
        """Return True if the testbed itself kept within its limits."""
        return not self.untrusted


def decide(outcomes: tuple[Outcome, ...], untrusted: tuple[str, ...], ending: Ending | None) -> Verdict:
    """The verdict of a run.

    An early end outweighs everything: what was expected of a whole run says nothing about part of one. A
    run that is not trusted has neither passed nor failed.
    """
    if ending is not None:
        code = ending.status.exit_code if ending.exit_code is None else ending.exit_code
        return Verdict(ending.status, ending.reason, outcomes, untrusted, code)
    if untrusted:
        status, reason = Status.UNTRUSTED, "; ".join(untrusted)
    elif failed := [outcome for outcome in outcomes if not outcome.has_passed]:
        status, reason = Status.FAILED, f"{len(failed)} of {len(outcomes)} expectations did not hold"
    elif outcomes:
        status, reason = Status.PASSED, f"all {len(outcomes)} expectations held"
    else:
        status, reason = Status.PASSED, "nothing was expected, and the run came to its end"
    return Verdict(status, reason, outcomes, untrusted, status.exit_code)
