"""Applies and clears the faults of one lab: ledger first, then the lab, then the event.

Several processes may inject into one lab (a runner, commands by hand, the keeper). Each change happens under
the ledger's lock and recomputes the ports it touches from all entries, so nobody wipes anybody's fault.
"""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from testbed.errors import CleanupError, FaultError, TestbedError
from testbed.fabric.process import ProcessIdentity
from testbed.faults.effect import Fault, PortSetting, compose, compose_carriers
from testbed.faults.flap import Flap
from testbed.faults.ledger import Entry, Ledger, Phase

Action = Literal["applied", "cleared"]


@dataclass(frozen=True, slots=True)
class PortDrops:
    """Frames that faults took at one egress port since they began to act there.

    Attributes:
        port_id: the egress port.
        count: frames lost.
        data_count: those of them that carried data: not SACKs, not probes.
        first_ns, last_ns: CLOCK_MONOTONIC of the first and the last that carried data; 0 if none did.
    """

    port_id: int
    count: int
    data_count: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """What was really done when; times are CLOCK_MONOTONIC.

    Attributes:
        action: the fault began or ceased to act; a flap does both at each outage.
        fault_id: its id.
        kind: its kind.
        links: names of its links.
        before_ns: just before the first port changed.
        after_ns: just after the last port changed.
        drops: with `cleared`, what its ports lost while it acted, faults it overlapped with included.
    """

    action: Action
    fault_id: str
    kind: str
    links: tuple[str, ...]
    before_ns: int
    after_ns: int
    drops: tuple[PortDrops, ...] = ()

    def as_record(self) -> dict[str, Any]:
        """The event as a line of events.jsonl."""
        return {"time_ns": self.after_ns, "event": f"fault-{self.action}", **dataclasses.asdict(self)}


