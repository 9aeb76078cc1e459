"""Waits for changes in folders, for the end of processes, or for a deadline: whichever comes first."""

import ctypes
import os
import select
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.closing import Closing
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.process import ProcessIdentity, is_alive

_IN_ATTRIB: Final = 0x4
_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200
_IN_DELETE_SELF: Final = 0x400
_EVENTS: Final = _IN_ATTRIB | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_DELETE_SELF
_READ_BYTES: Final = 64 * 1024
FOREIGN_END_NS: Final = 100_000_000
"""No event says that a process of another PID namespace has ended: whoever waits for it looks so often."""


class FolderWatch(Closing):
    """An inotify watch on some folders: entries that come, go, or change mode."""

    def __init__(self, folders: Iterable[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0:
            raise FabricError(
                f"inotify: {os.strerror(ctypes.get_errno())}", hint="raise fs.inotify.max_user_instances"
            )
        for folder in folders:
            if libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _EVENTS) < 0:
                reason = os.strerror(ctypes.get_errno())
                os.close(self._descriptor)
                raise FabricError(
                    f"cannot watch {folder}: {reason}", hint="raise fs.inotify.max_user_watches"
                )

    def wait(self, processes: Iterable[ProcessIdentity], deadline_ns: int) -> None:
        """Returns when a folder changed, one of *processes* ended, or *deadline_ns* of CLOCK_MONOTONIC
        came; of one in another PID namespace within FOREIGN_END_NS.
        """
        ends: list[int] = []
        try:
            for process in processes:
                if not process.is_local:
                    if not is_alive(process):
                        return
                    deadline_ns = min(deadline_ns, monotonic_ns() + FOREIGN_END_NS)
                    continue
                try:
                    ends.append(os.pidfd_open(process.pid))
                except ProcessLookupError:
                    return
                if not is_alive(process):
                    return
            poll = select.poll()
            for descriptor in (self._descriptor, *ends):
                poll.register(descriptor, select.POLLIN)
            ready = poll.poll(max(0, deadline_ns - monotonic_ns()) / 1e6)
            if any(descriptor == self._descriptor for descriptor, _ in ready):
                os.read(self._descriptor, _READ_BYTES)
        finally:
            for descriptor in ends:
                os.close(descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
