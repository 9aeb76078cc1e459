"""Processes of a lab: how they are marked, recognised and ended.

A process is known by its pid *and* its start time, so a recycled pid is never mistaken for ours. Both say
nothing in another PID or time namespace: there a process that owns something is known by a lock that it
holds, which the kernel lets go when it dies, and nothing is said of any other. Every process that a lab
starts on the machine carries a mark in its environment, which its children inherit: `down` finds them all
even when nothing was recorded. No process is ever looked for by its name.
"""

import atexit
import contextlib
import errno
import os
import secrets
import select
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import CleanupError, FabricError
from mrc_testbed.fabric.lock import is_held, is_still_at, locked_descriptor
from mrc_testbed.fabric.paths import STATE_DIR_VARIABLE, folder_id, state_root

_PROC = Path("/proc")
_MARK = "MRC_TESTBED_OWNED_BY"
"""Variable of the mark: <lab>@<folder_id of the state folder>; <lab> alone in processes of version 0.3."""

ANY_FOLDER = "*"
_STAT_STATE = 0  # fields of /proc/<pid>/stat counted from behind the command name
_STAT_PARENT = 1
_STAT_START = 19
_FREEZE_NS = 1_000_000_000
KILLED_NS = 30_000_000_000
"""For the kernel to let go of a killed process: an agent may queue for a lock behind dozens of others."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process for as long as the machine runs."""

    pid: int  # as its PID namespace numbers it
    start_ticks: int  # its start time in clock ticks since boot, as its time namespace has it
    # those two, as `_own_namespaces` writes them; empty: those of the reader
    namespaces: str = field(default="", compare=False)
    lock: str = ""  # name of the file in `lock_folder` that it holds; empty: none

    @property
    def is_local(self) -> bool:
        """Return True if its pid and start time mean here what they meant there."""
        return not self.namespaces or self.namespaces == _own_namespaces()

    def to_text(self) -> str:
        """One word, fit for a file name and a command line."""
        return f"{self.pid}-{self.start_ticks}-{self.namespaces}-{self.lock}"

    @classmethod
    def from_text(cls, text: str) -> "ProcessIdentity":
        """The process that a word of `to_text` names."""
        pid, start_ticks, namespaces, lock = text.split("-")
        return cls(int(pid), int(start_ticks), namespaces, lock)


@cache
def _own_namespaces() -> str:
    files = (_PROC / "self/ns" / kind for kind in ("pid", "time"))
    return ".".join(str(file.stat().st_ino) for file in files if file.exists())


def lock_folder() -> Path:
    return state_root() / ".owners"


def marked_environment(lab: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment whose process, and all it starts, `find_marked` finds."""
    root = state_root()
    marks = {_MARK: f"{lab}@{folder_id(root)}", STATE_DIR_VARIABLE: str(root)}
    return {**(os.environ if base is None else base), **marks}


def own_lab() -> str:
    """Name of the lab whose mark this process has; empty: none."""
    return os.environ.get(_MARK, "").partition("@")[0]


def start_detached(lab: str, command: list[str], log: Path) -> ProcessIdentity:
    """Starts a process of *lab* that outlives this one, in a session of its own; *log* receives what it says.

    Args:
        command: path of the program, and its arguments.
    """
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        # Not subprocess.Popen, which wants to be waited for.
        pid = os.posix_spawn(
            command[0],
            command,
            marked_environment(lab),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), log_flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise FabricError(f"{command[0]} cannot be run: {error.strerror}") from error
    # posix_spawn returns a moment before exec has laid out the environment, and with it the mark
    while not _bears_mark(pid, lab, ANY_FOLDER) and observe_process(pid):
        os.sched_yield()
    identity = observe_process(pid)
    if identity is None:
        raise FabricError(f"{command[0]} ended at once", hint=f"see {log}")
    return identity


def observe_process(pid: int) -> ProcessIdentity | None:
    """The running process *pid*; None when it is gone or a zombie."""
    fields = _stat_fields(pid)
    if fields is None or fields[_STAT_STATE] in {"Z", "X"}:
        return None
    return ProcessIdentity(pid, int(fields[_STAT_START]), _own_namespaces())


def command_line(pid: int) -> list[str]:
    """The words a process was started with; none when it is gone."""
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [os.fsdecode(word) for word in words]


def session(pid: int) -> int | None:
    """The session of a process, named by its first; None when the process is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def own_identity() -> ProcessIdentity:
    identity = observe_process(os.getpid())
    if identity is None:
        raise FabricError("this process is not in /proc", hint="mount /proc")
    return identity


def is_alive(process: ProcessIdentity) -> bool:
    """Return True if that very process still runs."""
    if not process.is_local and process.lock:
        return is_held(lock_folder() / process.lock)
    _require_local(process)
    found = observe_process(process.pid)
    return found is not None and found.start_ticks == process.start_ticks


def _require_local(process: ProcessIdentity) -> None:
    if not process.is_local:
        raise FabricError(
            f"process {process.pid} is of another PID or time namespace: its state is unknown here",
            hint="run the command where it was started, or remove the lab: mrc-testbed down",
        )


def find_marked(lab: str, folder: str | None = None) -> tuple[ProcessIdentity, ...]:
    """Processes that bear the mark of *lab*, but for the calling one and its ancestors.

    Args:
        folder: `folder_id` of the lab's state folder, or ANY_FOLDER; None: this one. Processes of a lab of
            that name in a container may be seen from here.
    """
    folder = folder_id(state_root()) if folder is None else folder
    spared = _own_ancestry()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) in spared:
            continue
        if _bears_mark(int(entry.name), lab, folder):
            identity = observe_process(int(entry.name))
            if identity:
                found.append(identity)
    return tuple(found)


