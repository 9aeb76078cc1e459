"""The fault ledger of a lab in virtual time: it dies with its process, and so do the faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mrc_testbed.fabric.process import ProcessIdentity, own_identity
from mrc_testbed.faults.ledger import Entry


class MemoryLedger:
    """The interface of a Ledger for an injector."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def worker(self) -> ProcessIdentity:
        """The calling process; nobody asks."""
        return own_identity()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: there is no other process."""
        yield

    def entries(self) -> dict[str, Entry]:
        return dict(self._entries)

    def write(self, entry: Entry) -> None:
        """Stores *entry*, in place of an older one with the same fault id."""
        self._entries[entry.fault.fault_id] = entry

    def remove(self, fault_id: str) -> None:
        self._entries.pop(fault_id, None)

    def record(self, event: dict[str, Any]) -> None:
        """A run's own record has the event."""

    def wait_while_changed(self, fault_id: str, deadline_ns: int) -> None:
        """Do nothing: no other process changes an entry."""
