"""The steps of a job and its pace, from when its steps began and ended alone. Pure.

A step is one of training, or an operation of a collective that computes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from mrc_testbed.workloads.operation_record import OperationRecord, percentile_ns
from mrc_testbed.workloads.program import SharedWork

T = TypeVar("T")


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
    """The pace of a job."""

    count: int  # whole steps in the time
    per_second: float  # steps per second; one that lies in the time by half counts half
    # p50_ns, p99_ns: of the whole steps
    p50_ns: float
    p99_ns: float
    slowest_rank: str  # the rank that most often completed a step last; the first in name of equals
    slowest_share: float  # of the whole steps, those that it completed last


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


def idle_shares(ranks: Sequence[str], records: Sequence[OperationRecord]) -> dict[str, float] | None:
    """Share of the steps' time in which each rank has not computed; None: that is not known."""
    known = [(each.step_ns, each.computed_ns) for each in records if each.computed_ns is not None]
    if not known:
        return None
    whole_ns = sum(step_ns for step_ns, _ in known)
    return {
        rank: 1 - sum(computed_ns[at] for _, computed_ns in known) / whole_ns for at, rank in enumerate(ranks)
    }


def steps_per_second(steps: Sequence[Step], start_ns: int, end_ns: int) -> float:
    """Steps per second between two times; one that lies between them by half counts half."""
    done = sum(
        max(0, min(step.end_ns, end_ns) - max(step.begin_ns, start_ns)) / step.length_ns for step in steps
    )
    return done * 1e9 / (end_ns - start_ns)


def slowest_of_each(steps: Sequence[T], most: int, length_of: Callable[[T], float]) -> list[T]:
    """At most *most* of the steps, for a drawing: of each few neighbours the slowest."""
    few = max(1, -(-len(steps) // most))
    return [max(steps[at : at + few], key=length_of) for at in range(0, len(steps), few)]
