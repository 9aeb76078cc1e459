"""Ledger before the change, composition across faults, and complete removal."""

import contextlib
import dataclasses
import json
import threading

import pytest

from mrc_testbed.errors import CleanupError, FaultError
from mrc_testbed.fabric.process import ProcessIdentity, observe_process
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.effects import AgentDead, CarrierDown, Drained, Frozen, RateShare, Rule
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.ledger import Entry, FaultPhase, Ledger
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.schedule import Flap, Schedule

HOUR_NS = 3_600_000_000_000
UPLINK = 4
"""A link on paths of both hosts."""


DOWN = FrameRule(action="down")


def lossy(ratio: float) -> FrameRule:
    return FrameRule(action="lose", ratio=ratio)


def loss(fault_id: str, port_id: int, ratio: float = 0.5) -> ScheduledFault:
    effects = (Rule(port_id, lossy(ratio)),)
    return ScheduledFault(fault_id=fault_id, kind="loss", seed=1, links=("l",), effects=effects)


def cut(fault_id: str, port_id: int) -> ScheduledFault:
    effects = (Rule(port_id, DOWN), Rule(port_id ^ 1, DOWN))
    return ScheduledFault(
        fault_id=fault_id,
        kind="nic-port-down",
        seed=1,
        links=("l",),
        effects=(*effects, CarrierDown(port_id)),
    )


def slow(fault_id: str, port_id: int, ratio: float) -> ScheduledFault:
    return ScheduledFault(fault_id=fault_id, kind="slow-link", seed=1, effects=(RateShare(port_id, ratio),))


def test_the_ledger_knows_a_fault_before_the_lab_feels_it(controller, target):
    controller.apply(loss("a", 1))
    assert target.ledger_at_write == [{"a"}]


def test_the_ledger_forgets_a_fault_only_after_the_lab_is_restored(controller, target, ledger):
    controller.apply(loss("a", 1))
    controller.clear("a")
    assert target.ledger_at_write[-1] == {"a"}
    assert ledger.entries() == {}
    assert target.is_healthy()


def test_clearing_one_of_two_overlapping_faults_leaves_the_other(controller, target):
    controller.apply(loss("a", 1, 0.5))
    controller.apply(loss("b", 1, 0.25))
    assert target.rules == {(1, 0): 0.5, (1, 1): 0.25}
    controller.clear("a")
    assert target.rules == {(1, 1): 0.25}
    controller.apply(loss("c", 1, 0.125))
    assert target.rules == {(1, 0): 0.125, (1, 1): 0.25}
    controller.clear("b")
    controller.clear("c")
    assert target.is_healthy()


def test_rates_multiply_and_come_back_exactly(controller, target):
    controller.apply(slow("a", 1, 0.5))
    controller.apply(slow("b", 1, 0.1))
    assert target.rates == {1: 0.05}
    controller.clear("a")
    assert target.rates == {1: 0.1}
    controller.clear("b")
    assert target.rates == {}


def test_a_fault_that_does_what_another_does_already_is_refused(controller, ledger):
    controller.apply(loss("a", 1, 0.5))
    with pytest.raises(FaultError, match="'b' would have the same effect as 'a'"):
        controller.apply(loss("b", 1, 0.5))
    assert set(ledger.entries()) == {"a"}


def test_a_ninth_fault_of_a_port_is_refused_and_one_of_another_port_is_not(controller, ledger):
    for number in range(8):
        controller.apply(loss(f"f{number}", 1, 0.1 + number / 100))
    with pytest.raises(FaultError, match="its ports have 8 faults already"):
        controller.apply(loss("more", 1, 0.5))
    controller.apply(loss("elsewhere", 2, 0.5))
    controller.clear("f3")
    controller.apply(loss("more", 1, 0.5))
    assert ledger.entries()["more"].rule_index == 3


def test_an_id_that_is_taken_is_refused(controller):
    controller.apply(loss("a", 1))
    with pytest.raises(FaultError, match="'a' is active already"):
        controller.apply(loss("a", 2))


def test_clearing_an_unknown_id_names_the_known_ones(controller):
    controller.apply(loss("gray", 1))
    with pytest.raises(FaultError, match=r"no fault 'grey' is active \(known: gray\)"):
        controller.clear("grey")


def test_a_fault_that_cannot_be_applied_leaves_nothing(controller, target, ledger):
    target.broken_carrier = True
    with pytest.raises(CleanupError):
        controller.apply(cut("a", 5))
    target.broken_carrier = False
    assert controller.clear_stale()[0].fault_id == "a"
    assert ledger.entries() == {}
    assert target.is_healthy()


