"""Processes are found by their mark, known by pid and start time, and ended whether they like it or not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import poll_until

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.process import (
    ProcessIdentity,
    find_marked,
    is_alive,
    kill_processes,
    marked_environment,
    observe_process,
    start_detached,
    stop_processes,
)

_GRACE_NS = 300_000_000
_STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""


def _start(lab: str, program: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=marked_environment(lab), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def test_only_processes_of_the_lab_are_found(lab_name: str, other_lab_name: str) -> None:
    waiting = "import signal; print('ready', flush=True); signal.pause()"
    with _start(lab_name, waiting) as own, _start(other_lab_name, waiting) as foreign:
        assert [process.pid for process in find_marked(lab_name)] == [own.pid]
        for process in (own, foreign):
            process.kill()


def test_the_caller_and_its_ancestors_are_spared(lab_name: str) -> None:
    program = f"""
from mrc_testbed.fabric.process import find_marked
print([process.pid for process in find_marked({lab_name!r})])
"""
    command = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, program]
    done = subprocess.run(
        command, env=marked_environment(lab_name), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_process_that_ignores_sigterm_is_killed(lab_name: str) -> None:
    with _start(lab_name, _STUBBORN) as process:
        (identity,) = find_marked(lab_name)
        stop_processes([identity], _GRACE_NS)
        assert not is_alive(identity)
        process.wait()


def test_a_killed_process_is_not_asked_first(lab_name: str) -> None:
    program = """
import signal
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
"""
    with _start(lab_name, program) as process:
        (identity,) = find_marked(lab_name)
        kill_processes([identity])
        assert not is_alive(identity)
        assert process.stdout
        assert process.stdout.read() == ""


def test_a_process_with_another_start_time_is_left_alone() -> None:
    own = observe_process(os.getpid())
    assert own is not None
    former = ProcessIdentity(own.pid, own.start_ticks - 1)
    assert not is_alive(former)
    stop_processes([former], _GRACE_NS)
    assert is_alive(own)


def test_a_detached_process_writes_to_its_log_and_leaves_no_zombie(lab_name: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = f"""
import os, pathlib, signal
print("said", os.getsid(0) == os.getpid(), flush=True)
pathlib.Path({str(tmp_path)!r}, "ready").touch()
signal.pause()
"""
    process = start_detached(lab_name, [sys.executable, "-c", program], log)
    poll_until((tmp_path / "ready").exists)
    assert log.read_text() == "said True\n"
    assert find_marked(lab_name) == (process,)
    stop_processes([process], _GRACE_NS)
    assert observe_process(process.pid) is None
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_program_that_cannot_be_run_is_named(lab_name: str, tmp_path: Path) -> None:
    with pytest.raises(FabricError, match="/nowhere/drainer cannot be run: No such file"):
        start_detached(lab_name, ["/nowhere/drainer"], tmp_path / "log")
