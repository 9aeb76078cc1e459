"""Applies and clears the faults of one lab: ledger first, then the lab, then the event.

Several processes may inject into one lab (a runner, commands by hand, the keeper). Each change happens under
the ledger's lock and recomputes the ports it touches from all entries, so nobody wipes anybody's fault.
"""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agents.wire_abi import FaultLimit
from testbed.errors import CleanupError, FaultError, TestbedError
from testbed.fabric.process import ProcessIdentity
from testbed.faults.effect import Fault, SharedState, compose
from testbed.faults.flap import Flap
from testbed.faults.ledger import Entry, Ledger, Phase
from testbed.faults.rule import LOSING_ACTIONS, FrameRule, mix_seed

Action = Literal["applied", "cleared"]


@dataclass(frozen=True, slots=True)
class PortAccount:
    """What a fault did to the frames that left one port, since it began to act there.

    Attributes:
        port_id: the egress port.
        met: frames of those it is about.
        count: frames it hit; of background traffic, frames it sent.
        data_count: those of them that carried data: not SACKs, not probes.
        first_ns, last_ns: CLOCK_MONOTONIC of the first and the last that carried data; 0 if none did.
    """

    port_id: int
    met: int
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
        links: names of those concerned.
        before_ns: just before the first place changed.
        after_ns: just after the last place changed.
        detail: what tells it from others of its kind; may be empty.
        nodes: names of those it was selected by, if it was.
        is_losing: whether a frame that it hits is lost.
        accounts: with `cleared`, what it did at each port while it acted.
    """

    action: Action
    fault_id: str
    kind: str
    links: tuple[str, ...]
    before_ns: int
    after_ns: int
    detail: str = ""
    nodes: tuple[str, ...] = ()
    is_losing: bool = False
    accounts: tuple[PortAccount, ...] = ()

    def as_record(self) -> dict[str, Any]:
        """The event as a line of events.jsonl."""
        return {"time_ns": self.after_ns, "event": f"fault-{self.action}", **dataclasses.asdict(self)}


class FaultTarget(Protocol):
    """What an injector needs of a lab. Each call returns when it has happened; each may be repeated."""

    def set_rule(self, port_id: int, index: int, rule: FrameRule, seed: int) -> None:
        """Lets a rule act on the frames that leave a port, with a new account; *seed* has 32 bits."""

    def clear_rule(self, port_id: int, index: int) -> PortAccount:
        """The account of a rule that acts no more; an empty one if there was none."""

    def set_rate(self, port_id: int, ratio: float) -> None:
        """Lets a port transmit at that share of the rate that the topology gives it."""

    def set_held(self, port_id: int, *, is_held: bool) -> None:
        """Lets the far end of a port's link hold the port's data back, or leave that to its buffer."""

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down."""

    def set_routes(self, switch: str, *, is_present: bool) -> None:
        """Gives a switch its forwarding table, or leaves it none."""

    def set_running(self, host: str, *, is_running: bool) -> None:
        """Lets the processes of a host run, or stand still; its NIC goes on."""

    def set_drained(self, drained: frozenset[int], freed: frozenset[int]) -> None:
        """Has all hosts deny what crosses the links *drained*, and allow what crosses *freed* alone."""

    def set_agent(self, host: str, *, is_alive: bool) -> None:
        """Starts the NIC agent of a host unless it runs, or kills it."""

    def start_load(self, fault: Fault) -> None:
        """Lets the background traffic of a fault flow that is in the ledger."""

    def stop_load(self, fault_id: str) -> dict[int, int]:
        """Frames sent by port id, now that the background traffic of a fault flows no more."""

    def set_icrc(self, *, is_checked: bool) -> None:
        """Has all NICs check the iCRC of packets, or do as the topology says."""


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
            self._enter(Entry(fault, self._clock_ns(), expires_ns, flap=flap, phase=Phase.OFF))

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
        for other in entries.values():
            if other.fault.does_the_same_as(entry.fault):
                raise FaultError(
                    f"fault {fault_id!r} would do just what {other.fault.fault_id!r} does already",
                    hint="change where or how strongly it acts, or clear the other one first",
                )
        entry = dataclasses.replace(entry, rule_index=_free_rule(entries, entry.fault))
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
        """Puts the rules of *fault* in place or takes them back, and settles what it shares with others."""
        acting = [entry.fault for entry in entries.values() if entry.phase is Phase.ON]
        shared = compose(acting, fault)
        index = entries[fault.fault_id].rule_index
        accounts: tuple[PortAccount, ...] = ()
        before_ns = self._clock_ns()
        if action == "applied":
            if shared.checks_icrc:
                self._target.set_icrc(is_checked=True)
            for effect in fault.effects:
                seed = mix_seed(fault.seed, effect.port_id)
                self._target.set_rule(effect.port_id, index, effect.rule, seed)
            self._settle_shared(shared)
            self._settle_carriers(shared)
            if fault.loads:
                self._target.start_load(fault)
            after_ns = self._clock_ns()
        else:
            sent = self._target.stop_load(fault.fault_id) if fault.loads else {}
            self._settle_shared(shared)
            accounts = tuple(self._target.clear_rule(port_id, index) for port_id in sorted(fault.ports()))
            accounts += tuple(PortAccount(port_id, count, count, 0, 0, 0) for port_id, count in sent.items())
            self._settle_carriers(shared)
            if shared.checks_icrc is False:
                self._target.set_icrc(is_checked=False)
            after_ns = self._clock_ns()
        event = FaultEvent(
            action,
            fault.fault_id,
            fault.kind,
            fault.links,
            before_ns,
            after_ns,
            detail=fault.detail,
            nodes=fault.nodes,
            is_losing=any(effect.rule.action in LOSING_ACTIONS for effect in fault.effects),
            accounts=accounts,
        )
        self._ledger.record(event.as_record())
        return event

    def _settle_shared(self, shared: SharedState) -> None:
        for port_id, ratio in shared.rate_ratios.items():
            self._target.set_rate(port_id, ratio)
        for port_id, may_send in shared.senders.items():
            self._target.set_held(port_id, is_held=not may_send)
        for switch, is_present in shared.routes.items():
            self._target.set_routes(switch, is_present=is_present)
        if shared.drained is not None:
            self._target.set_drained(*shared.drained)
        for host, is_running in shared.running.items():
            self._target.set_running(host, is_running=is_running)
        for host, is_alive in shared.agents.items():
            self._target.set_agent(host, is_alive=is_alive)

    def _settle_carriers(self, shared: SharedState) -> None:
        """Last, because a carrier takes milliseconds: nothing else waits for it."""
        for port_id, is_up in shared.carriers.items():
            self._target.set_carrier(port_id, is_up=is_up)


def _free_rule(entries: dict[str, Entry], fault: Fault) -> int:
    """An index that no other fault uses at a port of *fault*."""
    ports = fault.ports()
    taken = {entry.rule_index for entry in entries.values() if entry.fault.ports() & ports}
    for index in range(FaultLimit.RULES):
        if index not in taken:
            return index
    raise FaultError(
        f"fault {fault.fault_id!r} finds {FaultLimit.RULES} others at its ports, which hold no more",
        hint="clear one of them: mrc-testbed fault list",
    )
