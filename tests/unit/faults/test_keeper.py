"""The keeper reverts what is over and ends when nothing is left to do."""

import json
import os
import threading

import pytest

from testbed.fabric.folder_watch import FolderWatch
from testbed.fabric.process import observe_process
from testbed.faults.effect import Fault, PortEffect
from testbed.faults.flap import Flap
from testbed.faults.injector import Injector
from testbed.faults.keeper import keep
from testbed.faults.rule import FrameRule

DEADLINE_S = 10
MS = 1_000_000


def loss(fault_id: str, port_id: int) -> Fault:
    effects = (PortEffect(port_id, FrameRule(action="lose", ratio=0.5)),)
    return Fault(fault_id=fault_id, kind="loss", seed=1, links=("l",), effects=effects)


@pytest.fixture
def start_keeper(ledger, injector):
    threads = []

    def start() -> threading.Thread:
        watch = FolderWatch((ledger.active_folder, ledger.owners_folder))
        lock_path = ledger.keeper_lock
        lock_path.touch()

        def body():
            with watch:
                keep(ledger, injector, watch)
            assert not lock_path.exists()

        thread = threading.Thread(target=body)
        thread.start()
        threads.append(thread)
        return thread

    yield start
    injector.clear_all()
    for owner in ledger.owners():
        ledger.unregister(owner)
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_with_nothing_to_do_it_ends_at_once(start_keeper):
    thread = start_keeper()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_a_fault_is_reverted_when_its_time_is_over(start_keeper, injector, target, ledger):
    event = injector.apply(loss("a", 1), expires_ns=injector._clock_ns() + 30 * MS)
    start_keeper().join(DEADLINE_S)
    assert ledger.entries() == {}
    assert target.is_healthy()
    assert injector._clock_ns() >= event.after_ns + 30 * MS - MS


def test_it_ends_when_the_last_fault_is_cleared_by_hand(start_keeper, injector):
    injector.apply(loss("a", 1))
    thread = start_keeper()
    injector.clear("a")
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_a_killed_runner_loses_its_faults(start_keeper, injector, target, ledger, runner):
    owner = observe_process(runner.pid)
    ledger.register(owner)
    injector.apply(loss("a", 1), owner=owner)
    thread = start_keeper()
    runner.kill()
    thread.join(DEADLINE_S)
    assert ledger.entries() == {}
    assert ledger.owners() == []
    assert target.is_healthy()
    runner.wait()


def test_an_announced_runner_keeps_it_alive_between_faults(start_keeper, injector, ledger):
    owner = observe_process(os.getpid())
    ledger.register(owner)
    thread = start_keeper()
    injector.apply(loss("a", 1), owner=owner)
    injector.clear("a")
    thread.join(0.05)
    assert thread.is_alive()
    ledger.unregister(owner)
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


class SteppedTime:
    """A clock that stands still until somebody waits; it is then at the deadline."""

    def __init__(self):
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def wait(self, _processes, deadline_ns):
        assert deadline_ns > self.now
        self.now = deadline_ns


def test_a_flap_is_switched_in_its_rhythm(ledger, target):
    time = SteppedTime()
    injector = Injector(ledger, target, clock_ns=time)
    flap = Flap(every_ns=20, down_ns=10, jitter_ratio=0.0, seed=1)
    injector.schedule(loss("a", 1), flap, expires_ns=45)
    ledger.keeper_lock.touch()
    keep(ledger, injector, time, time)
    events = [json.loads(line) for line in ledger.events_path.read_text().splitlines()]
    assert [(event["event"], event["time_ns"]) for event in events] == [
        ("fault-applied", 0),
        ("fault-cleared", 10),
        ("fault-applied", 20),
        ("fault-cleared", 30),
        ("fault-applied", 40),
        ("fault-cleared", 45),
    ]
    assert target.is_healthy()
