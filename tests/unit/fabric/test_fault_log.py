"""The event log of faults as windows and lines."""

import json
from pathlib import Path

from mrc_testbed.fabric.fault_log import FaultLog, FaultWindow

LINKS = ("l1", "l2", "l3")


def line(action: str, fault_id: str, time_ns: int) -> str:
    event = {
        "time_ns": time_ns,
        "event": f"fault-{action}",
        "fault_id": fault_id,
        "kind": "loss",
        "links": LINKS,
        "nodes": [],
    }
    return json.dumps(event) + "\n"


def test_windows_open_and_close_as_the_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = FaultLog(path)
    assert log.new_lines() == []
    path.write_text(line("applied", "a", 10) + line("applied", "b", 20) + '{"time_ns": 3')
    assert [(each.time_ns, each.text) for each in log.new_lines()] == [
        (10, "fault a (loss) begins: l1, l2 and 1 more"),
        (20, "fault b (loss) begins: l1, l2 and 1 more"),
    ]
    path.write_text(line("applied", "a", 10) + line("applied", "b", 20) + line("cleared", "a", 30))
    assert [each.text for each in log.new_lines()] == ["fault a (loss) ends: l1, l2 and 1 more"]
    assert log.windows == [FaultWindow("a", "loss", 10, 30, LINKS), FaultWindow("b", "loss", 20, links=LINKS)]
    log.forget_before(31)
    assert log.windows == [FaultWindow("b", "loss", 20, links=LINKS)]


def test_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"time_ns": 3}\nnonsense\n[]\n' + line("applied", "a", 10))
    assert len(FaultLog(path).new_lines()) == 1


def test_a_shorter_log_is_that_of_another_lab(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(line("applied", "a", 10) + line("cleared", "a", 20))
    log = FaultLog(path)
    log.new_lines()
    path.write_text(line("applied", "b", 5))
    assert len(log.new_lines()) == 1
    assert log.windows == [FaultWindow("b", "loss", 5, links=LINKS)]
