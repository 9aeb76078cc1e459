"""The drainer as a process: when it ends, with which status, what it says, and that it sleeps."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from line_traffic import equal_frames, receive, send
from shaped_line import DRAINER, TO_FAR, LineFactory, LinkShape

pytestmark = pytest.mark.root

SHAPED = [LinkShape(100_000_000)] * 2
FOREVER = 2**64 - 1
STATUS_USAGE, STATUS_PINS = 2, 3


def eventually(condition: Callable[[], bool], *, deadline_seconds: float = 10) -> bool:
    """Whether *condition* came true; for state in mapped memory, whose changes nobody announces."""
    end = time.monotonic() + deadline_seconds
    pause = Event()
    while not condition():
        if time.monotonic() > end:
            return False
        pause.wait(0.002)
    return True


def run_drainer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DRAINER, *arguments], check=False, capture_output=True, text=True, timeout=10)


def test_sigterm_ends_it_with_success(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.start_drainer()
    assert eventually(lambda: line.drainer_state[0].wake_at_ns == FOREVER)
    assert line.stop_drainer(signal.SIGTERM) == 0


def test_without_traffic_it_sleeps_until_a_frame_wakes_it(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.start_drainer()
    with line.socket_at(0) as outlet, line.socket_at(3) as inlet:
        for _ in range(20):
            assert eventually(lambda: line.drainer_state[0].wake_at_ns == FOREVER)
            send(outlet, equal_frames(1, TO_FAR, 100))
            assert len(receive(inlet, 1)) == 1


def test_it_ends_when_its_pins_vanish(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.start_drainer()
    assert line.drainer is not None
    assert eventually(lambda: line.drainer_state[0].wake_at_ns == FOREVER)
    line.close_pins()
    assert line.drainer.wait(timeout=10) == 0


def test_second_drainer_of_a_lab_is_refused(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.start_drainer()
    assert eventually(lambda: line.drainer_state[0].wake_at_ns == FOREVER)
    second = run_drainer("--pins", str(line.pins))
    assert second.returncode == STATUS_PINS
    assert second.stderr == "mrc-drainer: another process drains this lab\n"


def test_two_labs_have_a_drainer_each(make_line: LineFactory) -> None:
    lines = [make_line(SHAPED), make_line(SHAPED)]
    for line in lines:
        line.start_drainer()
    for line in lines:
        with line.socket_at(0) as outlet, line.socket_at(3) as inlet:
            send(outlet, equal_frames(5, TO_FAR, 100))
            assert len(receive(inlet, 5)) == 5


def test_folder_without_pins_is_refused(bpffs: Path) -> None:
    folder = bpffs / "nothing-here"
    outcome = run_drainer("--pins", str(folder))
    assert outcome.returncode == STATUS_PINS
    assert outcome.stderr == f"mrc-drainer: cannot watch {folder}: No such file or directory\n"


@pytest.mark.parametrize("arguments", [[], ["--pins"], ["--speed", "9"], ["--pins", "x", "y"]])
def test_wrong_arguments_are_refused_with_usage(arguments: list[str]) -> None:
    outcome = run_drainer(*arguments)
    assert outcome.returncode == STATUS_USAGE
    assert "usage: mrc-drainer --pins FOLDER" in outcome.stderr
