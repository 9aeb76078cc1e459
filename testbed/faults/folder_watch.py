"""Waits for changes of folders, for the end of processes, or for a deadline: whichever comes first."""

import ctypes
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from testbed.errors import FaultError

_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200
_IN_DELETE_SELF: Final = 0x400
_FLAGS: Final = _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF
_READ_BYTES: Final = 64 * 1024


class FolderWatch:
    """An inotify watch on some folders.

    Raises:
        FaultError: the kernel refuses a watch.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise FaultError(
                f"inotify: {os.strerror(ctypes.get_errno())}",
                hint="raise fs.inotify.max_user_instances",
            )
        for folder in folders:
            if libc.inotify_add_watch(self._descriptor, bytes(folder), _FLAGS) < 0:
                reason = os.strerror(ctypes.get_errno())
                os.close(self._descriptor)
                raise FaultError(f"cannot watch {folder}: {reason}")

    def wait(self, pids: Iterable[int], deadline_ns: int | None) -> None:
        """Returns when a folder changed, a process of *pids* ended, or *deadline_ns* came.

        Args:
            pids: processes to watch; one that is gone already counts as ended.
            deadline_ns: CLOCK_MONOTONIC; None for no deadline.
        """
        pidfds = []
        try:
            for pid in pids:
                try:
                    pidfds.append(os.pidfd_open(pid))
                except ProcessLookupError:
                    return
            timeout_s = None if deadline_ns is None else max(0, deadline_ns - time.monotonic_ns()) / 1e9
            ready, _, _ = select.select([self._descriptor, *pidfds], [], [], timeout_s)
            if self._descriptor in ready:
                os.read(self._descriptor, _READ_BYTES)
        finally:
            for pidfd in pidfds:
                os.close(pidfd)

    def close(self) -> None:
        """Gives the watch back."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
