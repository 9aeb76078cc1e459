"""The folder that a container may write: a small file system of its own.

Whoever is root in a container can neither fill the state folder's disk through it nor leave programs, devices
or set-uid files there.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

from mrc_testbed.errors import CleanupError, FabricError

_SOURCE: Final = "mrc-testbed-node"
"""Distinguishes our mounts from those of others."""

_OPTIONS: Final = b"mode=0700,size=4m,nr_inodes=64"
"""Room for a socket and a log (mrc_agents/nic/log.py) while it is being shortened."""

_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_MNT_DETACH: Final = 2
_MOUNTS: Final = Path("/proc/self/mounts")

_libc = ctypes.CDLL(None, use_errno=True)


def mount_node_folder(folder: Path) -> None:
    """Puts the small file system at *folder*, which exists."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    if _libc.mount(_SOURCE.encode(), os.fsencode(folder), b"tmpfs", flags, _OPTIONS):
        raise FabricError(f"no tmpfs can be mounted at {folder}: {os.strerror(ctypes.get_errno())}")


def unmount_node_folders(parent: Path) -> None:
    """Takes away what `mount_node_folder` mounted below *parent*; nothing is success."""
    prefix = os.path.realpath(parent).replace(" ", "\\040") + "/"
    for line in _MOUNTS.read_text().splitlines():
        source, point, *_ = line.split(" ")
        if source != _SOURCE or not point.startswith(prefix):
            continue
        if _libc.umount2(os.fsencode(point.replace("\\040", " ")), _MNT_DETACH):
            raise CleanupError(f"{point} cannot be unmounted: {os.strerror(ctypes.get_errno())}")
