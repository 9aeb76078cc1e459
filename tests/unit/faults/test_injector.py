"""Ledger before the change, composition across faults, and complete removal."""

import json

import pytest

from testbed.errors import CleanupError, FaultError
from testbed.fabric.process import ProcessIdentity, observe_process
from testbed.faults.effect import Fault, PortEffect, PortRate
from testbed.faults.flap import Flap
from testbed.faults.injector import Injector
from testbed.faults.ledger import Entry, Ledger, Phase
from testbed.faults.rule import FrameRule

HOUR_NS = 3_600_000_000_000


DOWN = FrameRule(action="down")


def lossy(ratio: float) -> FrameRule:
    return FrameRule(action="lose", ratio=ratio)


def loss(fault_id: str, port_id: int, ratio: float = 0.5) -> Fault:
    effects = (PortEffect(port_id, lossy(ratio)),)
    return Fault(fault_id=fault_id, kind="loss", seed=1, links=("l",), effects=effects)


def cut(fault_id: str, port_id: int) -> Fault:
    effects = (PortEffect(port_id, DOWN), PortEffect(port_id ^ 1, DOWN))
    return Fault(
        fault_id=fault_id,
        kind="nic-port-down",
        seed=1,
        links=("l",),
        effects=effects,
        carrier_ports=(port_id,),
    )


def slow(fault_id: str, port_id: int, ratio: float) -> Fault:
    return Fault(fault_id=fault_id, kind="slow-link", seed=1, rates=(PortRate(port_id, ratio),))


def test_the_ledger_knows_a_fault_before_the_lab_feels_it(injector, target):
    injector.apply(loss("a", 1))
    assert target.ledger_at_write == [{"a"}]


def test_the_ledger_forgets_a_fault_only_after_the_lab_is_restored(injector, target, ledger):
    injector.apply(loss("a", 1))
    injector.clear("a")
    assert target.ledger_at_write[-1] == {"a"}
    assert ledger.entries() == {}
    assert target.is_healthy()


def test_clearing_one_of_two_overlapping_faults_leaves_the_other(injector, target):
    injector.apply(loss("a", 1, 0.5))
    injector.apply(loss("b", 1, 0.25))
    assert target.rules == {(1, 0): lossy(0.5), (1, 1): lossy(0.25)}
    injector.clear("a")
    assert target.rules == {(1, 1): lossy(0.25)}
    injector.apply(loss("c", 1, 0.1))
    assert target.rules == {(1, 0): lossy(0.1), (1, 1): lossy(0.25)}
    injector.clear("b")
    injector.clear("c")
    assert target.is_healthy()


def test_rates_multiply_and_come_back_exactly(injector, target):
    injector.apply(slow("a", 1, 0.5))
    injector.apply(slow("b", 1, 0.1))
    assert target.rates == {1: 0.05}
    injector.clear("a")
    assert target.rates == {1: 0.1}
    injector.clear("b")
    assert target.rates == {1: 1.0}


def test_a_fault_that_does_what_another_does_already_is_refused(injector, ledger):
    injector.apply(loss("a", 1, 0.5))
    with pytest.raises(FaultError, match="'b' would do just what 'a' does already"):
        injector.apply(loss("b", 1, 0.5))
    assert set(ledger.entries()) == {"a"}


def test_a_ninth_fault_of_a_port_is_refused_and_one_of_another_port_is_not(injector, ledger):
    for number in range(8):
        injector.apply(loss(f"f{number}", 1, 0.1 + number / 100))
    with pytest.raises(FaultError, match="finds 8 others at its ports"):
        injector.apply(loss("more", 1, 0.5))
    injector.apply(loss("elsewhere", 2, 0.5))
    injector.clear("f3")
    injector.apply(loss("more", 1, 0.5))
    assert ledger.entries()["more"].rule_index == 3


def test_what_whole_nodes_suffer_is_composed_too(injector, target):
    pause = Fault(fault_id="p", kind="host-pause", seed=1, nodes=("h1",), frozen_hosts=("h1",))
    reboot = Fault(fault_id="r", kind="switch-reboot", seed=1, nodes=("s",), unrouted_switches=("s",))
    also = Fault(fault_id="q", kind="host-pause", seed=1, nodes=("h1", "h2"), frozen_hosts=("h1", "h2"))
    for fault in (pause, reboot, also):
        injector.apply(fault)
    assert target.running == {"h1": False, "h2": False}
    assert target.routes == {"s": False}
    injector.clear("q")
    assert target.running == {"h1": False, "h2": True}
    injector.clear_all()
    assert target.is_healthy()


def test_a_link_is_drained_until_no_drain_is_left(injector, target):
    injector.apply(Fault(fault_id="a", kind="drain", seed=1, drained_links=(3, 4)))
    injector.apply(Fault(fault_id="b", kind="drain", seed=1, drained_links=(4, 5)))
    assert target.drained == {3, 4, 5}
    injector.clear("a")
    assert target.drained == {4, 5}
    injector.clear("b")
    assert target.drained == frozenset()


