"""The verdict on a run, its exit status, and what is expected of every run: workloads send, and end without
an error. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mrc_testbed.faults.effects import AgentDead
from mrc_testbed.scenario.measure.expectation import Outcome
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.workloads.flow import FlowOutcome


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


_WITHIN: Final = "the machine was late, although within the limits"


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run did not end as planned."""

    status: Status  # ABORTED, UNTRUSTED, INTERRUPTED or ERROR
    reason: str  # one sentence
    exit_code: int | None = None  # of the exception behind it; None for that of the status


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a run."""

    status: Status  # how it ended
    reason: str  # one sentence
    outcomes: tuple[Outcome, ...]  # of the expectations, in the order of the file
    # why the numbers are not to be believed, one sentence each; empty when they are
    untrusted: tuple[str, ...]
    exit_code: int  # exit status of the command
    # how the machine was late, one sentence each; expectations are judged all the same
    late: tuple[str, ...] = ()

    @property
    def is_trusted(self) -> bool:
        """Return True if the verdict is to be believed."""
        return not self.untrusted


def decide(
    outcomes: tuple[Outcome, ...],
    untrusted: tuple[str, ...],
    ending: Ending | None,
    late: tuple[str, ...] = (),
) -> Verdict:
    """The verdict of a run.

    An early end outweighs everything: what was expected of a whole run says nothing about part of one. A
    run that is not trusted has neither passed nor failed. A late run has, as far as its expectations tell:
    it failed if one of them did, and passed if all of them held.

    Args:
        untrusted: why nothing in the run is to be believed.
        ending: why it did not end as planned; None when it did.
        late: how the machine was late; the outcomes say what that may have turned.
    """
    everything = untrusted + late
    if ending is not None:
        code = ending.status.exit_code if ending.exit_code is None else ending.exit_code
        return Verdict(ending.status, ending.reason, outcomes, everything, code, late)
    failed, unclear = (
        sum(each.answer == answer for each in outcomes) for answer in ("failed", "cannot tell")
    )
    distrust: tuple[str, ...] = ()
    if untrusted or (late and not outcomes):
        status, reason, distrust = Status.UNTRUSTED, "; ".join(everything), everything
    elif failed:
        status, reason = Status.FAILED, f"{failed} of {len(outcomes)} expectations did not hold"
    elif unclear:
        turned = f"this could have turned {unclear} of {len(outcomes)} expectations"
        status, reason = Status.UNTRUSTED, "; ".join((*(late or (_WITHIN,)), turned))
        distrust = (reason,)
    elif outcomes:
        status, reason = Status.PASSED, f"all {len(outcomes)} expectations held"
    else:
        status, reason = Status.PASSED, "nothing was expected, and the run came to its end"
    if late and not distrust:
        reason = "; ".join((reason, *late, "this could not have turned the verdict"))
    return Verdict(status, reason, outcomes, distrust, status.exit_code, late)


_QP_ERRORS: Final = "qp_errors"


def unwritten_outcomes(recording: Recording, written: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """One that did not hold for each workload that sent nothing, or ended with an error.

    Args:
        recording: of the run; of one that did not get as far as to end its workloads nothing is said.
        written: outcomes of the expectations. Where one held that saw QPs fail, they are to fail, as are
            those of a host whose agent a fault kills.
    """
    sees_errors = any(
        each.quantity.name == _QP_ERRORS and each.value
        for outcome in written
        for each in outcome.measured
        if outcome.has_passed
    )
    return tuple(_broken(recording, sees_errors=sees_errors))


def _broken(recording: Recording, *, sees_errors: bool) -> Iterator[Outcome]:
    effects = (effect for fault in recording.plan.faults for effect in fault.effects)
    killed = {effect.host for effect in effects if isinstance(effect, AgentDead)}
    for name in dict.fromkeys(outcome.flow.workload for outcome in recording.outcomes):
        flows = [outcome for outcome in recording.outcomes if outcome.flow.workload == name]
        failed = [outcome for outcome in flows if outcome.error is not None]
        if failed and (sees_errors or all(killed & {each.flow.source, each.flow.target} for each in failed)):
            continue
        if not sum(outcome.messages for outcome in flows):
            yield _outcome(f"{name} sends", "no message completed", failed)
        elif failed:
            what = f"{len(failed)} of {len(flows)} QPs failed"
            yield _outcome(f"{name} ends without an error", what, failed)


def _outcome(text: str, what: str, failed: Sequence[FlowOutcome]) -> Outcome:
    reason = what
    if failed:
        flow = failed[0].flow
        reason = f"{what}; {flow.source} -> {flow.target}: {failed[0].error}"
    return Outcome(text, False, reason, Dimension.COUNT, None, None, (), is_written=False)
