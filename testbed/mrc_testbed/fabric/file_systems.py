"""The file systems that labs mount: of BPF, for all labs of a machine, and one for each container.

What a container may write is a small file system of its own: whoever is root in it can neither fill the state
folder's disk through it nor leave programs, devices or set-uid files there.
"""

import ctypes
import errno
import os
import shutil
from pathlib import Path
from typing import Final

from mrc_testbed.errors import CleanupError, FabricError, PreflightError
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.paths import LAB_PINS, LabPaths

_BPF_SOURCE: Final = "mrc-testbed-up"
"""Distinguishes our mount from one that `setup host` or the user made, which stays when the last lab
goes.
"""

_NODE_SOURCE: Final = "mrc-testbed-node"
_NODE_OPTIONS: Final = b"mode=0700,size=4m,nr_inodes=64"
"""Room for a socket and a log (mrc_agents/nic/log.py) while it is being shortened."""

_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_MNT_DETACH: Final = 2
_PROC: Final = Path("/proc/self")

_libc = ctypes.CDLL(None, use_errno=True)


def prepare_pins(paths: LabPaths) -> None:
    """Mounts the BPF file system if it is not, and makes the lab's folder in it."""
    paths.bpffs.mkdir(parents=True, exist_ok=True)
    with exclusive(_lock_file(paths), "a change of the BPF file system", wait=True):
        if _mount_source(paths.bpffs) is None and _libc.mount(
            _BPF_SOURCE.encode(), os.fsencode(paths.bpffs), b"bpf", 0, b"mode=0700"
        ):
            raise PreflightError(
                f"the BPF file system cannot be mounted at {paths.bpffs}: {_reason()}",
                hint="run as root, with a kernel that has CONFIG_BPF_SYSCALL",
            )
        paths.pins.mkdir(exist_ok=True)
    if not paths.pins_link.is_symlink():
        paths.pins_link.symlink_to(paths.pins)


def remove_pins(paths: LabPaths) -> None:
    """Removes the lab's pins, and the mount if it is ours and holds nothing any more."""
    if _mount_source(paths.bpffs) is None:
        return
    with exclusive(_lock_file(paths), "a change of the BPF file system", wait=True):
        try:
            shutil.rmtree(paths.pins)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise CleanupError(f"pins in {paths.pins} cannot be removed: {error}") from error
        if _mount_source(paths.bpffs) == _BPF_SOURCE and not labs_with_pins(paths.bpffs):
            # EBUSY: somebody looks at it from a shell; it is empty and serves the next lab.
            _unmount(os.fspath(paths.bpffs), 0, accepted_errno=errno.EBUSY)


def labs_with_pins(bpffs: Path) -> frozenset[str]:
    """Labs that have a folder in the BPF file system.

    Other programs use it too: the kernel's iterators are files, and iproute2 makes a folder `tc`, with links
    to it, in the first BPF file system that it finds.
    """
    if _mount_source(bpffs) is None:
        return frozenset()
    return frozenset(entry.name for entry in bpffs.iterdir() if _is_of_a_lab(entry))


def _is_of_a_lab(entry: Path) -> bool:
    """Return True for a folder that holds what a lab's folder may hold, or nothing yet."""
    try:
        return (
            entry.is_dir() and not entry.is_symlink() and {each.name for each in entry.iterdir()} <= LAB_PINS
        )
    except FileNotFoundError:
        return False  # the lab has just been removed


def _lock_file(paths: LabPaths) -> Path:
    return paths.root / f"{paths.bpffs.name}.lock"


def _mount_source(mount_point: Path) -> str | None:
    """Source of the BPF file system at *mount_point*; None if there is none to be seen."""
    try:
        device = mount_point.stat().st_dev
    except FileNotFoundError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in (_PROC / "mountinfo").read_text().splitlines():
        where, _, what = line.partition(" - ")
        kind, source, *_ = what.split(" ")
        if kind == "bpf" and where.split(" ")[2] == wanted:
            return source
    return None


def mount_node_folder(folder: Path) -> None:
    """Puts the small file system at *folder*, which exists."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    if _libc.mount(_NODE_SOURCE.encode(), os.fsencode(folder), b"tmpfs", flags, _NODE_OPTIONS):
        raise FabricError(f"no tmpfs can be mounted at {folder}: {_reason()}")


def unmount_node_folders(parent: Path) -> None:
    """Takes away what `mount_node_folder` mounted below *parent*; nothing is success."""
    prefix = os.path.realpath(parent).replace(" ", "\\040") + "/"
    for line in (_PROC / "mounts").read_text().splitlines():
        source, point, *_ = line.split(" ")
        if source == _NODE_SOURCE and point.startswith(prefix):
            _unmount(point.replace("\\040", " "), _MNT_DETACH)


def _unmount(point: str, flags: int, accepted_errno: int = 0) -> None:
    if _libc.umount2(os.fsencode(point), flags) and ctypes.get_errno() != accepted_errno:
        raise CleanupError(f"{point} cannot be unmounted: {_reason()}")


def _reason() -> str:
    return os.strerror(ctypes.get_errno())