def _bears_mark(pid: int, lab: str, folder: str) -> bool:
    mark = f"{_MARK}={lab}".encode()
    for entry in _environment(pid):
        known, _, marked_folder = entry.partition(b"@")
        if known == mark:
            return folder == ANY_FOLDER or marked_folder in {b"", folder.encode()}
    return False


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return []  # more privileged than we are, hence not of our making; or just gone


def stop_processes(processes: Iterable[ProcessIdentity], grace_ns: int) -> None:
    """Asks all to end, waits up to *grace_ns* for all together, then kills those that stay."""
    _end(processes, ((signal.SIGTERM, grace_ns), (signal.SIGKILL, KILLED_NS)))


def kill_processes(processes: Iterable[ProcessIdentity]) -> None:
    """Kills all at once, without asking; returns when they are gone."""
    _end(processes, ((signal.SIGKILL, KILLED_NS),))


def signal_process(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Return True if *process* still runs, and so got the signal."""
    descriptor = _open_process(process)
    if descriptor is None:
        return False
    try:
        _send(descriptor, number)
    finally:
        os.close(descriptor)
    return True


def freeze(process: ProcessIdentity) -> None:
    """Stops a process where it is; returns when it stands still, or is no more."""
    deadline_ns = monotonic_ns() + _FREEZE_NS
    if not signal_process(process, signal.SIGSTOP):
        return
    # No event informs a process that is not the parent that a process has stopped; it takes as long as a
    # system call does.
    while is_alive(process) and not is_stopped(process):
        if monotonic_ns() >= deadline_ns:
            raise FabricError(f"process {process.pid} does not stop")
        os.sched_yield()


def is_stopped(process: ProcessIdentity) -> bool:
    """Return True if that very process is seen to run, and to have been stopped by a signal."""
    fields = _stat_fields(process.pid)
    if fields is None or not process.is_local:
        return False
    return int(fields[_STAT_START]) == process.start_ticks and fields[_STAT_STATE] == "T"


def _end(processes: Iterable[ProcessIdentity], steps: Iterable[tuple[signal.Signals, int]]) -> None:
    """Sends each signal in turn to those that still run, and waits so many ns for all together."""
    descriptors = {}
    try:
        for process in processes:
            descriptor = _open_process(process)
            if descriptor is not None:
                descriptors[descriptor] = process
        remaining = set(descriptors)
        for number, wait_ns in steps:
            for descriptor in remaining:
                _send(descriptor, number)
                _send(descriptor, signal.SIGCONT)  # one that stands still would not receive it
            remaining = _wait_for_exit(remaining, wait_ns)
            if not remaining:
                break
        if remaining:
            pids = ", ".join(str(descriptors[descriptor].pid) for descriptor in remaining)
            raise CleanupError(f"processes survive SIGKILL: {pids}")
        for process in descriptors.values():
            # The exit status of a child of ours is collected
            try:
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG)
            except OSError as error:
                if error.errno != errno.ECHILD:
                    raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _open_process(process: ProcessIdentity) -> int | None:
    _require_local(process)
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    # The pid may have been recycled before the descriptor was ours, not after.
    if is_alive(process):
        return descriptor
    os.close(descriptor)
    return None


def _send(descriptor: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return


def _wait_for_exit(descriptors: set[int], wait_ns: int) -> set[int]:
    """Those of *descriptors* whose process still runs after *wait_ns*."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    remaining = set(descriptors)
    deadline_ns = monotonic_ns() + wait_ns
    while remaining and (left_ns := deadline_ns - monotonic_ns()) > 0:
        for descriptor, _ in poll.poll(left_ns / 1e6):
            poll.unregister(descriptor)
            remaining.discard(descriptor)
    return remaining


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(") ")[2].split()


def _own_ancestry() -> frozenset[int]:
    pids = []
    pid = os.getpid()
    while pid > 0:
        pids.append(pid)
        fields = _stat_fields(pid)
        pid = int(fields[_STAT_PARENT]) if fields else 0
    return frozenset(pids)


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
