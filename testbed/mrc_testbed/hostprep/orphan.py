"""Ends what a cancelled playbook leaves running.

ansible-runner cancels by killing the process group of ansible-playbook. Ansible's workers, and the programs
they run, are in sessions of their own and would go on. As their subreaper we inherit and end them.
"""

import ctypes
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
_GRACE_S: Final = 10.0
"""Time between asking a process to end and ending it."""


@contextmanager
def no_orphans() -> Iterator[Callable[[], None]]:
    """End the processes that the block has started, and their descendants, when it is left.

    Yields:
        a function that lets them live: a playbook that has come to its end may have started a daemon.
    """
    _set_subreaper(active=True)
    before = set(_children())
    is_cancelled = True

    def release() -> None:
        nonlocal is_cancelled
        is_cancelled = False

    try:
        yield release
    finally:
        while is_cancelled and (left := [pid for pid in _children() if pid not in before]):
            for pid in left:
                _end(pid)
        _set_subreaper(active=False)


def _set_subreaper(*, active: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(active), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _children() -> Iterator[int]:
    """Process ids whose parent is this process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended while we were looking
            # "pid (name) state ppid ...": the name may hold spaces and brackets.
            if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
                yield int(entry.name)


def _end(pid: int) -> None:
    """End child *pid* and its process group, politely first, and reap it."""
    group = os.getpgid(pid)
    descriptor = os.pidfd_open(pid)
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if group == os.getpgrp():
                os.kill(pid, number)
            else:
                os.killpg(group, number)
            if select.select([descriptor], [], [], _GRACE_S)[0]:
                break
    finally:
        os.close(descriptor)
    os.waitpid(pid, 0)
