"""Named network namespaces, by system call.

A namespace is named as iproute2 names it, by a bind mount under /run/netns, so that `ip netns exec` works on
it. Nothing here starts a process: unsharing and binding costs 0.3 ms, starting `ip` costs 3 ms.
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from mrc_testbed.errors import FabricError

NAMESPACE_DIR = Path("/run/netns")

_CLONE_NEWNET = 0x40000000
_CLONE_NEWNS = 0x00020000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_MS_SHARED = 0x100000
_MNT_DETACH = 2
_OWN_NAMESPACE = Path("/proc/thread-self/ns/net")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise FabricError(f"{what}: {os.strerror(number)} (errno {number})")


def namespace_path(name: str) -> Path:
    return NAMESPACE_DIR / name


@contextmanager
def opened_namespace(namespace: Path) -> Iterator[int]:
    try:
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise FabricError(f"network namespace {namespace} cannot be opened: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _returning() -> Iterator[None]:
    """Lets the calling thread return to its namespace at the end."""
    with opened_namespace(_OWN_NAMESPACE) as home:
        try:
            yield
        finally:
            _check(_libc.setns(home, _CLONE_NEWNET), "cannot return to the machine's network namespace")


@contextmanager
def entered(namespace: Path) -> Iterator[None]:
    """Lets the calling thread work inside *namespace*; other threads stay where they are."""
    with _returning():
        with opened_namespace(namespace) as descriptor:
            _check(_libc.setns(descriptor, _CLONE_NEWNET), f"cannot enter network namespace {namespace}")
        yield


@contextmanager
def unnamed_namespace() -> Iterator[int]:
    """Lets the calling thread work in a fresh namespace that vanishes afterwards; gives its descriptor."""
    with _returning():
        _check(_libc.unshare(_CLONE_NEWNET), "cannot make a network namespace")
        with opened_namespace(_OWN_NAMESPACE) as descriptor:
            yield descriptor


def create_namespace(name: str) -> Path:
    """Makes an empty network namespace."""
    with unnamed_namespace():
        return bind_namespace(name, _OWN_NAMESPACE)


def bind_namespace(name: str, source: Path) -> Path:
    """Name the network namespace at *source* (a /proc/.../ns/net)."""
    path = namespace_path(name)
    _share_folder()
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    except FileExistsError as error:
        raise FabricError(f"network namespace {name} exists already") from error
    try:
        result = _libc.mount(os.fsencode(source), os.fsencode(path), None, _MS_BIND, None)
        _check(result, f"cannot name network namespace {name}")
    except BaseException:
        path.unlink()
        raise
    return path


def _share_folder() -> None:
    """Makes /run/netns a shared mount of itself, as iproute2 does before it binds a name there.

    Otherwise the first `ip netns add` of anybody would bind the folder onto itself together with the names
    that are in it: each is then mounted twice, and the lower mount cannot be reached by its path. The lock is
    the one that iproute2 takes: two that do this at once would mount each other's mounts without end.
    """
    NAMESPACE_DIR.mkdir(parents=True, exist_ok=True)
    folder = os.fsencode(NAMESPACE_DIR)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _libc.mount(b"", folder, b"none", _MS_SHARED | _MS_REC, None) == 0:
            return
        if ctypes.get_errno() == errno.EINVAL:  # it is no mount yet
            result = _libc.mount(folder, folder, b"none", _MS_BIND | _MS_REC, None)
            _check(result, f"cannot mount {NAMESPACE_DIR} on itself")
        result = _libc.mount(b"", folder, b"none", _MS_SHARED | _MS_REC, None)
        _check(result, f"cannot make {NAMESPACE_DIR} a shared mount")
    finally:
        os.close(descriptor)


def delete_namespace(name: str) -> None:
    """Takes the name away; interfaces in it vanish with the last process inside. No namespace, no error."""
    path = namespace_path(name)
    try:
        _unmount(path)
        path.unlink(missing_ok=True)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise FabricError(f"cannot remove network namespace {name}: {error.strerror}") from error
        with ThreadPoolExecutor(max_workers=1) as pool:
            pool.submit(_unlink_covered, path).result()


def _unlink_covered(path: Path) -> None:
    """Unlinks a name of which a mount is covered by one of its folder; the thread must end afterwards.

    The kernel refuses to unlink what is a mount point for the caller, and takes mounts of all others off it.
    So the caller gets a mount namespace of its own, and in it nothing on the folder.
    """
    _check(_libc.unshare(_CLONE_NEWNS), "cannot make a mount namespace")
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "cannot keep mounts to ourselves")
    try:
        _unmount(path.parent)
        _unmount(path)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FabricError(f"cannot remove network namespace {path.name}: {error.strerror}") from error


def _unmount(path: Path) -> None:
    """Detaches all that is mounted at *path*, one on the other; nothing there is no error."""
    while _libc.umount2(os.fsencode(path), _MNT_DETACH) == 0:
        pass
    number = ctypes.get_errno()
    # EINVAL: no mount, such as a file left by a process that died between creating it and binding it.
    if number not in {errno.ENOENT, errno.EINVAL}:
        raise OSError(number, os.strerror(number), str(path))


def namespace_names() -> list[str]:
    """All named network namespaces of the machine, sorted."""
    if not NAMESPACE_DIR.is_dir():
        return []
    return sorted(entry.name for entry in NAMESPACE_DIR.iterdir())


def is_bound(path: Path) -> bool:
    """Return True if *path*, a name under /run/netns, names a network namespace here.

    A process in another mount namespace may have bound it there: then only the file is to be seen.
    """
    try:
        return path.stat().st_dev != path.parent.stat().st_dev
    except FileNotFoundError:
        return False
