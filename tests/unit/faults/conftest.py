"""A lab that only remembers what was done to it."""

import subprocess
from dataclasses import dataclass, field

import pytest

from testbed.errors import FabricError
from testbed.faults.effect import PortSetting
from testbed.faults.injector import Injector, PortDrops
from testbed.faults.ledger import Ledger


@dataclass
class RecordedTarget:
    ports: dict[int, PortSetting] = field(default_factory=dict)
    carriers: dict[int, bool] = field(default_factory=dict)
    resets: list[int] = field(default_factory=list)
    broken_carrier: bool = False
    ledger: Ledger | None = None
    ledger_at_write: list[set[str]] = field(default_factory=list)

    def write_port(self, port_id: int, setting: PortSetting) -> None:
        if self.ledger is not None:
            self.ledger_at_write.append(set(self.ledger.entries()))
        self.ports[port_id] = setting

    def reset_drops(self, port_id: int) -> None:
        self.resets.append(port_id)

    def read_drops(self, port_id: int) -> PortDrops:
        return PortDrops(port_id, 0, 0, 0, 0)

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        if self.broken_carrier:
            raise FabricError(f"set port {port_id}: no such device")
        self.carriers[port_id] = is_up

    def is_healthy(self) -> bool:
        return set(self.ports.values()) <= {PortSetting()} and all(self.carriers.values())


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
