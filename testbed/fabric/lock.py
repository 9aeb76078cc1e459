"""One command at a time changes a lab, or what all labs share."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.errors import FabricError


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

    Raises:
        FabricError: another process holds it, and *wait* is false; its pid and work are named.
    """
    subject = subject or f"lab {lock_file.parent.name!r}"
    descriptor = _lock(lock_file, subject, wait=wait)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{what} (pid {os.getpid()})".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock(lock_file: Path, subject: str, *, wait: bool) -> int:
    while True:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # `down` removed the folder between the two calls
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another command"
            os.close(descriptor)
            raise FabricError(
                f"{subject} is being changed by {holder}",
                hint="wait for it to end",
            ) from error
        if _is_still_at(descriptor, lock_file):
            return descriptor
        os.close(descriptor)  # its former holder was `down`, which deleted the file: lock the new one


def _is_still_at(descriptor: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)
