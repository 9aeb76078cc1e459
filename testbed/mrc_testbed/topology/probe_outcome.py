"""The outcome of the link probes of one path, counted since the NIC was loaded or over an interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from mrc_testbed.topology.probe_path import ProbePath


@dataclass(frozen=True, slots=True)
class PathOutcome:
    """Link probes of one path whose time was up."""

    path: ProbePath  # their way
    passed: int  # came back in time
    failed: int  # did not
    late: int = 0  # of those that failed, how many came back after all: a slow machine, not a broken link
    rtt_sum_ns: int = 0  # round-trip times of those that passed, added up

    @property
    def returned(self) -> int:
        return self.passed + min(self.late, self.failed)

    @property
    def lost(self) -> int:
        return self.failed - min(self.late, self.failed)


def since(later: Sequence[PathOutcome], earlier: Sequence[PathOutcome]) -> tuple[PathOutcome, ...]:
    """The difference between two counts of the same paths."""
    return tuple(
        PathOutcome(
            new.path,
            new.passed - old.passed,
            new.failed - old.failed,
            new.late - old.late,
            new.rtt_sum_ns - old.rtt_sum_ns,
        )
        for new, old in zip(later, earlier, strict=True)
    )
