"""A lock that shows in every PID namespace whether its process lives: the kernel lets it go when it dies."""

import atexit
import contextlib
import os
import secrets
from dataclasses import replace
from pathlib import Path

from mrc_testbed.fabric.lock import is_held, is_still_at, locked_descriptor
from mrc_testbed.fabric.process import ProcessIdentity, lock_folder, own_identity

_descriptors: dict[Path, int] = {}
"""Descriptors of this process's lock files, one per state folder; open as long as it lives."""


def owner_identity() -> ProcessIdentity:
    """The calling process as the owner of what is to end with it.

    Raises:
        FabricError: it is not to be seen in /proc.
        OSError: its lock cannot be made.
    """
    folder = lock_folder()
    for path, descriptor in _descriptors.items():
        if path.parent == folder and is_still_at(descriptor, path):
            return replace(own_identity(), lock=path.name)
    remove_dead_owners()
    path = folder / secrets.token_hex(8)
    _descriptors[path] = locked_descriptor(path)
    atexit.register(_remove_own, path, os.getpid())
    return replace(own_identity(), lock=path.name)


def remove_dead_owners() -> None:
    """Remove the files of processes that were killed; one that is just being made is made again."""
    folder = lock_folder()
    try:
        paths = list(folder.iterdir())
    except FileNotFoundError:
        return
    for path in paths:
        if not is_held(path):
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # another process has a file in it
        folder.rmdir()


def _remove_own(path: Path, pid: int) -> None:
    if os.getpid() == pid:  # a fork that ends is not the owner
        with contextlib.suppress(OSError):
            path.unlink()
            path.parent.rmdir()
