"""Faults that people are to find: shown nowhere before they are revealed, and the score of who named them."""

from pathlib import Path
from typing import Any

import pytest

from mrc_testbed.fabric.fault_log import FaultLog
from mrc_testbed.faults.drill import Score, note_named, score_faults
from mrc_testbed.faults.effects import Rule
from mrc_testbed.faults.fault import Action, ScheduledFault, event_of
from mrc_testbed.faults.interactive import parse_fault, plan_fault
from mrc_testbed.faults.ledger import Entry, Ledger, read_lines
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.schedule import Flap, Schedule
from mrc_testbed.metrics.fault_record import ActiveFault, FaultRecord
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2))
LINK, OTHER = "p0-t0-0:2~p0-t1-0:0", "h0:1~p1-t0-0:0"
T1_LINKS = ("p0-t0-0:2~p0-t1-0:0", "p0-t0-1:2~p0-t1-0:1")
DOWN = (Rule(3, FrameRule(action="down")),)


def fault(name: str, *links: str, is_hidden: bool = True) -> ScheduledFault:
    return ScheduledFault(
        fault_id=name, kind="link-flap", seed=1, links=links, effects=DOWN, is_hidden=is_hidden
    )


def event(action: Action, of: ScheduledFault, time_ns: int) -> dict[str, Any]:
    return event_of(of, action, time_ns, time_ns).as_record()


def named(time_ns: int, command: str, *names: str) -> dict[str, Any]:
    return {"time_ns": time_ns, "event": "named", "is_hidden": True, "command": command, "names": names}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger of lab `a`, with a hidden fault in force and an ended one beside one that is no secret."""
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path))
    (tmp_path / "a").mkdir()
    ledger = Ledger(tmp_path / "a" / "faults")
    ledger.create()
    for each in (fault("seen", OTHER, is_hidden=False), fault("secret", LINK)):
        ledger.write(Entry(each, Schedule(5, flap=Flap(10, 5, 0, 1))))
        ledger.record(event("applied", each, 5))
    for action in ("applied", "cleared"):
        ledger.record(event(action, fault("ended", LINK), 7))
    return ledger


def test_a_hidden_fault_is_shown_only_when_it_is_revealed(ledger: Ledger) -> None:
    record, log = FaultRecord(ledger.folder), FaultLog(ledger.events_path)
    assert set(ledger.entries()) == {"seen", "secret"}
    assert list(ledger.shown_entries()) == ["seen"]
    assert record.shown(None, 8) == {ActiveFault("seen", "link-flap")}
    assert set(record.outages_so_far(100)) == {OTHER}
    assert record.totals().injected == {"link-flap": 1}
    assert [each.text for each in log.new_lines()] == [f"fault seen (link-flap) begins: {OTHER}"]
    assert [each["fault_id"] for each in ledger.reveal()] == ["secret", "ended", "ended"]
    assert set(ledger.shown_entries()) == {"seen", "secret"}
    assert record.active() == [ActiveFault("secret", "link-flap"), ActiveFault("seen", "link-flap")]
    assert set(record.outages_so_far(100)) == {OTHER, LINK}
    assert record.totals().injected == {"link-flap": 3}
    assert len(log.new_lines()) == 3
    assert {each.fault_id: each.end_ns for each in log.windows} == {"seen": None, "secret": None, "ended": 7}
    assert ledger.reveal() == []


def test_what_was_named_is_noted_while_a_fault_is_hidden(ledger: Ledger) -> None:
    note_named("a", "check", [OTHER, LINK, LINK])
    note_named("none", "check", [LINK])
    [note] = [each for each in ledger.reveal() if each["event"] == "named"]
    assert (note["command"], note["names"]) == ("check", [OTHER, LINK])
    note_named("a", "check", [LINK])
    assert not read_lines(ledger.hidden_path)


@pytest.mark.parametrize(
    ("broken", "names", "answer"),
    [
        ([LINK], [LINK], "named"),
        ([LINK], ["p0-t0-0:2"], "named"),
        (T1_LINKS, ["p0-t1-0"], "named"),
        (T1_LINKS, [LINK], "in part"),
        ([LINK], ["p0-t1-0"], "named with an or"),
        ([OTHER], ["h0"], "named with an or"),
        ([LINK], [LINK, OTHER], "named with an or"),
        ([LINK], [OTHER], "false"),
        ([LINK], ["1", "p9-t1-7", "all-reduce"], "missed"),
    ],
)
def test_an_answer_is_graded_by_parts(broken: list[str], names: list[str], answer: str) -> None:
    begun = event("applied", fault("f", *broken), 100)
    [score] = score_faults(CLOS, [begun, named(130, "check", *names)])
    assert score.named == answer
    assert (score.after_ns, score.by) == ((None, None) if answer == "missed" else (30, "check"))


def test_each_command_has_its_best_answer_and_then_its_earliest() -> None:
    notes = [
        named(90, "check", LINK),  # before there was anything to find
        named(110, "check", OTHER),
        named(120, "check", LINK, "h0:0"),  # each the place of a hidden fault
        named(130, "check", LINK),
        named(140, "probe links", LINK, "h1:0"),
        named(210, "observe alerts", LINK),  # too late
    ]
    begun = [
        event("applied", fault(name, link), 100) for name, link in (("f", LINK), ("g", "h0:0~p0-t0-0:0"))
    ]
    found = score_faults(CLOS, [*begun, *notes, event("cleared", fault("f", LINK), 200)])
    assert [each for each in found if each.fault_id == "f"] == [
        Score("f", "link-flap", (LINK,), 100, "named", 20, "check"),
        Score("f", "link-flap", (LINK,), 100, "named with an or", 40, "probe links"),
    ]


def test_the_made_up_id_of_a_hidden_fault_does_not_tell_its_kind() -> None:
    fields: dict[str, str | int | float] = {"ratio": "5%", "until": "cleared", "hidden": True}
    planned = plan_fault(parse_fault("loss", LINK, fields, {"hidden-1"}), CLOS, 1)
    assert (planned.fault_id, planned.is_hidden) == ("hidden-2", True)
