"""The record of each operation of a collective workload, and of each step of a program. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """One operation that all ranks have completed; times are CLOCK_MONOTONIC.

    A step of a program is known from outside: when it began and ended, and what its ranks say of it.
    """

    step_begin_ns: int  # when the step began to compute; without training, as begin_ns
    begin_ns: int  # when its first message was posted
    end_ns: int  # when its last message had arrived and been reduced
    reaction_ns: int  # mean time from a message's arrival in the kernel until the driver had dealt with it
    compared_bytes: int  # of the results of all ranks
    wrong_bytes: int  # of those, how many are not what they must be
    last_rank: str  # host at which the last message arrived; of a program, that of its slowest rank
    # of a program's step, the mean over the ranks that give one, not finite if one is not; None: none does
    loss: float | None = None
    sent_bytes: int | None = None  # of a program's step, by all ranks that say so; None: none does
    optimizer: str | None = None  # kind of that whose step rank 0 says it is; None: it does not
    # of a step of training or of a trace, how long each rank has computed; None: it is not known
    computed_ns: tuple[int, ...] | None = None

    @property
    def duration_ns(self) -> int:
        """Duration of the collective."""
        return self.end_ns - self.begin_ns

    @property
    def step_ns(self) -> int:
        """Duration of the step, computing included."""
        return self.end_ns - self.step_begin_ns


def last_loss(records: Sequence[OperationRecord]) -> float | None:
    """Loss of the last step that has one, maybe not finite; None: none has."""
    return next((each.loss for each in reversed(records) if each.loss is not None), None)


def finite(loss: float | None) -> float | None:
    """*loss* as files have it: None where it is not finite, for which JSON has no word."""
    return loss if loss is not None and isfinite(loss) else None


def percentile_ns(times_ns: Sequence[int], ratio: float) -> float:
    """The time below which a share of all lies, between neighbours on a straight line.

    Args:
        times_ns: at least one, in any order.
        ratio: from 0 to 1.
    """
    ordered = sorted(times_ns)
    place = ratio * (len(ordered) - 1)
    lower = int(place)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (place - lower) * (ordered[upper] - ordered[lower])
