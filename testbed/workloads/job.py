"""The pace of a job, and what a fault did to it: from when its steps began and ended alone. Pure.

A step is one of training, or an operation of a collective that computes nothing. A step is *slow* when it
takes more than a tenth longer than the slowest one before the fault. The job is *back* at the end of the last
slow step before SETTLED steps in a row that are not, or before all that are left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeVar

from mrc_testbed.shown import format_times
from mrc_testbed.workloads.operation_record import OperationRecord, percentile_ns
from mrc_testbed.workloads.program import SharedWork

SETTLED: Final = 10
T = TypeVar("T")
_SLOW_RATIO: Final = 1.1


class Step(NamedTuple):
    """One step that all ranks have completed; times are CLOCK_MONOTONIC."""

    begin_ns: int
    end_ns: int
    last_rank: str

    @classmethod
    def of(cls, record: OperationRecord) -> Self:
        """That of an operation, computing included."""
        return cls(record.step_begin_ns, record.end_ns, record.last_rank)

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.begin_ns


def step_word(work: SharedWork) -> str:
    return "step" if work.is_training else "operation"


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a job.

    Attributes:
        count: whole steps in the time.
        per_second: steps per second; one that lies in the time by half counts half.
        p50_ns, p99_ns: of the whole steps.
        slowest_rank: the rank that most often completed a step last; the first in name of equals.
        slowest_share: of the whole steps, those that it completed last.
    """

    count: int
    per_second: float
    p50_ns: float
    p99_ns: float
    slowest_rank: str
    slowest_share: float


def measure_pace(steps: Sequence[Step], start_ns: int, end_ns: int) -> Pace | None:
    """The pace between two times; None when no whole step lies between them."""
    whole = [step for step in steps if start_ns <= step.begin_ns and step.end_ns <= end_ns]
    if not whole:
        return None
    times_ns = [step.length_ns for step in whole]
    last = [step.last_rank for step in whole]
    slowest = max(sorted(set(last)), key=last.count)
    return Pace(
        count=len(whole),
        per_second=steps_per_second(steps, start_ns, end_ns),
        p50_ns=percentile_ns(times_ns, 0.5),
        p99_ns=percentile_ns(times_ns, 0.99),
        slowest_rank=slowest,
        slowest_share=last.count(slowest) / len(whole),
    )


def steps_per_second(steps: Sequence[Step], start_ns: int, end_ns: int) -> float:
    """Steps per second between two times; one that lies between them by half counts half."""
    done = sum(
        max(0, min(step.end_ns, end_ns) - max(step.begin_ns, start_ns)) / step.length_ns for step in steps
    )
    return done * 1e9 / (end_ns - start_ns)


@dataclass(frozen=True, slots=True)
class Episode:
    """A fault as a job may feel it; times are CLOCK_MONOTONIC.

    Attributes:
        what: place and condition, such as `p0-t1-0 was away`.
        calm_ns: from when on nothing else was broken before it.
        begins_ns: of each of its outages, or the one time it began.
        end_ns: when the last outage ended, or it lasts to.
        until_ns: up to when steps are its own: the next fault, or the end of the job.
    """

    what: str
    calm_ns: int
    begins_ns: tuple[int, ...]
    end_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Impact:
    """The effect of a fault on a job.

    Attributes:
        what: place and condition.
        outages: how often it acted.
        before_ns, during_ns: p99 of whole steps before it, and of all that it hit; None without any.
        slow_count: slow steps from its beginning on.
        back_ns: from the beginning of its last outage to when the job was back, negative when it was
            back before; None: it was not.
    """

    what: str
    outages: int
    before_ns: float | None
    during_ns: float | None
    slow_count: int
    back_ns: int | None

    @property
    def ratio(self) -> float:
        """Ratio of the duration of steps to that before; 0 when it is not known."""
        return self.during_ns / self.before_ns if self.before_ns and self.during_ns else 0.0


def measure_impact(steps: Sequence[Step], episode: Episode) -> Impact:
    begin_ns = episode.begins_ns[0]
    before = [
        step.length_ns for step in steps if episode.calm_ns <= step.begin_ns and step.end_ns <= begin_ns
    ]
    during = [step.length_ns for step in steps if step.begin_ns < episode.end_ns and step.end_ns > begin_ns]
    own = [step for step in steps if step.end_ns > begin_ns and step.begin_ns < episode.until_ns]
    limit_ns = _SLOW_RATIO * max(before, default=0)
    return Impact(
        what=episode.what,
        outages=len(episode.begins_ns),
        before_ns=percentile_ns(before, 0.99) if before else None,
        during_ns=percentile_ns(during, 0.99) if during else None,
        slow_count=sum(step.length_ns > limit_ns for step in own) if before else 0,
        back_ns=_back_ns(own, limit_ns, episode.begins_ns[-1]),
    )


def _back_ns(steps: Sequence[Step], limit_ns: float, last_begin_ns: int) -> int | None:
    slow_end_ns, settled = None, 0
    for step in steps:
        if step.length_ns > limit_ns:
            slow_end_ns, settled = step.end_ns, 0
        elif step.end_ns > last_begin_ns:
            settled += 1
            if settled == SETTLED and slow_end_ns is not None:
                break
    if slow_end_ns is None:
        return 0
    return slow_end_ns - last_begin_ns if settled else None


def headline(word: str, impacts: Sequence[Impact], errors: Sequence[str], *, is_over: bool = True) -> str:
    """The state of a job, in one sentence.

    Args:
        word: for a step.
        impacts: of the faults, oldest first.
        errors: why ranks were lost, each reason once; empty when none was.
        is_over: whether the job has ended.
    """
    ranks = f"the job failed: {'; '.join(errors)}" if errors else "no rank lost"
    if not impacts:
        return f"no fault was active; {ranks}"
    worst = max(impacts, key=lambda impact: impact.ratio)
    more = f", the worst of {len(impacts)} faults" if len(impacts) > 1 else ""
    return f"{_change(word, worst)} while {worst.what}{more}; {_return(word, worst, is_over=is_over)}{ranks}"


def _change(word: str, impact: Impact) -> str:
    if impact.during_ns is None:
        return f"no {word} ended"
    if impact.before_ns is None:
        return f"{word} p99 {format_times(impact.during_ns)}"
    return f"{word} p99 {format_times(impact.before_ns, impact.during_ns)}"


def _return(word: str, impact: Impact, *, is_over: bool) -> str:
    if impact.before_ns is None or impact.during_ns is None:
        return ""
    if not impact.slow_count:
        return f"no {word} was slow; "
    if impact.back_ns is None:
        return "not back by the end; " if is_over else "not back yet; "
    if impact.outages == 1:
        return f"back after {format_times(impact.back_ns)}; "
    if impact.back_ns <= 0:
        return f"back before the last of {impact.outages} outages; "
    return f"back {format_times(impact.back_ns)} after the last of {impact.outages} outages began; "


def slowest_of_each(steps: Sequence[T], most: int, length_of: Callable[[T], float]) -> list[T]:
    """At most *most* of the steps, for a drawing: of each few neighbours the slowest."""
    few = max(1, -(-len(steps) // most))
    return [max(steps[at : at + few], key=length_of) for at in range(0, len(steps), few)]