class FaultTarget(Protocol):
    """What an injector needs of a lab."""

    def write_port(self, port_id: int, setting: PortSetting) -> None:
        """Makes an egress port behave as *setting* says, from the next frame on."""

    def reset_drops(self, port_id: int) -> None:
        """Starts the port's account of lost frames, and its sequence of random drops, anew."""

    def read_drops(self, port_id: int) -> PortDrops:
        """The port's account of lost frames."""

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down; returns when the kernel has done it."""


class Injector:
    """Injects into one lab.

    Args:
        ledger: the lab's ledger.
        target: the lab.
        clock_ns: CLOCK_MONOTONIC in ns.
    """

    def __init__(
        self, ledger: Ledger, target: FaultTarget, *, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._ledger = ledger
        self._target = target
        self._clock_ns = clock_ns

    def apply(
        self, fault: Fault, *, owner: ProcessIdentity | None = None, expires_ns: int | None = None
    ) -> FaultEvent:
        """The event of *fault* having begun.

        Args:
            fault: what to inject.
            owner: the process with which the fault dies; None for none.
            expires_ns: CLOCK_MONOTONIC at which the keeper reverts it whatever happens.

        Raises:
            FaultError: the id is taken, or the lab could not be changed; nothing is left behind then.
        """
        with self._ledger.locked():
            entries = self._enter(Entry(fault, self._clock_ns(), expires_ns, owner, phase=Phase.OFF))
            entry = entries[fault.fault_id]
            try:
                self._reset_drops(entries, fault)
                return self._switch(entries, entry, Phase.ON)
            except BaseException as error:
                self._remove(entries, entry)
                if isinstance(error, TestbedError):
                    raise FaultError(f"fault {fault.fault_id!r} could not be applied: {error}") from error
                raise

    def schedule(self, fault: Fault, flap: Flap, *, expires_ns: int | None) -> None:
        """Enters a flap into the ledger, healthy at first; the keeper switches it in its rhythm.

        Raises:
            FaultError: the id is taken.
        """
        with self._ledger.locked():
            entries = self._enter(Entry(fault, self._clock_ns(), expires_ns, flap=flap, phase=Phase.OFF))
            self._reset_drops(entries, fault)

    def switch(self, fault_id: str, phase: Phase) -> FaultEvent | None:
        """The event of a flap having gone down or come back; None when it was so already or is gone."""
        with self._ledger.locked():
            entries = self._ledger.entries()
            entry = entries.get(fault_id)
            if entry is None or entry.phase in (phase, Phase.CLEARING):
                return None
            return self._switch(entries, entry, phase)

    def clear(self, fault_id: str) -> FaultEvent:
        """The event of the fault having ended.

        Raises:
            FaultError: no such fault is active.
            CleanupError: the lab could not be restored; the entry stays and is tried again later.
        """
        with self._ledger.locked():
            entries = self._ledger.entries()
            if fault_id not in entries:
                known = ", ".join(entries) or "none is active"
                raise FaultError(f"no fault {fault_id!r} is active (known: {known})")
            return self._remove(entries, entries[fault_id])

    def clear_all(self) -> list[FaultEvent]:
        """Events of all faults having ended, newest first.

        Raises:
            CleanupError: some could not be reverted; all were tried.
        """
        return self._clear_where(lambda _: True)

    def clear_stale(self) -> list[FaultEvent]:
        """Events of faults that outlived their time or their owner having ended.

        Raises:
            CleanupError: some could not be reverted; all were tried.
        """
        return self._clear_where(lambda entry: entry.is_stale(self._clock_ns()))

    def clear_owned(self, owner: ProcessIdentity) -> list[FaultEvent]:
        """Events of the faults of *owner* having ended.

        Raises:
            CleanupError: some could not be reverted; all were tried.
        """
        return self._clear_where(lambda entry: entry.owner == owner)

    def entries(self) -> list[Entry]:
        """What is injected now, oldest first."""
        return list(self._ledger.entries().values())

    def _enter(self, entry: Entry) -> dict[str, Entry]:
        entries = self._ledger.entries()
        fault_id = entry.fault.fault_id
        if fault_id in entries:
            raise FaultError(
                f"fault {fault_id!r} is active already",
                hint=f"clear it with `mrc-testbed fault clear {fault_id}`, or choose another id",
            )
        self._ledger.write(entry)
        entries[fault_id] = entry
        return entries

    def _clear_where(self, concerns: Callable[[Entry], bool]) -> list[FaultEvent]:
        events: list[FaultEvent] = []
        failures: list[TestbedError] = []
        with self._ledger.locked():
            entries = self._ledger.entries()
            for entry in reversed(list(entries.values())):
                if not concerns(entry):
                    continue
                try:
                    events.append(self._remove(entries, entry))
                except TestbedError as error:
                    failures.append(error)
        if failures:
            raise CleanupError("; ".join(str(error) for error in failures)) from failures[0]
        return events

    def _switch(self, entries: dict[str, Entry], entry: Entry, phase: Phase) -> FaultEvent:
        fault = entry.fault
        entry = dataclasses.replace(entry, phase=phase)
        self._ledger.write(entry)
        entries[fault.fault_id] = entry
        return self._settle(entries, fault, "applied" if phase is Phase.ON else "cleared")

    def _reset_drops(self, entries: dict[str, Entry], fault: Fault) -> None:
        """Starts the accounts of the ports of *fault* anew where no other fault counts."""
        taken = {port for other in _acting(entries) for port in other.ports()}
        for port_id in fault.ports() - taken:
            self._target.reset_drops(port_id)

    def _remove(self, entries: dict[str, Entry], entry: Entry) -> FaultEvent:
        fault = entry.fault
        entry = dataclasses.replace(entry, phase=Phase.CLEARING)
        self._ledger.write(entry)
        entries[fault.fault_id] = entry
        try:
            event = self._settle(entries, fault, "cleared")
        except TestbedError as error:
            raise CleanupError(f"fault {fault.fault_id!r} could not be reverted: {error}") from error
        self._ledger.remove(fault.fault_id)
        del entries[fault.fault_id]
        return event

    def _settle(self, entries: dict[str, Entry], fault: Fault, action: Action) -> FaultEvent:
        """Brings the ports of *fault* in line with all acting faults."""
        acting = _acting(entries)
        ports = sorted(fault.ports())
        settings = {port_id: compose(acting, port_id) for port_id in ports}
        carriers = compose_carriers(acting, fault.carrier_ports)
        before_ns = self._clock_ns()
        for port_id, setting in settings.items():
            self._target.write_port(port_id, setting)
        for port_id, is_up in carriers.items():
            self._target.set_carrier(port_id, is_up=is_up)
        after_ns = self._clock_ns()
        drops = tuple(self._target.read_drops(port_id) for port_id in ports) if action == "cleared" else ()
        event = FaultEvent(action, fault.fault_id, fault.kind, fault.links, before_ns, after_ns, drops)
        self._ledger.record(event.as_record())
        return event


def _acting(entries: dict[str, Entry]) -> list[Fault]:
    return [entry.fault for entry in entries.values() if entry.phase is Phase.ON]
