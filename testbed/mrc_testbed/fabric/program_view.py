"""A program's own view of the host that it is on: a script that becomes the program.

    unshare --mount --uts PYTHON -I -S program_view.py HOSTS_FILE HOST|"" PROGRAM...

It has these namespaces to itself, so nothing changes for others. Names of hosts resolve. With HOST, which is
to have its NIC, the program is on a machine of that name: Open MPI's daemons would use the same folder in
/tmp otherwise, and NCCL and others tell machines apart by it. /sys/class/net has the interfaces of the host.
There is a device /dev/infiniband/uverbs0: UCX believes in no RDMA device without. As nothing may be created
in the machine's /dev, the program gets one of its own. Everybody may open its /dev/userfaultfd, by which the
verbs library holds up read(2) into memory that is being registered.
"""

import ctypes
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Final

_MS_NOSUID: Final = 2
_MS_BIND: Final = 0x1000
_MS_REC: Final = 0x4000
_MNT_DETACH: Final = 2
_DEV: Final = Path("/dev")
_UVERBS: Final = _DEV / "infiniband/uverbs0"
_USERFAULTFD: Final = _DEV / "userfaultfd"
_SYS: Final = Path("/sys")
_INTERFACES: Final = ("class/net", "devices/virtual/net")
"""In /sys: links, and the folders of a host's interfaces, where they lead to."""

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    hosts_file, host, *command = sys.argv[1:]
    umask = os.umask(0)
    try:
        _mount(hosts_file, "/etc/hosts", None, _MS_BIND)
        if host:
            socket.sethostname(host)
            _replace_dev()
            _show_interfaces()
    except OSError as error:
        sys.exit(f"error: cannot prepare the view of a program: {error}")
    os.umask(umask)
    try:
        os.execvp(command[0], command)  # noqa: S606 - there is no shell
    except OSError as error:
        sys.stderr.write(f"error: {command[0]}: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)  # as a shell has it


def _replace_dev() -> None:
    """Put a file system in memory in the place of /dev, which has all that the machine's has, and the device.

    Folders and whatever is mounted, such as pts and shm, are the same ones; device nodes are others for the
    same devices.
    """
    machine = os.open(_DEV, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    device = os.fstat(machine).st_dev
    _mount("tmpfs", _DEV, "tmpfs", _MS_NOSUID, "mode=755")
    terminals = {os.fstat(number).st_rdev for number in range(3) if os.isatty(number)}
    for name in os.listdir(machine):  # noqa: PTH208 - of a descriptor
        source, target = Path(f"/proc/self/fd/{machine}/{name}"), _DEV / name
        found = source.lstat()
        if target == _UVERBS.parent:
            continue
        if stat.S_ISLNK(found.st_mode):
            target.symlink_to(source.readlink())
        elif found.st_dev == device and found.st_rdev and found.st_rdev not in terminals:
            os.mknod(target, found.st_mode | (0o666 if target == _USERFAULTFD else 0), found.st_rdev)
            os.chown(target, found.st_uid, found.st_gid)
        else:  # terminals too: ttyname(3) knows them by the inode
            _bind(source, target)
    os.close(machine)
    _UVERBS.parent.mkdir(0o755)
    _bind(_DEV / "null", _UVERBS)


def _show_interfaces() -> None:
    """Put those of this network namespace into /sys, whose other folders and mounts stay."""
    own = _DEV / "infiniband/sys"  # any folder that is ours
    own.mkdir()
    _mount("sysfs", own, "sysfs", _MS_NOSUID)
    for folder in _INTERFACES:
        _mount(own / folder, _SYS / folder, None, _MS_BIND)
    _check(_libc.umount2(os.fsencode(own), _MNT_DETACH), own)
    own.rmdir()


def _bind(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir()
    else:
        target.touch()
    _mount(source, target, None, _MS_BIND | _MS_REC)


def _mount(
    source: Path | str, target: Path | str, kind: str | None, flags: int, options: str | None = None
) -> None:
    arguments = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    _check(_libc.mount(*arguments, flags, None if options is None else options.encode()), target)


def _check(result: int, target: Path | str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))


if __name__ == "__main__":
    main()
