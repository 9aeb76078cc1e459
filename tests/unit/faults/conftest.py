"""A lab that only remembers what was done to it."""

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from mrc_testbed.errors import FabricError
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.effects import HostRequests
from mrc_testbed.faults.event import PortAccount
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.schedule import Schedule

HOSTS = frozenset({"h1", "h2"})


@dataclass
class RecordedTarget:
    rules: dict[tuple[int, int], FrameRule] = field(default_factory=dict)
    schedules: dict[tuple[int, int], Schedule] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    senders: dict[int, bool] = field(default_factory=dict)
    carriers: dict[int, bool] = field(default_factory=dict)
    routes: dict[str, bool] = field(default_factory=dict)
    running: dict[str, bool] = field(default_factory=dict)
    agents: dict[str, bool] = field(default_factory=dict)
    denied: dict[str, frozenset[int]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    checks_icrc: bool = False
    broken_carrier: bool = False
    ledger: Ledger | None = None
    ledger_at_write: list[set[str]] = field(default_factory=list)

    def set_rule(self, port_id: int, index: int, rule: FrameRule, seed: int, schedule: Schedule) -> None:
        assert 0 <= seed < 2**32
        self._note()
        self.rules[port_id, index] = rule
        self.schedules[port_id, index] = schedule

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

    def kill_agent(self, host: str) -> None:
        self.agents[host] = False

    def ask_hosts(self, requests: HostRequests) -> dict[str, str]:
        """All of HOSTS have paths over any link; those that are silent say nothing."""
        with self._unlocked():
            asked = requests.revived | (HOSTS if requests.drained or requests.freed else set())
            reasons = {host: f"{host} is silent" for host in asked & (requests.absent | self.silent)}
            for host in asked - set(reasons):
                if host in requests.revived:
                    self.agents[host] = True
                self.denied[host] = (self.denied.get(host, frozenset()) | requests.drained) - requests.freed
            return reasons

    @contextmanager
    def _unlocked(self) -> Iterator[None]:
        """Whoever asks a host must not hold the ledger meanwhile: it would wait here for ever."""
        if self.ledger is not None and self.ledger.folder.is_dir():
            with (self.ledger.folder / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield

    def start_load(self, fault: ScheduledFault) -> None:
        self.loads.add(fault.fault_id)

    def stop_load(self, fault_id: str) -> dict[int, int]:
        self.loads.discard(fault_id)
        return {1: 7}

    def set_icrc(self, *, is_checked: bool) -> None:
        assert not self.rules or is_checked
        self.checks_icrc = is_checked

    def is_healthy(self) -> bool:
        flags = (self.senders, self.carriers, self.routes, self.running, self.agents)
        has_left = (
            any(self.denied.values())
            or self.rules
            or self.loads
            or self.checks_icrc
            or set(self.rates.values()) - {1.0}
        )
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
def controller(ledger, target):
    return FaultController(ledger, target)


@pytest.fixture
def runner():
    """A process that does nothing until it is killed."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()
