"""The measurements that commands leave for the exporter."""

import subprocess
import sys
from pathlib import Path

from histograms import histogram_of
from hypothesis import given
from hypothesis import strategies as st
from waiting import DEADLINE_S

from mrc_testbed.metrics.measured import (
    COLLECTIVE,
    STEP,
    MeasuredTimes,
    RecoveryTime,
    read_measured,
    read_recovery,
    write_recovery,
)

ADD_MANY = """
import sys
from pathlib import Path
from mrc_testbed.metrics.measured import COLLECTIVE, MeasuredTimes
with MeasuredTimes(Path(sys.argv[1]), COLLECTIVE, "all-reduce") as times:
    for _ in range(2000):
        times.add(1_000_000, 3)
"""


def test_a_lab_in_which_nothing_was_measured_has_nothing(tmp_path: Path) -> None:
    assert list(read_measured(tmp_path)) == []
    assert read_recovery(tmp_path) == []


@given(st.lists(st.integers(0, 2**36), max_size=30))
def test_times_are_counted_as_the_data_plane_counts(times_ns: list[int]) -> None:
    import tempfile  # noqa: PLC0415 - hypothesis wants a new folder per example

    with tempfile.TemporaryDirectory() as folder:
        with MeasuredTimes(Path(folder), COLLECTIVE, "all-gather") as times:
            for time_ns in times_ns:
                times.add(time_ns, 7)
        (measured,) = read_measured(Path(folder))
    assert (measured.what, measured.kind) == (COLLECTIVE, "all-gather")
    assert measured.size_bytes == 7 * len(times_ns)
    assert measured.times == histogram_of(times_ns)


def test_later_commands_go_on_where_earlier_ones_ended(tmp_path: Path) -> None:
    for _ in range(2):
        with MeasuredTimes(tmp_path, STEP, "all-reduce", "job.1") as times:
            times.add(5_000_000)
    (measured,) = read_measured(tmp_path)
    assert (measured.kind, measured.workload, measured.times.count) == ("all-reduce", "job.1", 2)


def test_commands_that_run_together_lose_nothing(tmp_path: Path) -> None:
    line = [sys.executable, "-c", ADD_MANY, str(tmp_path)]
    with subprocess.Popen(line) as first, subprocess.Popen(line) as second:
        assert (first.wait(DEADLINE_S), second.wait(DEADLINE_S)) == (0, 0)
    (measured,) = read_measured(tmp_path)
    assert (measured.times.count, measured.size_bytes) == (4000, 12000)


def test_the_recovery_shown_is_that_of_the_last_run(tmp_path: Path) -> None:
    write_recovery(tmp_path, [RecoveryTime("flap1", "detect", 5), RecoveryTime("flap1", "avoid", 6)])
    write_recovery(tmp_path, [RecoveryTime("flap2", "restore", 7)])
    assert read_recovery(tmp_path) == [RecoveryTime("flap2", "restore", 7)]
    assert list(read_measured(tmp_path)) == []


def test_a_lab_that_is_gone_is_not_brought_back(tmp_path: Path) -> None:
    write_recovery(tmp_path / "gone", [])
    assert not (tmp_path / "gone").exists()
