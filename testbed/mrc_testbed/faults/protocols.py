"""The interface of a lab and of its ledger for a controller of faults."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.faults.effects import FaultedLab, HostRequests
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.fault_event import PortAccount
from mrc_testbed.faults.ledger import Entry
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.schedule import Schedule


class FaultTarget(FaultedLab, Protocol):
    """The interface of a lab for a controller. Calls return when it has happened; each may be repeated."""

    def set_rule(self, port_id: int, index: int, rule: FrameRule, seed: int, schedule: Schedule) -> None:
        """Lets a rule act on the frames that leave a port, with a new account; *seed* has 32 bits."""

    def clear_rule(self, port_id: int, index: int) -> PortAccount:
        """The account of a rule that acts no more; an empty one if there was none."""

    def ask_hosts(self, requests: HostRequests) -> Mapping[str, str]:
        """Hosts that could not be reached, absent ones among them, with the reason."""

    def start_load(self, fault: ScheduledFault) -> None:
        """Lets the background traffic of a fault flow that is in the ledger."""

    def stop_load(self, fault_id: str) -> dict[int, int]:
        """Frames sent by port id, now that the background traffic of a fault flows no more."""


class FaultLedger(Protocol):
    """The interface of a Ledger for a controller."""

    def worker(self) -> ProcessIdentity:
        """The calling process, as others may ask whether it still works on an entry."""

    def locked(self) -> AbstractContextManager[None]:
        """Keeps everybody else from changing faults of the lab."""

    def entries(self) -> dict[str, Entry]:
        """The entries by fault id, oldest first."""

    def write(self, entry: Entry) -> None:
        """Stores *entry*, in place of an older one with the same fault id."""

    def remove(self, fault_id: str) -> None: ...

    def record(self, event: dict[str, Any]) -> None:
        """Notes what was done when."""

    def wait_while_changed(self, fault_id: str, deadline_ns: int) -> None:
        """Returns when no process is changing the entry, or at *deadline_ns* (CLOCK_MONOTONIC)."""
