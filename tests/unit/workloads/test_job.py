"""The pace of a job."""

import pytest

from mrc_testbed.workloads.job import Step, measure_pace

MS = 1_000_000


def steps(*lengths_ms: int) -> list[Step]:
    """One after the other from 0 on."""
    found, begin_ns = [], 0
    for at, length_ms in enumerate(lengths_ms):
        found.append(Step(begin_ns, begin_ns + length_ms * MS, f"h{at % 3}"))
        begin_ns = found[-1].end_ns
    return found


def test_a_pace_counts_whole_steps_and_names_who_is_last() -> None:
    pace = measure_pace(steps(100, 100, 300, 100), 0, 550 * MS)
    assert pace is not None
    assert (pace.count, pace.p50_ns, pace.slowest_rank) == (3, 100 * MS, "h0")
    assert pace.per_second == pytest.approx(3.5 / 0.55)
    assert pace.p99_ns == pytest.approx(296 * MS)
    assert pace.slowest_share == pytest.approx(1 / 3)
    assert measure_pace(steps(100), 50 * MS, 90 * MS) is None
