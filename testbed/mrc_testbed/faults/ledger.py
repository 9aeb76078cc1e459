"""The fault ledger of a lab: what is injected right now, on disk, written before the lab is touched.

    <lab state>/faults/lock            held while the ledger and the lab's maps change together; never while
                                       a host is asked for anything
    <lab state>/faults/active/ID.json  one file per fault, replaced in one step
    <lab state>/faults/leases/PROCESS    of a runner: its faults end with that process
    <lab state>/faults/events.jsonl    what was done when
    <lab state>/faults/hidden.jsonl    the same of hidden faults, and what commands named meanwhile
    <lab state>/faults/reaper.lock     held by the reaper process while there is one

Whoever finds an entry whose lease or time is over reverts it: the reaper of the lab within milliseconds,
otherwise the next command that looks at the lab's faults.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, with_config

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FaultError
from mrc_testbed.fabric.fault_log import HIDDEN_FILE
from mrc_testbed.fabric.folder_watch import FolderWatch
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.process import ProcessIdentity, is_alive, owner_identity
from mrc_testbed.fabric.state_file import PRIVATE_FILE, PRIVATE_FOLDER, append_private, write_private
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.schedule import Schedule

LEDGER_VERSION: Final = 4


class FaultPhase(StrEnum):
    ON = "on"
    CLEARING = "clearing"
    """Being removed: the lab may or may not still be changed by it."""


@with_config(ConfigDict(defer_build=True))
@dataclass(frozen=True, slots=True)
class Entry:
    """One injected fault."""

    fault: ScheduledFault  # what it does
    schedule: Schedule  # when
    # the process with which it ends; None: injected by hand, outlives its command
    lease: ProcessIdentity | None = None
    phase: FaultPhase = FaultPhase.ON  # whether it counts now
    rule_index: int = 0  # which of the rules of its ports is its own
    # the process that asks hosts on its behalf right now; None for none
    changed_by: ProcessIdentity | None = None
    unreached: tuple[str, ...] = ()  # hosts that did not answer, or stood still, and are to be asked again

    @property
    def is_being_changed(self) -> bool:
        return self.changed_by is not None and is_alive(self.changed_by)

    def is_acting(self, now_ns: int) -> bool:
        return self.phase is FaultPhase.ON and self.schedule.is_acting(now_ns)

    def is_on(self, now_ns: int) -> bool:
        """Return True if it is injected, between the outages of a flap too."""
        return self.phase is FaultPhase.ON and not self.schedule.is_over(now_ns)

    def is_stale(self, now_ns: int) -> bool:
        """Return True if it is to be reverted: half cleared, over its time, or its lease is."""
        return (
            self.phase is FaultPhase.CLEARING
            or self.schedule.is_over(now_ns)
            or (self.lease is not None and not is_alive(self.lease))
        )


_ENTRY: Final = TypeAdapter(Entry)


class Ledger:
    """The ledger of one lab.

    Args:
        folder: the `faults` folder in the lab's state folder; `create` makes it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.active_folder = folder / "active"
        self.leases_folder = folder / "leases"
        self.events_path = folder / "events.jsonl"
        self.hidden_path = folder / HIDDEN_FILE
        self.reaper_lock = folder / "reaper.lock"
        self._known: dict[Path, tuple[str, Entry]] = {}

    def create(self) -> None:
        """Makes the ledger's folders."""
        try:
            for folder in (self.folder, self.active_folder, self.leases_folder):
                folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        except FileNotFoundError as error:
            raise FaultError(f"lab {self.folder.parent.name!r} is gone") from error

    def worker(self) -> ProcessIdentity:
        """The calling process, as others may ask whether it still works on an entry."""
        return owner_identity()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps every other process from changing faults of the lab."""
        self.create()
        with exclusive(self.folder / "lock", "a fault", wait=True):
            yield

    def entries(self) -> dict[str, Entry]:
        """The entries by fault id, oldest first; empty when there is no ledger."""
        found = []
        for path in self.active_folder.glob("*.json"):
            try:
                # A text that is known already need not be parsed again
                text = path.read_text(encoding="utf-8")
                known = self._known.get(path)
                if known is None or known[0] != text:
                    known = self._known[path] = text, _decode(json.loads(text))
                found.append(known[1])
            except FileNotFoundError:
                continue  # cleared between the listing and the reading
            except (KeyError, TypeError, ValueError) as error:
                raise FaultError(
                    f"{path} is no fault ledger entry of version {LEDGER_VERSION}: {error}",
                    hint="`mrc-testbed down` removes the lab with its ledger",
                ) from error
        return {
            entry.fault.fault_id: entry for entry in sorted(found, key=lambda entry: entry.schedule.begin_ns)
        }

    def shown_entries(self) -> dict[str, Entry]:
        """Those that people may see, likewise: all but the hidden ones."""
        return {name: entry for name, entry in self.entries().items() if not entry.fault.is_hidden}

    def write(self, entry: Entry) -> None:
        """Stores *entry* in one step, in place of an older one with the same fault id."""
        path = self.entry_path(entry.fault.fault_id)
        tree = {"version": LEDGER_VERSION, "entry": _ENTRY.dump_python(entry, mode="json")}
        text = json.dumps(tree, indent=1)
        write_private(path, text)

    def remove(self, fault_id: str) -> None:
        self.entry_path(fault_id).unlink(missing_ok=True)

    def take_lease(self, process: ProcessIdentity) -> None:
        """Has the reaper watch a process that will inject faults from now on."""
        with self.locked():
            (self.leases_folder / process.to_text()).touch(PRIVATE_FILE)

    def end_lease(self, process: ProcessIdentity) -> None:
        (self.leases_folder / process.to_text()).unlink(missing_ok=True)

    def leases(self) -> list[ProcessIdentity]:
        """Processes that took a lease, alive or not."""
        return [ProcessIdentity.from_text(path.name) for path in self.leases_folder.glob("*-*")]

    def record(self, event: dict[str, Any]) -> None:
        path = self.hidden_path if event.get("is_hidden") else self.events_path
        with append_private(path) as stream:
            stream.write(json.dumps(event, separators=(",", ":")) + "\n")

    def reveal(self) -> list[dict[str, Any]]:
        """The events of hidden faults, oldest first; from now on they are shown like all others."""
        with self.locked():
            for entry in self.entries().values():
                self.write(replace(entry, fault=replace(entry.fault, is_hidden=False)))
            hidden = read_lines(self.hidden_path)
            with append_private(self.events_path) as stream:
                stream.writelines(f"{json.dumps(event)}\n" for event in hidden)
            self.hidden_path.unlink(missing_ok=True)
        return hidden

    def wait_while_changed(self, fault_id: str, deadline_ns: int) -> None:
        """Returns when no process is changing the entry, or at *deadline_ns* (CLOCK_MONOTONIC)."""
        entry = self.entries().get(fault_id)
        if entry is None or not entry.is_being_changed:
            return
        with FolderWatch((self.active_folder,)) as watch:
            while (entry := self.entries().get(fault_id)) is not None and entry.is_being_changed:
                if monotonic_ns() >= deadline_ns:
                    return
                watch.wait([entry.changed_by] if entry.changed_by else [], deadline_ns)

    def entry_path(self, fault_id: str) -> Path:
        """The file of an entry, whether there is one or not."""
        return self.active_folder / f"{fault_id}.json"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of JSON lines; none without a file."""
    lines = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):  # a line that a full disk cut short
                lines.append(json.loads(line))
    return lines


def _decode(tree: dict[str, Any]) -> Entry:
    if tree["version"] != LEDGER_VERSION:
        raise ValueError(f"version {tree['version']}")
    return _ENTRY.validate_python(tree["entry"])
