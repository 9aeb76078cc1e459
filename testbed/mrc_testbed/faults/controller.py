"""Applies and clears the faults of one lab: ledger first, then the lab, then the event.

Several processes may inject into one lab (a runner, commands by hand, the reaper). Maps, interfaces and
processes change under the ledger's lock, and what faults share is recomputed from all entries, so nobody
wipes anybody's fault. What takes an answer (an agent that denies paths, one that starts, background traffic)
happens without the lock: a host that stands still keeps no other fault from ending.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from mrc_agents.abi import FaultLimit
from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import CleanupError, FaultError, TestbedError
from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.faults.effects import (
    Effect,
    FaultedLab,
    HostRequests,
    Rule,
    SharedEffect,
    absent_hosts,
    by_place,
    requests_of,
)
from mrc_testbed.faults.fault import FaultEvent, PortAccount, ScheduledFault, event_of
from mrc_testbed.faults.ledger import Entry, FaultPhase
from mrc_testbed.faults.rule import FrameRule, mix_seed
from mrc_testbed.faults.schedule import Flap, Schedule

CHANGE_TIMEOUT_NS: Final = 10_000_000_000
"""Longer than a process asks hosts on behalf of a fault."""


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


class _BeingChangedError(FaultError):
    """Another process asks hosts on behalf of the fault."""


class FaultController:
    """Injects into one lab."""

    def __init__(
        self, ledger: FaultLedger, target: FaultTarget, *, clock_ns: Callable[[], int] = monotonic_ns
    ) -> None:
        self._ledger = ledger
        self._target = target
        self._clock_ns = clock_ns
        self._process = ledger.worker()
        self._lease: ProcessIdentity | None = None

    def make_ready(self, faults: Iterable[ScheduledFault]) -> None:
        """Start what takes a while, so that each fault acts as soon as it is applied."""

    def apply(
        self,
        fault: ScheduledFault,
        *,
        lease: ProcessIdentity | None = None,
        end_ns: int | None = None,
        flap: Flap | None = None,
    ) -> FaultEvent:
        """The event of *fault* having begun.

        Args:
            lease: the process with which the fault ends; None for that of the controller, if it has one.
            end_ns: CLOCK_MONOTONIC at which it ends whatever happens.
            flap: the outages in which its rules act; None: all the time.
        """
        schedule = Schedule(self._clock_ns(), end_ns, flap)
        entry = Entry(fault, schedule, lease or self._lease, changed_by=self._process)
        with self._ledger.locked():
            self.require_new(fault)
            rule_index = _free_rule(self._ledger.entries(), fault)
            self._ledger.write(dataclasses.replace(entry, rule_index=rule_index))
        try:
            before_ns = self._put_in_force(fault)
            self._begin_on_hosts(fault)
        except BaseException as error:
            self._take_back(fault.fault_id)
            if isinstance(error, TestbedError):
                raise FaultError(f"fault {fault.fault_id!r} could not be applied: {error}") from error
            raise
        event = event_of(fault, "applied", before_ns, self._clock_ns())
        with self._ledger.locked():
            self._ledger.record(event.as_record())
            self._update(fault.fault_id, changed_by=None)
        return event

    def clear(self, fault_id: str, *, wait_ns: int = CHANGE_TIMEOUT_NS) -> FaultEvent:
        """The event of the fault having ended."""
        deadline_ns = self._clock_ns() + wait_ns
        while True:
            self._ledger.wait_while_changed(fault_id, deadline_ns)
            try:
                event = self._take_back(fault_id)
            except _BeingChangedError:
                if self._clock_ns() < deadline_ns:
                    continue
                raise
            self.ask_again()
            return event

    def clear_all(self) -> list[FaultEvent]:
        """Events of all faults having ended, newest first."""
        return self._clear(self.entries(), CHANGE_TIMEOUT_NS)

    def clear_stale(self) -> list[FaultEvent]:
        """Events of faults that outlived their time or their lease having ended."""
        return self._clear(self.stale_entries(), 0)

    def clear_leased(self, process: ProcessIdentity) -> list[FaultEvent]:
        """Events of the faults under the lease of *process* having ended."""
        leased = [entry for entry in self.entries() if entry.lease == process]
        return self._clear(leased, CHANGE_TIMEOUT_NS)

    def entries(self) -> list[Entry]:
        return list(self._ledger.entries().values())

    def stale_entries(self) -> list[Entry]:
        """Those to be reverted now, oldest first; not those that only wait for a host that stands still."""
        entries = self.entries()
        now_ns = self._clock_ns()
        return [entry for entry in entries if entry.is_stale(now_ns) and _can_go_on(entries, entry)]

    def entries_to_ask_again(self) -> list[Entry]:
        """Those in force that have not reached a host which may answer now."""
        entries = self.entries()
        return [
            entry
            for entry in entries
            if entry.phase is FaultPhase.ON and entry.unreached and _can_go_on(entries, entry)
        ]

    def ask_again(self) -> None:
        """Asks hosts that stood still when a fault began and run again."""
        for entry in self.entries_to_ask_again():
            fault_id = entry.fault.fault_id
            with self._ledger.locked():
                now = self._ledger.entries().get(fault_id)
                if now is None or now.is_being_changed or now.phase is not FaultPhase.ON:
                    continue  # another process has come first
                self._update(fault_id, changed_by=self._process)
            self._ask_hosts(entry.fault)
            with self._ledger.locked():
                self._update(fault_id, changed_by=None)

    def require_new(self, fault: ScheduledFault) -> None:
        """Returns when no fault has its id, or does what it does."""
        fault_id = fault.fault_id
        entries = self._ledger.entries()
        if fault_id in entries:
            raise FaultError(
                f"fault {fault_id!r} is active already",
                hint=f"clear it with `mrc-testbed fault clear {fault_id}`, or choose another id",
            )
        for other in entries.values():
            if other.fault.does_the_same_as(fault):
                raise FaultError(
                    f"fault {fault_id!r} would have the same effect as {other.fault.fault_id!r}",
                    hint="change where or how strongly it acts, or clear the other one first",
                )

    def _acting(self) -> list[Effect]:
        """Effects of all faults that are in force."""
        entries = self._ledger.entries().values()
        return [effect for entry in entries if entry.phase is FaultPhase.ON for effect in entry.fault.effects]

    def _put_in_force(self, fault: ScheduledFault) -> int:
        """Does all that takes no answer of a host; CLOCK_MONOTONIC just before."""
        with self._ledger.locked():
            entry = self._ledger.entries()[fault.fault_id]  # nobody clears what this process is changing
            acting = by_place(self._acting())
            before_ns = self._clock_ns()
            effects = [effect for effect in fault.effects if isinstance(effect, Rule | SharedEffect)]
            for effect in sorted(effects, key=lambda effect: effect.begin_order):
                if isinstance(effect, Rule):
                    seed = mix_seed(fault.seed, effect.port_id)
                    self._target.set_rule(effect.port_id, entry.rule_index, effect.rule, seed, entry.schedule)
                else:
                    effect.settle(self._target, acting.get(effect.place, ()))
        return before_ns

    def _revert(self, entry: Entry) -> tuple[PortAccount, ...]:
        """Under the lock: all that takes no answer of a host."""
        acting = by_place(self._acting())
        accounts = []
        effects = [effect for effect in entry.fault.effects if isinstance(effect, Rule | SharedEffect)]
        for effect in sorted(effects, key=lambda effect: effect.end_order):
            if isinstance(effect, Rule):
                accounts.append(self._target.clear_rule(effect.port_id, entry.rule_index))
            else:
                effect.settle(self._target, acting.get(effect.place, ()))
        return tuple(sorted(accounts, key=lambda account: account.port_id))

    def _begin_on_hosts(self, fault: ScheduledFault) -> None:
        """Run the host part of a fault in force; hosts that stand still are asked later."""
        if not fault.asks_hosts:
            return
        if fault.loads:
            self._target.start_load(fault)
        reasons = self._ask_hosts(fault)
        if reasons:
            raise FaultError("; ".join(reasons.values()))

    def _ask_hosts(self, fault: ScheduledFault) -> Mapping[str, str]:
        """Asks until what was asked for is still wanted; why hosts that do run could not be reached.

        Writes into the entry of *fault* whom to ask again, or removes one that is being cleared.
        """
        while True:
            with self._ledger.locked():
                requests = requests_of(self._acting(), fault.effects)
                self._update(fault.fault_id, changed_by=self._process)
            reasons = self._target.ask_hosts(requests)
            with self._ledger.locked():
                if requests_of(self._acting(), fault.effects) != requests:
                    continue
                entry = self._update(fault.fault_id, unreached=tuple(reasons))
                if entry is not None and entry.phase is FaultPhase.CLEARING:
                    self._update(fault.fault_id, changed_by=None)
                    if not reasons:
                        self._ledger.remove(fault.fault_id)
            return {host: reason for host, reason in reasons.items() if host not in requests.absent}

    def _update(self, fault_id: str, **changes: Any) -> Entry | None:
        """Under the lock: the entry as changed; None when it is gone."""
        entry = self._ledger.entries().get(fault_id)
        if entry is not None:
            entry = dataclasses.replace(entry, **changes)
            self._ledger.write(entry)
        return entry

    def _clear(self, concerned: Iterable[Entry], wait_ns: int) -> list[FaultEvent]:
        """Reverts faults, newest first, but for those that another process is still changing."""
        events: list[FaultEvent] = []
        failures: list[TestbedError] = []
        for entry in reversed(list(concerned)):
            fault_id = entry.fault.fault_id
            self._ledger.wait_while_changed(fault_id, self._clock_ns() + wait_ns)
            now = self._ledger.entries().get(fault_id)
            if now is None or now.is_being_changed:
                continue
            try:
                events.append(self._take_back(fault_id))
            except CleanupError as error:
                failures.append(error)
            except FaultError:
                continue  # another process has just cleared it, or does so
        if events:
            self.ask_again()
        if failures:
            raise CleanupError("; ".join(str(error) for error in failures)) from failures[0]
        return events

    def _take_back(self, fault_id: str) -> FaultEvent:
        with self._ledger.locked():
            entries = self._ledger.entries()
            found = entries.get(fault_id)
            if found is None:
                shown = (name for name, entry in entries.items() if not entry.fault.is_hidden)
                known = ", ".join(shown) or "none is active"
                raise FaultError(f"no fault {fault_id!r} is active (known: {known})")
            if found.is_being_changed and found.changed_by != self._process:
                raise _BeingChangedError(
                    f"fault {fault_id!r} is being changed by another process", hint="try again"
                )
            fault = found.fault
            entry = dataclasses.replace(found, phase=FaultPhase.CLEARING, changed_by=None)
            self._ledger.write(entry)
            before_ns = self._clock_ns()
            try:
                accounts = self._revert(entry)
            except TestbedError as error:
                raise CleanupError(f"fault {fault_id!r} could not be reverted: {error}") from error
            if not fault.asks_hosts:
                self._ledger.remove(fault_id)
            else:
                self._ledger.write(dataclasses.replace(entry, changed_by=self._process))
        reasons: Mapping[str, str] = {}
        if fault.asks_hosts:
            sent, reasons = self._end_on_hosts(fault)
            accounts += tuple(PortAccount(port_id, count, count, 0, 0, 0) for port_id, count in sent.items())
        after_ns = self._clock_ns()
        end_ns = entry.schedule.end_ns
        if fault.ends_in_kernel and end_ns is not None and end_ns < before_ns:
            before_ns = after_ns = end_ns
        event = event_of(fault, "cleared", before_ns, after_ns, accounts)
        if found.phase is FaultPhase.ON or not found.unreached:  # else it is recorded: a host was asked again
            with self._ledger.locked():
                self._ledger.record(event.as_record())
        if reasons:
            raise CleanupError(f"fault {fault_id!r} could not be reverted: {'; '.join(reasons.values())}")
        return event

    def _end_on_hosts(self, fault: ScheduledFault) -> tuple[Mapping[int, int], Mapping[str, str]]:
        """End the host part; returns bytes of background traffic by port id, and errors of running hosts."""
        try:
            sent = self._target.stop_load(fault.fault_id) if fault.loads else {}
            return sent, self._ask_hosts(fault)
        except BaseException as error:
            with self._ledger.locked():
                self._update(fault.fault_id, changed_by=None)
            if isinstance(error, TestbedError):
                raise CleanupError(f"fault {fault.fault_id!r} could not be reverted: {error}") from error
            raise


def _can_go_on(entries: Iterable[Entry], entry: Entry) -> bool:
    """Return True if no process works on *entry*, and a host that it has to reach may respond."""
    if entry.is_being_changed:
        return False
    acting = (effect for other in entries if other.phase is FaultPhase.ON for effect in other.fault.effects)
    absent = absent_hosts(acting)
    return not entry.unreached or not absent.issuperset(entry.unreached)


def _free_rule(entries: dict[str, Entry], fault: ScheduledFault) -> int:
    """An index that no other fault uses at a port of *fault*."""
    ports = fault.ports
    taken = {entry.rule_index for entry in entries.values() if entry.fault.ports & ports}
    for index in range(FaultLimit.RULES):
        if index not in taken:
            return index
    raise FaultError(
        f"fault {fault.fault_id!r}: its ports have {FaultLimit.RULES} faults already, the maximum",
        hint="clear one of them: mrc-testbed fault list",
    )
