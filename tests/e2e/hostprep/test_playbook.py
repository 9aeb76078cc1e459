"""Playbooks through ansible-runner: reports, failures, cancelling."""

import os
import signal
import threading
from pathlib import Path

import pytest

from mrc_testbed.errors import Interrupted, PreflightError
from mrc_testbed.hostprep.playbook import PlaybookReport, run_playbook

HEADER = "- hosts: localhost\n  gather_facts: false\n  tasks:\n"


def playbook(folder: Path, *tasks: str) -> Path:
    path = folder / "play.yaml"
    path.write_text(HEADER + "".join(f"    - {task}\n" for task in tasks))
    return path


def run(folder: Path, *tasks: str, check: bool = False, received: list[str] | None = None) -> PlaybookReport:
    progress = None if received is None else received.append
    return run_playbook(
        playbook(folder, *tasks), {"folder": str(folder)}, log=folder / "log", check=check, progress=progress
    )


TOUCH = "{name: make the file, ansible.builtin.copy: {content: x, dest: '{{ folder }}/made', mode: '0644'}}"


def test_a_change_is_reported_once_and_received(tmp_path: Path) -> None:
    received: list[str] = []
    assert run(tmp_path, TOUCH, received=received).changes == ("make the file",)
    assert received == ["make the file"]
    assert run(tmp_path, TOUCH).changes == ()


def test_check_reports_the_change_and_makes_none(tmp_path: Path) -> None:
    report = run(tmp_path, TOUCH, check=True)
    assert report.changes == ("make the file",)
    assert not (tmp_path / "made").exists()


def test_a_failure_names_the_task_what_its_program_wrote_and_the_log(tmp_path: Path) -> None:
    failing = "{name: read it, ansible.builtin.command: {argv: [cat, '{{ folder }}/absent']}}"
    with pytest.raises(PreflightError) as raised:
        run(tmp_path, failing)
    assert "read it: non-zero return code" in raised.value.message
    assert "absent: No such file or directory" in raised.value.message
    assert str(tmp_path / "log") in raised.value.message
    assert "TASK [read it]" in (tmp_path / "log").read_text()


def test_cancelling_ends_the_program_of_the_task_and_restores_the_signal_handler(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")
    waiting = (
        "{name: wait, ansible.builtin.command: "
        "{argv: [sh, -c, 'echo $$ > {{ folder }}/pid; exec sleep 600']}}"
    )
    pids: list[int] = []

    def interrupt() -> None:
        pids.append(int((tmp_path / "pid").read_text()))
        os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted):
        run(tmp_path, waiting)
    thread.join()
    assert signal.getsignal(signal.SIGINT) is handler
    assert not Path(f"/proc/{pids[0]}").exists()
