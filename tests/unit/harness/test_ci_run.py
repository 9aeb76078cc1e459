"""The end of .ci/run: the status of the signal, and what it made is gone. Its commands are stand-ins."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import poll_until

ROOT = Path(__file__).parents[3]
MAKE = f"""\
#!{sys.executable}
import pathlib, signal, sys
if sys.argv[1] == "test" and not pathlib.Path("begun").exists():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pathlib.Path("begun").touch()
    signal.sigwait([signal.SIGTERM])  # it comes by its group, and from its parent
    pathlib.Path("stopped").touch()
"""
COMMAND = """\
#!/bin/sh
echo "$MRC_TESTBED_STATE_DIR $*" >>commands
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with .ci/run in which nothing is installed, built or up."""
    programs = {
        "bin/make": MAKE,
        "bin/docker": COMMAND,
        ".venv/bin/python": COMMAND,
        ".venv/bin/mrc-testbed": COMMAND,
    }
    for name, text in programs.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    return tmp_path


def start(checkout: Path) -> subprocess.Popen[bytes]:
    environment = {"PATH": f"{checkout}/bin:{os.environ['PATH']}", "TMPDIR": str(checkout / "tmp")}
    return subprocess.Popen([checkout / ".ci" / "run"], env=environment, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_step_and_removes_what_was_made(checkout: Path, number: int) -> None:
    run = start(checkout)
    poll_until((checkout / "begun").exists)
    [scratch] = (checkout / "tmp").iterdir()
    run.send_signal(number)
    assert run.wait() == 128 + number
    assert (checkout / "stopped").exists()
    removed = [line for line in (checkout / "commands").read_text().splitlines() if "down" in line]
    assert removed == [f"{scratch}/s -q down --all", f"{scratch}/n -q down --all"]
    assert not scratch.exists()


def test_the_next_one_removes_what_a_killed_one_made(checkout: Path) -> None:
    run = start(checkout)
    poll_until((checkout / "begun").exists)
    [scratch] = (checkout / "tmp").iterdir()
    run.kill()
    run.wait()
    poll_until((checkout / "stopped").exists)
    assert scratch.exists()
    assert start(checkout).wait() == 0
    assert f"{scratch}/n -q down --all" in (checkout / "commands").read_text().splitlines()
    assert [*(checkout / "tmp").iterdir()] == []
