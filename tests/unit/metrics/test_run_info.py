"""The announcement of a run, and that it ends with the run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_testbed.metrics.run_info import RunInfo, announce_run, read_run

RUN = RunInfo("t0-t1-flap", "20260102T030405Z-ab12", 42)
ANNOUNCE_AND_WAIT = """
import sys
from pathlib import Path
from mrc_testbed.metrics.run_info import RunInfo, announce_run
with announce_run(Path(sys.argv[1]), RunInfo("s", "r", 1)):
    print("announced", flush=True)
    sys.stdin.read()
"""


def test_a_run_is_shown_while_it_lasts(tmp_path: Path) -> None:
    assert read_run(tmp_path) is None
    with announce_run(tmp_path, RUN):
        assert read_run(tmp_path) == RUN
        assert read_run(tmp_path) == RUN
    assert read_run(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_is_not_shown_any_more(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), announce_run(tmp_path, RUN):
        raise RuntimeError
    assert read_run(tmp_path) is None


def test_a_killed_run_is_not_shown_any_more(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ANNOUNCE_AND_WAIT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == b"announced\n"
        assert read_run(tmp_path) == RunInfo("s", "r", 1)
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
        assert read_run(tmp_path) is None


def test_a_second_run_replaces_the_first_and_survives_its_end(tmp_path: Path) -> None:
    second = RunInfo("other", "x", 7)
    with announce_run(tmp_path, RUN):
        with announce_run(tmp_path, second):
            assert read_run(tmp_path) == second
        assert read_run(tmp_path) is None
    assert read_run(tmp_path) is None


def test_a_lab_that_is_gone_has_no_run(tmp_path: Path) -> None:
    assert read_run(tmp_path / "gone") is None
