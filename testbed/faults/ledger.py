"""The fault ledger of a lab: what is injected right now, on disk, written before the lab is touched.

    <lab state>/faults/lock            held while the ledger and the port table change together
    <lab state>/faults/active/ID.json  one file per fault, replaced in one step
    <lab state>/faults/owners/PID-START  a runner that will inject faults; gone, or its process dead: orphans
    <lab state>/faults/events.jsonl    what was done when
    <lab state>/faults/keeper.lock     held by the keeper process while there is one

Whoever finds an entry whose process died or whose time is over reverts it: the keeper process of the lab
within milliseconds, otherwise the next command that looks at the lab's faults.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from testbed.errors import FaultError
from testbed.fabric.lock import exclusive
from testbed.fabric.process import ProcessIdentity, is_alive, observe_process
from testbed.faults.effect import Fault
from testbed.faults.flap import Flap

LEDGER_VERSION: Final = 2


class Phase(StrEnum):
    """Whether an entry counts at the moment."""

    ON = "on"
    OFF = "off"
    """A flap between two outages."""
    CLEARING = "clearing"
    """Being removed: the port table may or may not still hold it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One injected fault.

    Attributes:
        fault: what it does.
        added_ns: CLOCK_MONOTONIC when it was added.
        expires_ns: when it must be gone; None: until cleared.
        owner: the runner it belongs to; None: injected by hand, outlives its command.
        flap: the rhythm in which the keeper switches it; None: constant, or switched by its owner.
        phase: whether it counts now.
        rule_index: which of the rules of its ports is its own.
    """

    fault: Fault
    added_ns: int
    expires_ns: int | None = None
    owner: ProcessIdentity | None = None
    flap: Flap | None = None
    phase: Phase = Phase.ON
    rule_index: int = 0

    def is_stale(self, now_ns: int) -> bool:
        """Whether it is to be reverted: half cleared, over its time, or its owner is dead."""
        return (
            self.phase is Phase.CLEARING
            or (self.expires_ns is not None and now_ns >= self.expires_ns)
            or (self.owner is not None and not is_alive(self.owner))
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
        self.owners_folder = folder / "owners"
        self.events_path = folder / "events.jsonl"
        self.keeper_lock = folder / "keeper.lock"

    def create(self) -> None:
        """Makes the ledger's folders.

        Raises:
            FaultError: the lab's state folder is gone.
        """
        try:
            self.folder.mkdir(exist_ok=True)
            self.active_folder.mkdir(exist_ok=True)
            self.owners_folder.mkdir(exist_ok=True)
        except FileNotFoundError as error:
            raise FaultError(f"lab {self.folder.parent.name!r} is gone") from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps every other process from changing faults of the lab."""
        self.create()
        with exclusive(self.folder / "lock", "a fault", wait=True):
            yield

    def entries(self) -> dict[str, Entry]:
        """The entries by fault id, oldest first; empty when there is no ledger.

        Raises:
            FaultError: a file of the ledger cannot be understood.
        """
        found = []
        for path in self.active_folder.glob("*.json"):
            try:
                found.append(_decode(json.loads(path.read_text(encoding="utf-8"))))
            except FileNotFoundError:
                continue  # cleared between the listing and the reading
            except (KeyError, TypeError, ValueError) as error:
                raise FaultError(
                    f"{path} is no fault ledger entry of version {LEDGER_VERSION}: {error}",
                    hint="`mrc-testbed down` removes the lab with its ledger",
                ) from error
        return {entry.fault.fault_id: entry for entry in sorted(found, key=lambda entry: entry.added_ns)}

    def write(self, entry: Entry) -> None:
        """Stores *entry* in one step, in place of an older one with the same fault id."""
        path = self.entry_path(entry.fault.fault_id)
        text = json.dumps(_encode(entry), indent=1)
        temporary = path.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)

    def remove(self, fault_id: str) -> None:
        """Forgets an entry."""
        self.entry_path(fault_id).unlink(missing_ok=True)

    def register(self, owner: ProcessIdentity) -> None:
        """Announces a process that will own faults, so that the keeper watches it from now on."""
        with self.locked():
            (self.owners_folder / _owner_name(owner)).touch()

    def unregister(self, owner: ProcessIdentity) -> None:
        """Takes an announcement back."""
        (self.owners_folder / _owner_name(owner)).unlink(missing_ok=True)

    def owners(self) -> list[ProcessIdentity]:
        """Processes that announced themselves, alive or not."""
        names = [path.name.partition("-") for path in self.owners_folder.glob("*-*")]
        return [ProcessIdentity(int(pid), int(ticks)) for pid, _, ticks in names]

    def record(self, event: dict[str, Any]) -> None:
        """Appends one event to events.jsonl."""
        line = json.dumps(event, separators=(",", ":")) + "\n"
        with self.events_path.open("a", encoding="utf-8") as stream:
            stream.write(line)

    def entry_path(self, fault_id: str) -> Path:
        """The file of an entry, whether there is one or not."""
        return self.active_folder / f"{fault_id}.json"


def own_identity() -> ProcessIdentity:
    """The calling process, as owner of faults.

    Raises:
        FaultError: it is not to be seen in /proc.
    """
    identity = observe_process(os.getpid())
    if identity is None:
        raise FaultError("this process is not in /proc", hint="mount /proc")
    return identity


def _owner_name(owner: ProcessIdentity) -> str:
    return f"{owner.pid}-{owner.start_ticks}"


def _encode(entry: Entry) -> dict[str, Any]:
    return {"version": LEDGER_VERSION, "entry": _ENTRY.dump_python(entry, mode="json")}


def _decode(tree: dict[str, Any]) -> Entry:
    if tree["version"] != LEDGER_VERSION:
        raise ValueError(f"version {tree['version']}")
    return _ENTRY.validate_python(tree["entry"])