def test_two_carrier_faults_on_one_port_need_two_clears(injector, target):
    injector.apply(cut("a", 5))
    both = Fault(fault_id="b", kind="switch-down", seed=1, carrier_ports=(5, 7))
    injector.apply(both)
    injector.clear("b")
    assert target.carriers == {5: False, 7: True}
    injector.clear("a")
    assert target.carriers == {5: True, 7: True}


def test_an_id_that_is_taken_is_refused(injector):
    injector.apply(loss("a", 1))
    with pytest.raises(FaultError, match="'a' is active already"):
        injector.apply(loss("a", 2))


def test_clearing_an_unknown_id_names_the_known_ones(injector):
    injector.apply(loss("gray", 1))
    with pytest.raises(FaultError, match=r"no fault 'grey' is active \(known: gray\)"):
        injector.clear("grey")


def test_a_fault_that_cannot_be_applied_leaves_nothing(injector, target, ledger):
    target.broken_carrier = True
    with pytest.raises(CleanupError):
        injector.apply(cut("a", 5))
    target.broken_carrier = False
    assert injector.clear_stale()[0].fault_id == "a"
    assert ledger.entries() == {}
    assert target.is_healthy()


def test_what_could_not_be_reverted_stays_in_the_ledger_and_the_rest_is_reverted(injector, target, ledger):
    injector.apply(loss("a", 1))
    injector.apply(cut("b", 5))
    target.broken_carrier = True
    with pytest.raises(CleanupError, match="'b' could not be reverted"):
        injector.clear_all()
    assert set(ledger.entries()) == {"b"}
    assert target.rules == {}


def test_a_fault_over_its_time_is_stale(injector, target):
    injector.apply(loss("a", 1), expires_ns=1)
    injector.apply(loss("b", 2))
    assert [event.fault_id for event in injector.clear_stale()] == ["a"]
    assert target.rules == {(2, 0): lossy(0.5)}


def test_a_fault_dies_with_its_owner_and_not_before(injector, ledger, runner):
    owner = observe_process(runner.pid)
    injector.apply(loss("a", 1), owner=owner)
    assert injector.clear_stale() == []
    runner.kill()
    runner.wait()
    assert [event.fault_id for event in injector.clear_stale()] == ["a"]
    assert ledger.entries() == {}


def test_an_entry_half_cleared_by_a_killed_process_is_finished(injector, target, ledger):
    injector.apply(loss("a", 1))
    entry = ledger.entries()["a"]
    ledger.write(Entry(entry.fault, entry.added_ns, phase=Phase.CLEARING))
    injector.clear_stale()
    assert ledger.entries() == {}
    assert target.rules == {}


def test_a_flap_acts_only_while_it_is_on(injector, target):
    injector.schedule(loss("a", 1), Flap(100, 10, 0.0, 1), expires_ns=HOUR_NS * 10**6)
    assert target.rules == {}
    assert injector.switch("a", Phase.ON).action == "applied"
    assert target.rules == {(1, 0): lossy(0.5)}
    assert injector.switch("a", Phase.ON) is None
    assert injector.switch("a", Phase.OFF).action == "cleared"
    assert target.rules == {}


def test_events_are_recorded_with_times_around_the_change(injector, ledger):
    applied = injector.apply(loss("a", 1))
    cleared = injector.clear("a")
    assert applied.before_ns <= applied.after_ns <= cleared.before_ns <= cleared.after_ns
    records = [json.loads(line) for line in ledger.events_path.read_text().splitlines()]
    assert [record["event"] for record in records] == ["fault-applied", "fault-cleared"]
    assert records[1]["is_losing"]
    empty = {"met": 0, "count": 0, "data_count": 0, "first_ns": 0, "last_ns": 0}
    assert records[1]["accounts"] == [{"port_id": 1, **empty}]


def test_the_ledger_returns_what_was_written(ledger):
    entry = Entry(cut("a", 5), 7, 9, ProcessIdentity(1, 2), Flap(100, 10, 0.25, 3), Phase.OFF)
    ledger.write(entry)
    assert ledger.entries() == {"a": entry}


def test_a_broken_ledger_file_is_named(ledger):
    (ledger.active_folder / "a.json").write_text('{"version": 99}')
    with pytest.raises(FaultError, match=r"a\.json is no fault ledger entry of version 2: version 99"):
        ledger.entries()


def test_a_lab_that_is_gone_is_named(tmp_path, target):
    injector = Injector(Ledger(tmp_path / "gone" / "faults"), target)
    with pytest.raises(FaultError, match="lab 'gone' is gone"):
        injector.apply(loss("a", 1))
