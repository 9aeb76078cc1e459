"""The reaper reverts what is over and ends when nothing is left to do."""

import os
import threading

import pytest
from waiting import DEADLINE_NS, DEADLINE_S

from mrc_testbed.fabric.folder_watch import FolderWatch
from mrc_testbed.fabric.process import observe_process
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.effects import Drained, Frozen, Rule
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.reaper import Reaper
from mrc_testbed.faults.rule import FrameRule

MS = 1_000_000


def loss(fault_id: str, port_id: int) -> ScheduledFault:
    effects = (Rule(port_id, FrameRule(action="lose", ratio=0.5)),)
    return ScheduledFault(fault_id=fault_id, kind="loss", seed=1, links=("l",), effects=effects)


@pytest.fixture
def start_reaper(ledger, controller):
    threads = []

    def start() -> threading.Thread:
        watch = FolderWatch((ledger.active_folder, ledger.leases_folder))
        lock_path = ledger.reaper_lock
        lock_path.touch()

        def body():
            with watch:
                Reaper(ledger, controller).reap(watch)
            assert not lock_path.exists()

        thread = threading.Thread(target=body)
        thread.start()
        threads.append(thread)
        return thread

    yield start
    controller.clear_all()
    for process in ledger.leases():
        ledger.end_lease(process)
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_with_nothing_to_do_it_ends_at_once(start_reaper):
    thread = start_reaper()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_a_fault_is_reverted_when_its_time_is_over(start_reaper, controller, target, ledger):
    end_ns = controller._clock_ns() + 30 * MS
    controller.apply(loss("a", 1), end_ns=end_ns)
    start_reaper().join(DEADLINE_S)
    assert ledger.entries() == {}
    assert target.is_healthy()
    assert controller._clock_ns() >= end_ns


def test_it_ends_when_the_last_fault_is_cleared_by_hand(start_reaper, controller):
    controller.apply(loss("a", 1))
    thread = start_reaper()
    controller.clear("a")
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_a_killed_runner_loses_its_faults(start_reaper, controller, target, ledger, runner):
    process = observe_process(runner.pid)
    ledger.take_lease(process)
    controller.apply(loss("a", 1), lease=process)
    thread = start_reaper()
    runner.kill()
    thread.join(DEADLINE_S)
    assert ledger.entries() == {}
    assert ledger.leases() == []
    assert target.is_healthy()
    runner.wait()


def test_a_lease_keeps_it_alive_between_faults(start_reaper, controller, ledger):
    process = observe_process(os.getpid())
    ledger.take_lease(process)
    thread = start_reaper()
    controller.apply(loss("a", 1), lease=process)
    controller.clear("a")
    thread.join(0.05)
    assert thread.is_alive()
    ledger.end_lease(process)
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_a_silent_host_delays_no_other_fault(start_reaper, controller, target, lab, ledger):
    """A drain waits for a host that does not answer; a pause of another one ends meanwhile."""
    answers = threading.Event()
    ask = target.ask_hosts

    def wait_and_ask(requests):
        assert answers.wait(DEADLINE_S)
        return ask(requests)

    controller.apply(ScheduledFault(fault_id="d", kind="drain", seed=1, effects=(Drained(3),)), end_ns=1)
    target.ask_hosts = wait_and_ask
    start_reaper()
    with FolderWatch((ledger.active_folder,)) as watch:
        while not ledger.entries()["d"].is_being_changed:
            watch.wait((), controller._clock_ns() + DEADLINE_NS)
        pause = ScheduledFault(
            fault_id="p", kind="host-pause", seed=1, nodes=("h1",), effects=(Frozen("h1"),)
        )
        controller.apply(pause, end_ns=1)
        while "p" in ledger.entries():
            watch.wait((), controller._clock_ns() + DEADLINE_NS)
    assert not lab.agent("h1").is_frozen
    assert not answers.is_set()
    answers.set()


class EarlyWatch(FolderWatch):
    """A clock that goes on by 1 ns whenever it is read, and a wait that ends a little before its deadline."""

    def __init__(self, early_ns):
        self.now_ns = 0
        self._early_ns = early_ns

    def read(self):
        self.now_ns += 1
        return self.now_ns

    def wait(self, _processes, deadline_ns):
        assert deadline_ns <= 1000 + self.now_ns
        self.now_ns = max(self.now_ns, deadline_ns - self._early_ns)


@pytest.mark.parametrize("early_ns", range(12))
def test_an_end_that_comes_between_two_looks_is_not_missed(ledger, target, early_ns):
    """Found by chance: a reaper that woke a moment too early slept for an hour afterwards."""
    watch = EarlyWatch(early_ns)
    controller = FaultController(ledger, target, clock_ns=watch.read)
    controller.apply(loss("a", 1), end_ns=1000)
    ledger.reaper_lock.touch()
    Reaper(ledger, controller, clock_ns=watch.read).reap(watch)
    assert target.is_healthy()
