"""Programs on a host of a lab with its NIC as RDMA device, and how to compile them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from waiting import DEADLINE_S, poll_until

from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.rdma import VERBS_LIBRARY

TESTBED: Final = str(Path(sys.executable).with_name("mrc-testbed"))
NOBODY: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_SYSTEM_PATH: Final = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"  # nobody may enter root's home
LIBMRC: Final = (
    *(f"-I{OBJECTS_DIR.parent}/include", str(VERBS_LIBRARY), f"-Wl,-rpath,{OBJECTS_DIR}"),
    *("-Wno-unused-function", "-libverbs", "-pthread"),
)
"""Options of the compiler for a program of libmrc."""

LIBMRC_EXAMPLES: Final = Path(__file__).parents[1] / "docs/examples/libmrc"
_TEST_PORT: Final = 18515
"""The port of perftest and the pingpongs."""

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
    """A command on a host with its NIC as RDMA device; a program without a path is the system's."""
    line = [TESTBED, "-n", live.name, "exec", host, "--rdma", "--transport", transport, "--"]
    return subprocess.Popen(
        [*line, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": _SYSTEM_PATH},
    )


def finish(started: Started) -> tuple[int, str, str]:
    """Exit status and what it said."""
    said, complained = started.communicate(timeout=DEADLINE_S)
    return started.returncode, said, complained


def program_pids(started: Started) -> list[int]:
    """Processes that a command runs on a host: one, or none any more."""
    try:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text()
    except FileNotFoundError:
        return []
    return [int(child) for child in children.split()]


def kill_program(started: Started) -> None:
    """Kills what a command runs on a host, if it still does; the command then ends by itself."""
    for pid in program_pids(started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def next_line(started: Started) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


_UNMEASURED = "Can't produce a report"
"""Said by perftest where a busy machine keeps it from measuring the frequency of its CPU."""


def said_by_both(live: Lab, *test: str, transport: str) -> str:
    """Output of a client on h0, once it and its server on h3 have ended well; nobody runs both.

    They run again where perftest does not know how fast its CPU counts.
    """
    for _ in range(10):
        waiting = start(live, "h3", *NOBODY, *test, transport=transport)
        try:
            poll_until(lambda: _listens(live, "h3", _TEST_PORT), what="the server's socket")
            status, said, complained = finish(start(live, "h0", *NOBODY, *test, "h3", transport=transport))
            if _UNMEASURED in said:
                kill_program(waiting)
            server_status, said_there, _ = finish(waiting)
        finally:
            kill_program(waiting)
        if _UNMEASURED not in said + said_there:
            break
    assert (status, server_status) == (0, 0), said + complained
    return said


def _listens(live: Lab, host: str, port: int) -> bool:
    """Return True if a TCP socket of the host listens on a port."""
    command = [TESTBED, "-n", live.name, "exec", host, "--", "cat", "/proc/net/tcp", "/proc/net/tcp6"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.search(rf":{port:04X} [0-9A-F]+:0000 0A ", table) is not None
