"""A session of tests that ends whole: when it is gone, also by SIGKILL, so are its processes and its labs.

It has a folder for its temporary files, a lock in there, and a variable that its processes inherit. A guard
waits for the lock; where the guard was killed too, the next session does its work.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import pytest

from mrc_testbed.fabric.known_labs import claimed_labs, read_claim

MARK: Final = "MRC_TESTS_SESSION"
"""Variable that names the folder of a session."""

_SESSIONS: Final = Path(tempfile.gettempdir()) / f"mrct-{os.getuid()}"
_KEPT: Final = 6
"""As many as `make test` has."""

_FORKED: Final = "forked"
"""A file that a session and its forks have open: the environment of a fork lacks the variable."""

_OPEN: Final = pytest.StashKey[tuple[IO[bytes], IO[bytes]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Clear what killed sessions left, make the folder, and start the guard."""
    if MARK in os.environ:
        return  # a session within a test
    _SESSIONS.mkdir(exist_ok=True)
    with (_SESSIONS / "lock").open("wb") as one_at_a_time:  # a folder that nobody has locked is taken for old
        fcntl.lockf(one_at_a_time, fcntl.LOCK_EX)
        _remove_old()
        folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=_SESSIONS))
        config.stash[_OPEN] = (folder / _FORKED).open("wb"), _locked(folder, wait=True)
    folder.chmod(0o755)  # programs of nobody look into state folders
    os.posix_spawn(sys.executable, [sys.executable, __file__, str(folder)], os.environ, setsid=True)
    os.environ[MARK] = tempfile.tempdir = str(folder)
    config.option.basetemp = config.option.basetemp or folder / "t"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the guard go to work."""
    for file in config.stash.get(_OPEN, ()):
        file.close()


def clear_session(pid: int) -> None:
    """Wait until the session that is or was process *pid* is gone, and end what it left."""
    for folder in _SESSIONS.glob(f"{pid}-*"):
        _clear(folder, wait=True)


def _clear(folder: Path, *, wait: bool) -> bool:
    """End the processes of a session, and remove its labs; False if it goes on, which *wait* waits for."""
    with suppress(BlockingIOError, FileNotFoundError), _locked(folder, wait=wait):
        while left := processes_of(folder):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for lab in sorted(claimed_labs()):
            claim = read_claim(lab)
            if claim and claim.root.is_relative_to(folder):
                command = Path(sys.executable).with_name("mrc-testbed")
                subprocess.run([command, "-q", "-n", lab, "down", "--everywhere"], check=False)
        return True
    return False


def _remove_old() -> None:
    """Clear what killed sessions left. Files of the last ones stay, for whoever asks why a test failed."""
    folders = sorted(_SESSIONS.glob("*-*"), key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    gone = [folder for folder in folders if _clear(folder, wait=False)]
    mounts = Path("/proc/self/mountinfo").read_text()
    for folder in gone[_KEPT:]:
        if str(folder) not in mounts:  # else what is mounted there would be emptied
            shutil.rmtree(folder)


def _locked(folder: Path, *, wait: bool) -> IO[bytes]:
    """The lock of a session, which is this process's alone: no child inherits it (fcntl(2))."""
    file = (folder / "lock").open("wb")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        raise
    return file


def processes_of(folder: Path) -> list[int]:
    """Pids of what the session of *folder* started."""
    mark, forked = f"{MARK}={folder}".encode(), str(folder / _FORKED)
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it is gone meanwhile
            is_child = mark in (process / "environ").read_bytes().split(b"\0")
            if is_child or forked in {os.path.realpath(file) for file in (process / "fd").iterdir()}:
                found.append(int(process.name))
    return found


if __name__ == "__main__":
    _clear(Path(sys.argv[1]), wait=True)
