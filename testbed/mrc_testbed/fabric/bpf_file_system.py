"""The BPF file system that all labs of a machine share, and a lab's folder in it."""

import ctypes
import errno
import os
import shutil
from pathlib import Path
from typing import Final

from mrc_testbed.errors import CleanupError, PreflightError
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.paths import LAB_PINS, LabPaths

_SOURCE: Final = "mrc-testbed-up"
"""Distinguishes our mount from one that `setup host` or the user made, which stays when the last lab
goes.
"""

_MOUNTS: Final = Path("/proc/self/mountinfo")

_libc = ctypes.CDLL(None, use_errno=True)


def prepare_pins(paths: LabPaths) -> None:
    """Mounts the BPF file system if it is not, and makes the lab's folder in it."""
    paths.bpffs.mkdir(parents=True, exist_ok=True)
    with exclusive(_lock_file(paths), "a change of the BPF file system", wait=True):
        if _mount_source(paths.bpffs) is None:
            _mount(paths.bpffs)
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
        if _mount_source(paths.bpffs) == _SOURCE and not labs_with_pins(paths.bpffs):
            _unmount(paths.bpffs)


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
    for line in _MOUNTS.read_text().splitlines():
        where, _, what = line.partition(" - ")
        kind, source, *_ = what.split(" ")
        if kind == "bpf" and where.split(" ")[2] == wanted:
            return source
    return None


def _mount(mount_point: Path) -> None:
    if _libc.mount(_SOURCE.encode(), os.fsencode(mount_point), b"bpf", 0, b"mode=0700"):
        number = ctypes.get_errno()
        raise PreflightError(
            f"the BPF file system cannot be mounted at {mount_point}: {os.strerror(number)}",
            hint="run as root, with a kernel that has CONFIG_BPF_SYSCALL",
        )


def _unmount(mount_point: Path) -> None:
    if _libc.umount2(os.fsencode(mount_point), 0):
        number = ctypes.get_errno()
        # EBUSY: somebody looks at it from a shell; it is empty and serves the next lab.
        if number != errno.EBUSY:
            raise CleanupError(f"{mount_point} cannot be unmounted: {os.strerror(number)}")
