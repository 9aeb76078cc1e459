"""A lab that only remembers what was done to it."""

import subprocess
from dataclasses import dataclass, field

import pytest

from testbed.errors import FabricError
from testbed.faults.effect import Fault
from testbed.faults.injector import Injector, PortAccount
from testbed.faults.ledger import Ledger
from testbed.faults.rule import FrameRule


@dataclass
class RecordedTarget:
    rules: dict[tuple[int, int], FrameRule] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    senders: dict[int, bool] = field(default_factory=dict)
    carriers: dict[int, bool] = field(default_factory=dict)
    routes: dict[str, bool] = field(default_factory=dict)
    running: dict[str, bool] = field(default_factory=dict)
    agents: dict[str, bool] = field(default_factory=dict)
    drained: frozenset[int] = frozenset()
    loads: set[str] = field(default_factory=set)
    checks_icrc: bool = False
    broken_carrier: bool = False
    ledger: Ledger | None = None
    ledger_at_write: list[set[str]] = field(default_factory=list)

    def set_rule(self, port_id: int, index: int, rule: FrameRule, seed: int) -> None:
        assert 0 <= seed < 2**32
        self._note()
        self.rules[port_id, index] = rule

    def clear_rule(self, port_id: int, index: int) -> PortAccount:
        self._note()
        self.rules.pop((port_id, index), None)
        return PortAccount(port_id, 0, 0, 0, 0, 0)

    def set_rate(self, port_id: int, ratio: float) -> None:
        self.rates[port_id] = ratio

    def set_held(self, port_id: int, *, is_held: bool) -> None:
        self.senders[port_id] = not is_held

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        if self.broken_carrier:
            raise FabricError(f"set port {port_id}: no such device")
        self.carriers[port_id] = is_up

    def set_routes(self, switch: str, *, is_present: bool) -> None:
        self.routes[switch] = is_present

    def set_running(self, host: str, *, is_running: bool) -> None:
        self.running[host] = is_running

    def set_drained(self, drained: frozenset[int], freed: frozenset[int]) -> None:
        self.drained = (self.drained | drained) - freed

    def set_agent(self, host: str, *, is_alive: bool) -> None:
        self.agents[host] = is_alive

    def start_load(self, fault: Fault) -> None:
        self.loads.add(fault.fault_id)

    def stop_load(self, fault_id: str) -> dict[int, int]:
        self.loads.discard(fault_id)
        return {1: 7}

    def set_icrc(self, *, is_checked: bool) -> None:
        assert not self.rules or is_checked
        self.checks_icrc = is_checked

    def is_healthy(self) -> bool:
        flags = (self.senders, self.carriers, self.routes, self.running, self.agents)
        has_left = self.rules or self.loads or self.checks_icrc or set(self.rates.values()) - {1.0}
        return not has_left and all(all(flag.values()) for flag in flags)

    def _note(self) -> None:
        if self.ledger is not None:
            self.ledger_at_write.append(set(self.ledger.entries()))


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "faults")
    ledger.create()
    return ledger


@pytest.fixture
def target(ledger):
    return RecordedTarget(ledger=ledger)


@pytest.fixture
def injector(ledger, target):
    return Injector(ledger, target)


@pytest.fixture
def runner():
    """A process that does nothing until it is killed."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()
