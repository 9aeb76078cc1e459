"""Ledger before the change, composition across faults, and complete removal."""

import json

import pytest

from testbed.errors import CleanupError, FaultError
from testbed.fabric.process import ProcessIdentity, observe_process
from testbed.faults.effect import LOSS_ALL_Q32, Fault, PortEffect, PortSetting
from testbed.faults.flap import Flap
from testbed.faults.injector import Injector
from testbed.faults.ledger import Entry, Ledger, Phase

HOUR_NS = 3_600_000_000_000


def loss(fault_id: str, port_id: int, ratio: float = 0.5) -> Fault:
    return Fault(fault_id, "loss", 1, ("l",), (PortEffect(port_id, loss_ratio=ratio),))


def cut(fault_id: str, port_id: int) -> Fault:
    effects = (PortEffect(port_id, is_down=True), PortEffect(port_id ^ 1, is_down=True))
    return Fault(fault_id, "nic-port-down", 1, ("l",), effects, carrier_ports=(port_id,))


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
    injector.apply(loss("b", 1, 0.5))
    assert target.ports[1].loss_q32 == LOSS_ALL_Q32 * 3 // 4
    injector.clear("a")
    assert target.ports[1].loss_q32 == LOSS_ALL_Q32 // 2
    injector.clear("b")
    assert target.ports[1] == PortSetting()


def test_two_carrier_faults_on_one_port_need_two_clears(injector, target):
    injector.apply(cut("a", 5))
    injector.apply(cut("b", 5))
    injector.clear("b")
    assert target.carriers == {5: False}
    injector.clear("a")
    assert target.carriers == {5: True}


def test_an_id_that_is_taken_is_refused(injector):
    injector.apply(loss("a", 1))
    with pytest.raises(FaultError, match="'a' is active already"):
        injector.apply(loss("a", 2))


def test_clearing_an_unknown_id_names_the_known_ones(injector):
    injector.apply(loss("gray", 1))
    with pytest.raises(FaultError, match=r"no fault 'grey' is active \(known: gray\)"):
        injector.clear("grey")


def test_drops_are_counted_anew_only_where_no_other_fault_counts(injector, target):
    injector.apply(loss("a", 1))
    injector.apply(loss("b", 1))
    assert target.resets == [1]


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
    assert target.ports[1] == PortSetting()


def test_a_fault_over_its_time_is_stale(injector, target):
    injector.apply(loss("a", 1), expires_ns=1)
    injector.apply(loss("b", 2))
    assert [event.fault_id for event in injector.clear_stale()] == ["a"]
    assert target.ports == {
        1: PortSetting(),
        2: PortSetting(loss_q32=1 << 31, loss_seed=target.ports[2].loss_seed),
    }


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
    assert target.ports[1] == PortSetting()


def test_a_flap_acts_only_while_it_is_on(injector, target):
    injector.schedule(loss("a", 1), Flap(100, 10, 0.0, 1), expires_ns=HOUR_NS * 10**6)
    assert target.ports == {}
    assert injector.switch("a", Phase.ON).action == "applied"
    assert target.ports[1].loss_q32 == 1 << 31
    assert injector.switch("a", Phase.ON) is None
    assert injector.switch("a", Phase.OFF).action == "cleared"
    assert target.ports[1] == PortSetting()


def test_events_are_recorded_with_times_around_the_change(injector, ledger):
    applied = injector.apply(loss("a", 1))
    cleared = injector.clear("a")
    assert applied.before_ns <= applied.after_ns <= cleared.before_ns <= cleared.after_ns
    records = [json.loads(line) for line in ledger.events_path.read_text().splitlines()]
    assert [record["event"] for record in records] == ["fault-applied", "fault-cleared"]
    assert records[1]["drops"] == [{"port_id": 1, "count": 0, "data_count": 0, "first_ns": 0, "last_ns": 0}]


def test_the_ledger_returns_what_was_written(ledger):
    entry = Entry(cut("a", 5), 7, 9, ProcessIdentity(1, 2), Flap(100, 10, 0.25, 3), Phase.OFF)
    ledger.write(entry)
    assert ledger.entries() == {"a": entry}


def test_a_broken_ledger_file_is_named(ledger):
    (ledger.active_folder / "a.json").write_text('{"version": 99}')
    with pytest.raises(FaultError, match=r"a\.json is no fault ledger entry of version 1: version 99"):
        ledger.entries()


def test_a_lab_that_is_gone_is_named(tmp_path, target):
    injector = Injector(Ledger(tmp_path / "gone" / "faults"), target)
    with pytest.raises(FaultError, match="lab 'gone' is gone"):
        injector.apply(loss("a", 1))
