"""The metrics of the fault ledger, written by the ledger itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from mrc_testbed.faults.effects import Rule
from mrc_testbed.faults.fault import FaultEvent, ScheduledFault
from mrc_testbed.faults.ledger import Entry, FaultPhase, Ledger
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.schedule import Flap, Schedule
from mrc_testbed.metrics.fault_record import ActiveFault, FaultRecord
from mrc_testbed.metrics.run_info import RunInfo

LINK = "h0:0~p0-t0-0:0"
OTHER = "p0-t0-0:4~p0-t1-0:0"
SECOND = 10**9


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path)
    ledger.create()
    return ledger


def entry(fault_id: str, kind: str, phase: FaultPhase = FaultPhase.ON) -> Entry:
    effects = (Rule(3, FrameRule(action="down")),)
    return Entry(
        ScheduledFault(fault_id=fault_id, kind=kind, seed=1, links=(LINK,), effects=effects),
        Schedule(5),
        phase=phase,
    )


def event(action: str, kind: str, *links: str) -> dict[str, object]:
    assert action in ("applied", "cleared")
    return FaultEvent(action, "f", kind, links, 10, 11, is_outage=kind != "loss").as_record()  # type: ignore[arg-type]


def test_a_lab_without_faults_has_none(tmp_path: Path) -> None:
    record = FaultRecord(tmp_path)
    assert record.active() == []
    assert not record.totals().injected


def test_active_faults_are_those_of_the_ledger(tmp_path: Path, ledger: Ledger) -> None:
    ledger.write(entry("b", "loss"))
    ledger.write(entry("a", "link-flap", FaultPhase.CLEARING))
    record = FaultRecord(tmp_path)
    assert record.active() == [ActiveFault("a", "link-flap"), ActiveFault("b", "loss")]
    ledger.remove("a")
    assert record.active() == [ActiveFault("b", "loss")]


def test_events_are_counted_once_however_often_they_are_read(tmp_path: Path, ledger: Ledger) -> None:
    record = FaultRecord(tmp_path)
    ledger.record(event("applied", "link-flap", LINK, OTHER))
    ledger.record(event("cleared", "link-flap", LINK, OTHER))
    assert record.totals().injected == {"link-flap": 1}
    ledger.record(event("applied", "link-flap", LINK))
    ledger.record(event("applied", "loss", OTHER))
    for _ in range(2):
        totals = record.totals()
        assert totals.injected == {"link-flap": 2, "loss": 1}
        assert totals.outages == {LINK: 2, OTHER: 1}


def test_outages_of_a_flap_that_the_kernel_keeps_to_are_counted_while_it_is_active(
    tmp_path: Path, ledger: Ledger
) -> None:
    record = FaultRecord(tmp_path)
    ledger.record(event("applied", "link-flap", LINK))
    flap = Flap(every_ns=SECOND, down_ns=SECOND // 10, jitter_ratio=0.5, seed=7)
    first = replace(entry("f", "link-flap"), schedule=Schedule(5, 5 + 4 * SECOND, flap))
    ledger.write(first)
    for age_ns in range(0, 6 * SECOND, SECOND // 5):
        begun = first.schedule.outage_count(min(5 + age_ns, 5 + 4 * SECOND - 1))
        assert record.outages_so_far(5 + age_ns) == {LINK: max(1, begun)}
    ledger.remove("f")
    ledger.record(event("cleared", "link-flap", LINK))
    ledger.record(event("applied", "link-flap", LINK))
    ledger.write(replace(first, schedule=Schedule(9 * SECOND, None, flap)))
    assert record.outages_so_far(11 * SECOND - 1) == {LINK: 4 + 2}


def test_a_new_reader_counts_from_the_beginning(tmp_path: Path, ledger: Ledger) -> None:
    ledger.record(event("applied", "nic-port-down", LINK))
    assert FaultRecord(tmp_path).totals().outages == FaultRecord(tmp_path).totals().outages == {LINK: 1}


def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path, ledger: Ledger) -> None:
    ledger.record(event("applied", "loss", LINK))
    whole = ledger.events_path.read_bytes()
    ledger.events_path.write_bytes(whole[:-5])
    record = FaultRecord(tmp_path)
    assert not record.totals().injected
    ledger.events_path.write_bytes(whole)
    assert record.totals().injected == {"loss": 1}


def test_damaged_lines_are_passed_over(tmp_path: Path, ledger: Ledger) -> None:
    ledger.events_path.write_text('{"event": "fault-applied"}\n[]\nnonsense\n')
    ledger.record(event("applied", "loss", LINK))
    assert FaultRecord(tmp_path).totals().injected == {"loss": 1}


def applied(action: str, time_ns: int) -> dict[str, object]:
    event = f"fault-{action}"
    return {"event": event, "fault_id": "f", "kind": "link-flap", "links": [LINK], "time_ns": time_ns}


def test_a_place_is_a_node_or_the_first_of_its_links(tmp_path: Path, ledger: Ledger) -> None:
    flap, reboot = ActiveFault("f", "link-flap"), ActiveFault("a", "reboot")
    lone = entry("a", "reboot")
    ledger.write(replace(lone, fault=replace(lone.fault, nodes=("p0-t1-1",))))
    ledger.record({**applied("applied", 10 * SECOND), "links": [OTHER, LINK, LINK]})
    ledger.record(applied("cleared", 10 * SECOND + 1) | {"links": [OTHER, LINK, LINK]})
    record = FaultRecord(tmp_path)
    assert record.shown(None, 10 * SECOND + 2) == {flap, reboot}
    assert record.places == {flap: f"{OTHER} +2", reboot: "p0-t1-1"}


def test_a_short_fault_is_shown_until_every_scrape_has_seen_it(tmp_path: Path, ledger: Ledger) -> None:
    ledger.record(applied("applied", 10 * SECOND))
    ledger.record(applied("cleared", 10 * SECOND + 1))
    record = FaultRecord(tmp_path)
    assert record.shown(None, 11 * SECOND) == {ActiveFault("f", "link-flap")}
    assert record.shown(None, 11 * SECOND + 1) == set()


def test_a_flap_of_a_run_is_shown_between_its_outages(tmp_path: Path, ledger: Ledger) -> None:
    earlier = RunInfo("s", "a", 1, {"f": 5 * SECOND}, 0)
    run = RunInfo("s", "b", 1, {"f": 10 * SECOND}, 20 * SECOND)
    for begin in (1, 21, 25):
        ledger.record(applied("applied", begin * SECOND))
        ledger.record(applied("cleared", begin * SECOND + 1))
    record = FaultRecord(tmp_path)
    assert record.shown(run, 28 * SECOND) == {ActiveFault("f", "link-flap")}
    assert record.shown(run, 31 * SECOND) == set()
    assert record.shown(earlier, 28 * SECOND) == set()
    assert record.shown(None, 28 * SECOND) == set()  # the run was killed
    assert record.between_outages(run, 28 * SECOND) == {ActiveFault("f", "link-flap"): (LINK,)}
    assert record.between_outages(run, 31 * SECOND) == {}
    assert record.between_outages(None, 28 * SECOND) == {}
    assert record.outages(run) == {"f": 2}
    assert record.outages(replace(run, begun_ns=100 * SECOND)) == {}
    assert record.outages(None) == {}


def test_a_flap_that_acts_is_not_between_its_outages(tmp_path: Path, ledger: Ledger) -> None:
    run = RunInfo("s", "a", 1, {"f": 10 * SECOND}, 0)
    ledger.write(entry("f", "link-flap"))
    ledger.record(applied("applied", SECOND))
    assert FaultRecord(tmp_path).between_outages(run, 2 * SECOND) == {}
