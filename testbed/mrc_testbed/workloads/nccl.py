"""Pure: what a benchmark of a collective found, in the terms of nccl-tests."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from mrc_testbed.shown import format_time
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.operation_record import OperationRecord, percentile_ns


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations of operations, or training steps; ns."""

    count: int  # of them
    # mean_ns, p50_ns, p99_ns, p999_ns, max_ns: over all of them, exact
    mean_ns: float
    p50_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: float

    @classmethod
    def of(cls, times_ns: Sequence[int]) -> "Durations":
        """Those of at least one time."""
        p50_ns, p99_ns, p999_ns = (percentile_ns(times_ns, ratio) for ratio in (0.5, 0.99, 0.999))
        return cls(len(times_ns), sum(times_ns) / len(times_ns), p50_ns, p99_ns, p999_ns, max(times_ns))

    def shown(self) -> list[str]:
        """Percentiles and largest for people."""
        return [format_time(time_ns) for time_ns in astuple(self)[2:]]


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """One size of a sweep."""

    collective: Collective  # what was carried out
    operation: Durations | None  # durations of the collective; None when none ended
    step: Durations | None  # durations of training steps, computing included; None without training
    # mean time that a message waited, once it had arrived, for the process that drives the ranks; a part of
    # the durations that real hosts do not have
    reaction_ns: float
    compared_bytes: int  # of results, at all ranks
    wrong_bytes: int  # of those
    errors: tuple[str, ...]  # why it failed, each reason once

    @property
    def algorithm_bps(self) -> float:
        """Data of a rank over the mean time of an operation."""
        return self.collective.size_bytes * 8e9 / self.operation.mean_ns if self.operation else 0.0

    @property
    def bus_bps(self) -> float:
        """Rate that the busiest NIC had to send at, over the same time; comparable with a port's rate."""
        return self.algorithm_bps * self.collective.bus_factor

    @property
    def has_passed(self) -> bool:
        """Return True if operations ended, without an error or a wrong byte."""
        return self.operation is not None and not self.errors and self.wrong_bytes == 0


def build_result(
    collective: Collective,
    operations: Sequence[OperationRecord],
    errors: Sequence[str],
    *,
    warmup_operations: int = 0,
) -> CollectiveResult:
    """The result of operations that have ended.

    Args:
        collective: what was carried out.
        operations: all of them, oldest first; those of the warm-up are compared but not timed.
    """
    timed = operations[warmup_operations:]
    return CollectiveResult(
        collective=collective,
        operation=Durations.of([each.duration_ns for each in timed]) if timed else None,
        step=Durations.of([each.step_ns for each in timed]) if timed and collective.is_training else None,
        reaction_ns=sum(each.reaction_ns for each in timed) / len(timed) if timed else 0.0,
        compared_bytes=sum(each.compared_bytes for each in operations),
        wrong_bytes=sum(each.wrong_bytes for each in operations),
        errors=tuple(dict.fromkeys(errors)),
    )


def sweep_sizes(first_bytes: int, last_bytes: int, factor: int) -> tuple[int, ...]:
    """Sizes from the first to the last, each *factor* (2 or more) times the one before."""
    sizes = [first_bytes]
    while sizes[-1] * factor <= last_bytes:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)
