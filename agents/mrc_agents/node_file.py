"""Opens what lies in a folder that a node can write, from outside the node.

A process in a container owns its node's folder and may put anything under any name: a link to a file of the
machine, a FIFO that nobody writes to, a device, a folder. So such a name is looked up in its folder without
following links, and what it turns out to be is checked before a byte is read or sent.
"""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mrc_agents.errors import AgentError

_FOLDER_FLAGS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISREG, "a regular file"),
)


def read_tail(path: Path, bytes_max: int) -> bytes:
    """The last *bytes_max* bytes of a regular file.

    Raises:
        FileNotFoundError: there is none.
        AgentError: it is something else, has a second name, or belongs to another user.
    """
    with _opened(path, stat.S_ISREG, "regular file", _READ_FLAGS) as descriptor:
        found = os.fstat(descriptor)
        if found.st_nlink != 1:
            raise AgentError(f"{path} has {found.st_nlink} names, not one: it is not read")
        return os.pread(descriptor, bytes_max, max(0, found.st_size - bytes_max))


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Address of the socket that is at *path* now, and of no other, for as long as the block runs.

    Raises:
        OSError: there is none.
        AgentError: it is something else, or belongs to another user.
    """
    with _opened(path, stat.S_ISSOCK, "socket", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) as descriptor:
        yield f"/proc/self/fd/{descriptor}"


def remove_all_but(folder: Path, kept: str) -> None:
    """Empties a node's folder; leaves the entry *kept* if it is a regular file with that name alone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            with suppress(FileNotFoundError):  # a process inside may be faster
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    shutil.rmtree(name, dir_fd=descriptor)
                elif name != kept or not _is_own(found):
                    os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _is_own(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()


@contextmanager
def _opened(path: Path, is_wanted: Callable[[int], bool], wanted: str, flags: int) -> Iterator[int]:
    folder = os.open(path.parent, _FOLDER_FLAGS)
    try:
        # What it is comes first: to open a device may already do something.
        _check(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False), is_wanted, wanted)
        try:
            descriptor = os.open(path.name, flags, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise AgentError(f"{path} is a symbolic link, not a {wanted}") from error
            raise
    finally:
        os.close(folder)
    try:
        _check(path, os.fstat(descriptor), is_wanted, wanted)  # it may have been replaced in between
        yield descriptor
    finally:
        os.close(descriptor)


def _check(path: Path, found: os.stat_result, is_wanted: Callable[[int], bool], wanted: str) -> None:
    if not is_wanted(found.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "a device")
        raise AgentError(f"{path} is {kind}, not a {wanted}")
    if found.st_uid != os.geteuid():
        raise AgentError(f"{path} belongs to the user {found.st_uid}, not to {os.geteuid()}")
