"""One command at a time changes a lab, or what all labs share."""

import contextlib
import fcntl
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.state_file import PRIVATE_FOLDER, private_descriptor

_HOLDER: Final = re.compile(r".+ \(pid (\d+)\)")
_EXEC_NS: Final = 5_000_000_000
"""In which a program that a killed holder was just starting gets to run, on a busy machine too."""

_LOOK_NS: Final = 200_000_000
"""A command that looks at a lock takes it for a moment; it lets it go within this time."""

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def exclusive(
    lock_file: Path, what: str, *, wait: bool = False, subject: str | None = None
) -> Iterator[None]:
    """Holds *lock_file* for as long as the block runs; the kernel lets it go should this process die.

    Args:
        lock_file: made, with its folder, if need be; its holder may delete both.
        what: for the message to others, such as "up".
        subject: what is changed, for the message too; None: the lab whose folder it is in.
        wait: for another holder to let it go; for locks that are held for milliseconds.
    """
    subject = subject or f"lab {lock_file.parent.name!r}"
    descriptor = locked_descriptor(lock_file, subject, wait=wait)
    try:
        os.ftruncate(descriptor, 0)
        with contextlib.suppress(OSError):  # `down` must work on a full disk: it is what makes room
            os.pwrite(descriptor, f"{what} (pid {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_held(lock_file: Path) -> bool:
    try:
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def locked_descriptor(lock_file: Path, subject: str = "", *, wait: bool = True) -> int:
    """Descriptor of a lock file, held until it is closed; file and folder are made if need be."""
    while True:
        lock_file.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        # Nobody else may put files, links or locks of theirs in the way of ours
        found = lock_file.parent.stat()
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
            raise FabricError(
                f"{lock_file.parent} can be written by others than the user {os.geteuid()}",
                hint="choose a state folder of your own: MRC_TESTBED_STATE_DIR",
            )
        try:
            descriptor = private_descriptor(lock_file, os.O_RDWR)
        except FileNotFoundError:
            continue  # `down` removed the folder between the two calls
        try:
            _flock(descriptor, subject, wait=wait)
        except FabricError:
            os.close(descriptor)
            raise
        if is_still_at(descriptor, lock_file):
            return descriptor
        os.close(descriptor)  # its former holder was `down`, which deleted the file: lock the new one


def _flock(descriptor: int, subject: str, *, wait: bool) -> None:
    if wait:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    began_ns = monotonic_ns()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another command"
            # A child between fork and exec still holds what its parent, killed meanwhile, had locked.
            wait_ns = _EXEC_NS if _is_dead(holder) else _LOOK_NS
            if monotonic_ns() - began_ns > wait_ns:
                raise FabricError(
                    f"{subject} is being changed by {holder}", hint="wait for it to end"
                ) from error
            threading.Event().wait(0.01)
        else:
            return


def _is_dead(holder: str) -> bool:
    """Return True if the process that wrote its pid into a lock file is no longer there."""
    found = _HOLDER.fullmatch(holder)
    return found is not None and not Path(f"/proc/{found[1]}").exists()


def is_still_at(descriptor: int, path: Path) -> bool:
    """Return True if an open file is the one that *path* names now."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)
