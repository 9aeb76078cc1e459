"""Takes a lab away, whatever state it is in.

What to remove is the ledger, read backwards, together with everything that bears the lab's mark: so a lab
that was killed while it was built, or whose folder is gone, goes as completely as a healthy one. Order:
processes, nodes (and with them links, addresses, XDP programs), pins, files. A failure does not stop the
rest.
"""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from mrc_testbed.errors import CleanupError, TestbedError
from mrc_testbed.fabric.file_systems import labs_with_pins, remove_pins, unmount_node_folders
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.plan import created_nodes_backwards, read_ledger
from mrc_testbed.fabric.process import find_marked, stop_processes
from mrc_testbed.fabric.runtime import Runtime

_GRACE_NS: Final = 2_000_000_000
"""An agent ends within milliseconds of SIGTERM; two seconds are for a machine under load."""

_ROUNDS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Remains:
    pids: tuple[int, ...]  # processes that bear its mark
    nodes: tuple[str, ...]  # nodes with a container or a network namespace
    has_pins: bool  # whether it has a folder of pins

    def __bool__(self) -> bool:
        return bool(self.pids or self.nodes or self.has_pins)

    def describe(self) -> str:
        """The remains in words, for an error message."""
        parts = []
        if self.pids:
            parts.append(f"processes {_some(self.pids)}")
        if self.nodes:
            parts.append(f"nodes {_some(self.nodes)}")
        if self.has_pins:
            parts.append("pinned BPF maps")
        return ", ".join(parts)


def observe_remains(paths: LabPaths, runtime: Runtime, folder: str | None = None) -> Remains:
    """The remains of the lab, found by marks, labels and names; *folder* as `find_marked` has it."""
    return Remains(
        pids=tuple(process.pid for process in find_marked(paths.lab, folder)),
        nodes=runtime.find_nodes(),
        has_pins=paths.lab in labs_with_pins(paths.bpffs),
    )


def remove(paths: LabPaths, runtime: Runtime, folder: str | None = None, *, keep_lock: bool = False) -> None:
    """Removes everything of the lab; what does not exist is success. The caller holds the lab's lock.

    Args:
        folder: whose processes are ended, as `find_marked` has it.
        keep_lock: leave the locked file and its folder, for a lab that is to be built next.
    """
    failures: list[Exception] = []

    def attempt(work: Callable[[], None]) -> None:
        try:
            work()
        except ExceptionGroup as group:
            failures.extend(group.exceptions)
        except (TestbedError, OSError) as error:
            failures.append(error)

    attempt(lambda: _stop_all(paths.lab, folder))
    nodes = dict.fromkeys((*created_nodes_backwards(read_ledger(paths.ledger_file)), *runtime.find_nodes()))
    attempt(lambda: runtime.delete_nodes(tuple(nodes)))
    attempt(lambda: remove_pins(paths))
    if not failures:
        # Last, because as long as the folder exists `names` lists the lab and `down` has its ledger.
        attempt(lambda: _clear_folder(paths, keep_lock=keep_lock))
    if failures:
        raise CleanupError(
            f"lab {paths.lab!r} is not completely removed:\n"
            + "\n".join(f"- {failure}" for failure in failures),
            hint=f"fix the cause, then: mrc-testbed down -n {paths.lab}",
        )


def _stop_all(lab: str, folder: str | None) -> None:
    """Ends all processes of a lab, also those that another one started while it was being ended."""
    for _ in range(_ROUNDS_MAX):
        found = find_marked(lab, folder)
        if not found:
            return
        stop_processes(found, _GRACE_NS)


def _clear_folder(paths: LabPaths, *, keep_lock: bool) -> None:
    unmount_node_folders(paths.nodes_folder)
    records = {paths.ledger_file, paths.state_file}  # last: a failure leaves the lab known
    for entry in sorted(paths.folder.iterdir(), key=lambda entry: entry in records):
        if entry == paths.lock_file:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if not keep_lock:
        paths.lock_file.unlink()
        paths.folder.rmdir()


def _some(items: Iterable[object], shown_count: int = 5) -> str:
    listed = [str(item) for item in items]
    more = f" and {len(listed) - shown_count} more" if len(listed) > shown_count else ""
    return ", ".join(listed[:shown_count]) + more