def test_what_could_not_be_reverted_stays_in_the_ledger_and_the_rest_is_reverted(controller, target, ledger):
    controller.apply(loss("a", 1))
    controller.apply(cut("b", 5))
    target.broken_carrier = True
    with pytest.raises(CleanupError, match="'b' could not be reverted"):
        controller.clear_all()
    assert set(ledger.entries()) == {"b"}
    assert target.rules == {}


def test_a_fault_over_its_time_is_stale(controller, target):
    controller.apply(loss("a", 1), end_ns=1)
    controller.apply(loss("b", 2))
    assert [event.fault_id for event in controller.clear_stale()] == ["a"]
    assert target.rules == {(2, 0): 0.5}


def test_a_fault_ends_with_its_lease_and_not_before(controller, ledger, runner):
    process = observe_process(runner.pid)
    controller.apply(loss("a", 1), lease=process)
    assert controller.clear_stale() == []
    runner.kill()
    runner.wait()
    assert [event.fault_id for event in controller.clear_stale()] == ["a"]
    assert ledger.entries() == {}


def test_an_entry_half_cleared_by_a_killed_process_is_finished(controller, target, ledger):
    controller.apply(loss("a", 1))
    entry = ledger.entries()["a"]
    ledger.write(Entry(entry.fault, entry.schedule, phase=FaultPhase.CLEARING))
    controller.clear_stale()
    assert ledger.entries() == {}
    assert target.rules == {}


def test_rules_carry_their_end_and_the_outages_of_a_flap(controller, target):
    flap = Flap(100, 10, 0.0, 1)
    controller.apply(loss("a", 1), end_ns=HOUR_NS * 10**6, flap=flap)
    rule = target._maps.port_fault[1].rule[0]
    assert (rule.end_ns, rule.every_ns, rule.down_ns) == (HOUR_NS * 10**6, 100, 10)


def test_what_the_kernel_has_ended_ended_then_and_not_when_it_was_taken_back(ledger, target):
    time = iter([10, 11, 12, 50, 51, 52])
    controller = FaultController(ledger, target, clock_ns=lambda: next(time))
    controller.apply(loss("a", 1), end_ns=20)
    event = controller.clear("a")
    assert (event.before_ns, event.after_ns) == (20, 20)


def drain(fault_id: str, *links: int) -> ScheduledFault:
    return ScheduledFault(fault_id=fault_id, kind="drain", seed=1, effects=tuple(map(Drained, links)))


def pause(fault_id: str, host: str) -> ScheduledFault:
    return ScheduledFault(
        fault_id=fault_id, kind="host-pause", seed=1, nodes=(host,), effects=(Frozen(host),)
    )


def test_a_host_that_stands_still_is_asked_when_it_runs_again(controller, target, ledger):
    controller.apply(pause("p", "h1"))
    controller.apply(drain("d", UPLINK))
    assert target.denying == {"h0"}
    assert ledger.entries()["d"].unreached == ("h1",)
    controller.clear("p")
    assert target.denying == {"h0", "h1"}
    assert ledger.entries()["d"].unreached == ()


def test_a_drain_ends_at_once_where_hosts_run_and_later_where_one_stands_still(controller, target, ledger):
    controller.apply(drain("d", UPLINK))
    controller.apply(pause("p", "h1"))
    controller.clear("d")
    assert target.denying == set()  # as far as those that run say
    assert ledger.entries()["d"].phase is FaultPhase.CLEARING
    assert controller.stale_entries() == []
    controller.clear("p")
    assert [entry.fault.fault_id for entry in controller.stale_entries()] == ["d"]
    controller.clear_stale()
    assert target.is_healthy()
    assert ledger.entries() == {}
    records = [json.loads(line)["event"] for line in ledger.events_path.read_text().splitlines()]
    assert records.count("fault-cleared") == 2


def test_a_host_that_runs_and_does_not_answer_is_an_error_and_asked_again(
    controller, target, ledger, monkeypatch
):
    with monkeypatch.context() as silent:
        silent.setattr(target, "ask_hosts", lambda _: {"h0": "h0 is silent"})
        with pytest.raises(CleanupError, match="h0 is silent"):
            controller.apply(drain("d", UPLINK))
    assert ledger.entries()["d"].unreached == ("h0",)
    controller.clear_stale()
    assert ledger.entries() == {}
    assert target.is_healthy()


