"""Pauses, stalls and deadlocks in expectations and events."""

import dataclasses
import json
from pathlib import Path

import pytest
from hand_made import S, applied, cleared, reading, recording
from scenario_text import HEAD
from virtual_trial import Trial

from mrc_testbed.fabric.deadlock import Deadlock
from mrc_testbed.metrics.series import FlowCounts, Reading
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.spec.expression import parse_expectation

TEXT = (
    HEAD
    + "  topology: {port_rate: 5Mbit}\n"
    + "  workloads: [{name: main, kind: write-bw, from: h0, to: h4, size: 1MiB, duration: 3s}]\n"
    + "  faults: [{id: gray, at: 1s, for: 1s, kind: loss, ratio: 5%, select: {links: {plane: 1}}}]\n"
)
STUCK = Deadlock(port_ids=(0, 2), cycle=(0, 2), since_ns=123)


def at(time_ns: int, flow: FlowCounts, deadlock: Deadlock | None = None) -> Reading:
    return dataclasses.replace(reading(time_ns), flow=flow, deadlock=deadlock)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("pauses during gray", 5),
        ("pauses", 9),
        ("paused_time during gray", 300_000_000),
        ("stalled_time before gray", 10_000_000),
        ("deadlocked_ports before gray", 0),
        ("deadlocked_ports", 2),
    ],
)
def test_what_flow_control_did_in_a_window(quantity: str, value: float) -> None:
    readings = [
        at(0, FlowCounts(1, 0, 0, 0)),
        at(1 * S, FlowCounts(1, 0, 1, 10_000_000)),
        at(2 * S, FlowCounts(6, 300_000_000, 2, 20_000_000)),
        at(3 * S, FlowCounts(10, 300_000_000, 2, 20_000_000), STUCK),
    ]
    made = recording(TEXT, readings, end_ns=3 * S)
    made.fault_changes = [applied("gray", 1 * S), cleared("gray", 2 * S)]
    (parsed,) = parse_expectation(f"{quantity} > {'0s' if 'time' in quantity else '0'}").quantities()
    assert Measurement(made).measure(parsed) == value


def test_a_deadlock_is_written_down_once(tmp_path: Path) -> None:
    trial = Trial(TEXT)
    trial.change["read"].append(lambda reading: dataclasses.replace(reading, deadlock=STUCK))
    finished = trial.execute(tmp_path)
    lines = (finished.folder / "events.jsonl").read_text().splitlines()
    reported = [event for event in map(json.loads, lines) if event["event"] == "deadlock"]
    assert [event["ports"] for event in reported] == ["h0:0 -> h0:1 -> h0:0"]
