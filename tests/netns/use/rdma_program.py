"""Programs on a host of a lab with its NIC as RDMA device, and how to compile them."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from waiting import DEADLINE_S

from mrc_testbed.fabric.live import Lab

TESTBED: Final = str(Path(sys.executable).with_name("mrc-testbed"))
NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
Started = subprocess.Popen[str]


def build(source: Path, folder: Path, *options: str, compiler: str = "clang") -> Path:
    """Compiles a program into a folder of pytest's, from which everybody may run it."""
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    program = folder / source.stem
    command = [compiler, "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program), *options]
    subprocess.run(command, check=True)
    return program


def start(live: Lab, host: str, *command: str | Path, transport: str = "mrc") -> Started:
    """A command on a host with its NIC as RDMA device."""
    return subprocess.Popen(
        [
            *(TESTBED, "-n", live.name, "exec", host, "--rdma", "--transport", transport),
            *("--", *map(str, command)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(started: Started) -> tuple[int, str, str]:
    """Exit status and what it said."""
    said, complained = started.communicate(timeout=DEADLINE_S)
    return started.returncode, said, complained


def kill_program(started: Started) -> None:
    """Kills what a command runs on a host, if it still does; the command then ends by itself."""
    try:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    except FileNotFoundError:
        return
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)


def next_line(started: Started) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()