def test_a_new_agent_denies_what_is_drained(controller, target):
    controller.apply(drain("d", UPLINK))
    controller.apply(ScheduledFault(fault_id="k", kind="nic-agent-kill", seed=1, effects=(AgentDead("h0"),)))
    assert target.denying == {"h1"}
    controller.clear("k")
    assert target.denying == {"h0", "h1"}


def test_clearing_waits_for_a_process_that_asks_hosts_on_behalf_of_the_fault(controller, ledger, runner):
    """As a run that clears a drain while the reaper asks a host which has just been resumed."""
    controller.apply(loss("a", 1))
    entry = ledger.entries()["a"]
    ledger.write(dataclasses.replace(entry, changed_by=observe_process(runner.pid)))
    finished = threading.Timer(0.05, lambda: ledger.write(entry))
    finished.start()
    assert controller.clear("a").action == "cleared"
    finished.join()


def test_a_fault_that_another_process_is_changing_is_left_to_it(controller, target, ledger, runner):
    controller.apply(loss("a", 1))
    other = observe_process(runner.pid)
    ledger.write(dataclasses.replace(ledger.entries()["a"], phase=FaultPhase.CLEARING, changed_by=other))
    assert controller.clear_stale() == []
    with pytest.raises(FaultError, match="being changed by another process"):
        controller.clear("a", wait_ns=0)
    runner.kill()
    runner.wait()
    assert [event.fault_id for event in controller.clear_stale()] == ["a"]


def test_a_fault_that_another_process_began_to_clear_a_moment_ago_is_left_to_it(
    controller, target, ledger, runner, monkeypatch
):
    """As a reaper that reads the ledger just before another process takes its lock."""
    controller.apply(loss("a", 1))
    entry = dataclasses.replace(ledger.entries()["a"], phase=FaultPhase.CLEARING)
    ledger.write(entry)
    lock = ledger.locked

    @contextlib.contextmanager
    def locked_late():
        with lock():
            ledger.write(dataclasses.replace(entry, changed_by=observe_process(runner.pid)))
            yield

    monkeypatch.setattr(ledger, "locked", locked_late)
    assert controller.clear_stale() == []
    assert target.rules == {(1, 0): 0.5}
    assert ledger.entries()["a"].is_being_changed


def test_a_host_that_another_process_has_begun_to_ask_is_not_asked_twice(
    controller, target, ledger, runner, monkeypatch
):
    controller.apply(pause("p", "h1"))
    controller.apply(drain("d", UPLINK))
    entry = ledger.entries()["d"]
    entries_to_ask = controller.entries_to_ask_again

    def ask_elsewhere_next():
        found = entries_to_ask()
        ledger.write(dataclasses.replace(entry, changed_by=observe_process(runner.pid)))
        return found

    monkeypatch.setattr(controller, "entries_to_ask_again", ask_elsewhere_next)
    controller.clear("p")
    assert target.denying == {"h0"}
    assert ledger.entries()["d"].unreached == ("h1",)


def test_events_are_recorded_with_times_around_the_change(controller, ledger):
    applied = controller.apply(loss("a", 1))
    cleared = controller.clear("a")
    assert applied.before_ns <= applied.after_ns <= cleared.before_ns <= cleared.after_ns
    records = [json.loads(line) for line in ledger.events_path.read_text().splitlines()]
    assert [record["event"] for record in records] == ["fault-applied", "fault-cleared"]
    assert records[1]["is_losing"]
    empty = {"met": 0, "count": 0, "data_count": 0, "first_ns": 0, "last_ns": 0}
    assert records[1]["accounts"] == [{"port_id": 1, **empty}]


def test_the_ledger_returns_what_was_written(ledger):
    entry = Entry(
        cut("a", 5),
        Schedule(7, 9, Flap(100, 10, 0.25, 3)),
        ProcessIdentity(1, 2),
        FaultPhase.CLEARING,
        changed_by=ProcessIdentity(3, 4),
        unreached=("h0",),
    )
    ledger.write(entry)
    assert ledger.entries() == {"a": entry}


def test_a_broken_ledger_file_is_named(ledger):
    (ledger.active_folder / "a.json").write_text('{"version": 99}')
    with pytest.raises(FaultError, match=r"a\.json is no fault ledger entry of version 4: version 99"):
        ledger.entries()


def test_a_lab_that_is_gone_is_named(tmp_path, target):
    controller = FaultController(Ledger(tmp_path / "gone" / "faults"), target)
    with pytest.raises(FaultError, match="lab 'gone' is gone"):
        controller.apply(loss("a", 1))
