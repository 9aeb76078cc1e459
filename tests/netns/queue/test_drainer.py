"""The drainer as a process: when it ends, with which status, what it says, and that it sleeps."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from line_traffic import assert_same_frames, equal_frames, random_frames, receive, send
from shaped_line import DRAINER, TO_FAR, LineFactory, LinkShape, ShapedLine
from waiting import DEADLINE_S, poll_until

from mrc_agents.abi import DrainerMode

SHAPED = [LinkShape(100_000_000)] * 2
FOREVER = 2**64 - 1
STATUS_USAGE, STATUS_PINS = 2, 3


def sleeps(line: ShapedLine) -> bool:
    """Return True if every drainer waits only for a push."""
    return all(drainer.wake_at_ns == FOREVER for drainer in line.drainer_state)


def run_drainer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DRAINER, *arguments], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )


def test_sigterm_ends_it_with_success(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.start_drainer()
    poll_until(lambda: sleeps(line))
    assert line.stop_drainer(signal.SIGTERM) == 0


def test_a_line_is_removed_whatever_state_its_drainers_are_in(make_line: LineFactory) -> None:
    line = make_line(SHAPED, drainer_count=2)
    line.start_drainer()
    line.drainers[1].kill()
    line.drainers[1].wait(DEADLINE_S)
    line.close()
    assert not line.pins.exists()


def test_it_ends_when_its_pins_vanish(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.start_drainer()
    poll_until(lambda: sleeps(line))
    line.close_pins()
    assert line.drainer.wait(DEADLINE_S) == 0


def test_second_drainer_of_a_lab_is_refused(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.start_drainer()
    poll_until(lambda: sleeps(line))
    second = run_drainer("--pins", str(line.pins))
    assert second.returncode == STATUS_PINS
    assert second.stderr == "mrc-drainer: another process drains this lab\n"


def test_two_labs_have_a_drainer_each(make_line: LineFactory) -> None:
    lines = [make_line(SHAPED), make_line(SHAPED)]
    for line in lines:
        line.start_drainer()
    for line in lines:
        with line.socket_at(0) as egress, line.socket_at(3) as ingress:
            send(egress, equal_frames(5, TO_FAR, 100))
            assert len(receive(ingress, 5)) == 5


def test_folder_without_pins_is_refused(bpffs: Path) -> None:
    folder = bpffs / "nothing-here"
    outcome = run_drainer("--pins", str(folder))
    assert outcome.returncode == STATUS_PINS
    assert outcome.stderr == f"mrc-drainer: cannot watch {folder}: No such file or directory\n"


def test_drainer_that_the_lab_does_not_have_is_refused(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    outcome = run_drainer("--pins", str(line.pins), "--index", "1")
    assert outcome.returncode == STATUS_PINS
    assert outcome.stderr == "mrc-drainer: the lab has 1 drainers, numbered from 0: there is no 1\n"


def test_drainer_without_a_cpu_of_its_own_is_refused(make_line: LineFactory) -> None:
    line = make_line(SHAPED, drainer_count=2)
    one_cpu = {min(os.sched_getaffinity(0))}
    command: list[Path | str] = [DRAINER, "--pins", line.pins, "--index", "1"]
    outcome = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        preexec_fn=lambda: os.sched_setaffinity(0, one_cpu),
    )
    assert outcome.returncode == STATUS_PINS
    assert outcome.stderr == "mrc-drainer: 1 CPUs to run on, too few for drainer 1\n"


@pytest.mark.parametrize("mode", [DrainerMode.AUTO, DrainerMode.ECO])
@pytest.mark.parametrize("drainer_count", [1, 2])
def test_a_drainer_at_rest_is_woken_by_every_frame(
    make_line: LineFactory, mode: DrainerMode, drainer_count: int
) -> None:
    line = make_line(SHAPED, drainer_count=drainer_count)
    for drainer in line.drainer_state:
        drainer.mode = mode
    line.start_drainer()
    with line.socket_at(0) as egress, line.socket_at(3) as ingress:
        for _ in range(20):
            poll_until(lambda: sleeps(line))
            send(egress, equal_frames(1, TO_FAR, 100))
            assert len(receive(ingress, 1)) == 1


def test_a_precise_drainer_never_sleeps_and_ends_when_reported(make_line: LineFactory) -> None:
    line = make_line(SHAPED)
    line.drainer_state[0].mode = DrainerMode.PRECISE
    line.start_drainer()
    with line.socket_at(0) as egress, line.socket_at(3) as ingress:
        for _ in range(20):
            send(egress, equal_frames(1, TO_FAR, 100))
            assert len(receive(ingress, 1)) == 1
            assert line.drainer_state[0].wake_at_ns == 0
    assert line.stop_drainer(signal.SIGTERM) == 0


def test_the_mode_is_changed_under_traffic(make_line: LineFactory) -> None:
    line = make_line([LinkShape(20_000_000, delay_ns=50_000)] * 3)
    line.start_drainer()
    sent = random_frames(240, TO_FAR, seed=11)
    received: list[bytes] = []
    with line.socket_at(0) as egress, line.socket_at(5) as ingress:
        send(egress, sent)
        for mode in (DrainerMode.ECO, DrainerMode.PRECISE, DrainerMode.AUTO, DrainerMode.ECO):
            line.drainer_state[0].mode = mode
            received += receive(ingress, 60)
    assert_same_frames(sent, received)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--pins"],
        ["--speed", "9"],
        ["--pins", "x", "y"],
        ["--pins", "x", "--index", "8"],
        ["--pins", "x", "--index", "-1"],
        ["--pins", "x", "--index", "1x"],
    ],
)
def test_wrong_arguments_are_refused_with_usage(arguments: list[str]) -> None:
    outcome = run_drainer(*arguments)
    assert outcome.returncode == STATUS_USAGE
    assert "usage: mrc-drainer --pins FOLDER [--index NUMBER]" in outcome.stderr
