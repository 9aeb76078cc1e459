"""Faults of a lab in virtual time, whose maps and agents are the real ones; time is the machine's."""

import fcntl
import subprocess
import time

import pytest

from mrc_agents import clock
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.port_fault import CERTAIN_Q32
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import virtual_lab
from mrc_testbed.virtual.world import VirtualTarget

PORT_RATE_BPS = 10_000_000
CLOS = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1, port_rate=PORT_RATE_BPS))


class WatchedTarget(VirtualTarget):
    """A lab that shows its faults."""

    def __init__(self, lab, ledger):
        super().__init__(lab)
        self._ledger = ledger
        self.broken_carrier = False  # whether no carrier can be set
        self.ledger_at_write = []  # ids in the ledger whenever a rule was set or cleared
        self._healthy = self._state()

    @property
    def rules(self):
        """The share that each rule loses, by port and index."""
        return {
            (port_id, index): rule.chance_q32 / CERTAIN_Q32
            for port_id, port in enumerate(self._maps.port_fault)
            for index, rule in enumerate(port.rule)
            if rule.action
        }

    @property
    def rates(self):
        """Ports that do not send at their rate, with the share of it."""
        shares = {each: port.rate_bps / PORT_RATE_BPS for each, port in enumerate(self._maps.port_table)}
        return {port_id: share for port_id, share in shares.items() if share != 1}

    @property
    def denying(self):
        """Hosts whose agents deny paths."""
        alive = [agent.host for agent in self._lab.agents if agent.is_alive and not agent.is_frozen]
        return {host for host in alive if VirtualConnection(self._lab, host).denied_paths()}

    def set_rule(self, *arguments):
        self.ledger_at_write.append(set(self._ledger.entries()))
        super().set_rule(*arguments)

    def clear_rule(self, *arguments):
        self.ledger_at_write.append(set(self._ledger.entries()))
        return super().clear_rule(*arguments)

    def set_carrier(self, port_id, *, is_up):
        if self.broken_carrier:
            raise FabricError(f"set port {port_id}: no such device")
        super().set_carrier(port_id, is_up=is_up)

    def ask_hosts(self, requests):
        """Whoever asks a host must not hold the ledger meanwhile: it would wait here for ever."""
        with (self._ledger.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return super().ask_hosts(requests)

    def is_healthy(self):
        return self._state() == self._healthy

    def _state(self):
        agents = [(agent.is_alive, agent.is_frozen) for agent in self._lab.agents]
        maps = (self._maps.port_table, self._maps.port_fault, self._maps.lossless_settings)
        written = [bytes(element) for elements in maps for element in elements]
        return written, agents, [*self._lab.carriers], self.denying


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "faults")
    ledger.create()
    return ledger


@pytest.fixture
def lab():
    with virtual_lab(CLOS, seed=1) as made, clock.simulated(time.monotonic_ns):
        yield made


@pytest.fixture
def target(lab, ledger):
    return WatchedTarget(lab, ledger)


@pytest.fixture
def controller(ledger, target):
    return FaultController(ledger, target)


@pytest.fixture
def runner():
    """A process that does nothing until it is killed."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()
