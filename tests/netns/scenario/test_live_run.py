"""Runs of scenarios on a real lab: real packets, real faults, and what is left when something dies."""

import json
import os
import signal
from pathlib import Path

import pytest
from document_text import document
from live_scenario import run_live

from mrc_agents.abi import EvState
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.paths import lab_paths, state_root
from mrc_testbed.fabric.state import read_state
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.observe.run_reports import report_page
from mrc_testbed.scenario.measure.event import EvTransition, PortTransition
from mrc_testbed.scenario.measure.verdict import Status

HEAD = document("""\
Scenario {name: live}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
  transport: {evs: 32}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, warmup: 200ms, duration: 1500ms}
""")
FLAP = (
    HEAD
    + """\
  faults:
    - {id: flap1, at: 300ms, for: 800ms, kind: link-flap, every: 400ms, down: 350ms,
       select: {links: {plane: 0, between: [t0, t1], node: p0-t0-0}, pick: first}}
  expect:
    - fault_drops during flap1 > 0
    - assumed_bad during flap1 > 0
    - wrong_bytes == 0
    - qp_errors == 0
"""
)
PORT = (
    HEAD
    + """\
  faults:
    - {id: port1, at: 300ms, for: 500ms, kind: nic-port-down, select: {links: "h0:1"}}
  expect:
    - wrong_bytes == 0
    - qp_errors == 0
"""
)
KILL = (  # long enough for an agent that takes seconds to start again
    HEAD.replace("duration: 1500ms", "duration: 10s")
    + """\
  faults:
    - {id: kill1, at: 1s, for: 200ms, kind: nic-agent-kill, select: {nodes: h1}}
  expect:
    - goodput(main) before kill1 > 1Mbit
    - goodput(main) after kill1 < 1Mbit
    - wrong_bytes == 0
"""
)


def assert_no_fault_is_left(name: str) -> None:
    assert not Ledger(lab_paths(name).faults).entries()
    with lab.attach(name) as attached:
        assert not any(port.is_faulted for port in attached.port_table)


def test_a_flap_is_noticed_avoided_and_recovered_from(live_lab: str, tmp_path: Path) -> None:
    finished = run_live(live_lab, FLAP, tmp_path)
    result = finished.result
    assert [outcome.reason for outcome in result.verdict.outcomes if not outcome.has_passed] == []
    recording = result.recording
    assert [change.action for change in recording.fault_changes] == ["applied", "cleared"] * 2
    left = [
        event
        for event in recording.nic_events
        if isinstance(event, EvTransition) and event.after is EvState.ASSUMED_BAD
    ]
    assert {event.host for event in left} <= {"h0", "h1"}
    assert result.recoveries[0].left_evs > 0
    assert any(recovery.lost_packets > 0 for recovery in result.recoveries)
    assert all(outcome.error is None and outcome.compared_bytes > 0 for outcome in recording.outcomes)
    assert_no_fault_is_left(live_lab)
    report = (finished.folder / "report.html").read_bytes()
    assert report_page(state_root(), finished.folder.name).body == report


def test_a_nic_sees_its_port_go_and_come_back(live_lab: str, tmp_path: Path) -> None:
    finished = run_live(live_lab, PORT, tmp_path)
    assert [outcome.reason for outcome in finished.result.verdict.outcomes if not outcome.has_passed] == []
    ports = [event for event in finished.result.recording.nic_events if isinstance(event, PortTransition)]
    assert [(event.host, event.plane, event.is_up) for event in ports] == [("h0", 1, False), ("h0", 1, True)]
    assert_no_fault_is_left(live_lab)


@pytest.mark.slow("a run of ten seconds")
@pytest.mark.ci
def test_an_agent_that_a_fault_kills_ends_its_flows_and_not_the_run(live_lab: str, tmp_path: Path) -> None:
    finished = run_live(live_lab, KILL, tmp_path)
    recording = finished.result.recording
    assert [outcome.reason for outcome in finished.result.verdict.outcomes if not outcome.has_passed] == []
    assert [change.action for change in recording.fault_changes] == ["applied", "cleared"]
    [outcome] = recording.outcomes
    assert outcome.error is not None
    assert outcome.error.startswith("the NIC agent of h1 is lost: ")
    acknowledged = [sum(reading.acknowledged_bytes.values()) for reading in recording.flow_readings]
    assert acknowledged == sorted(acknowledged), "an agent that is new knows no QP of old"
    assert_no_fault_is_left(live_lab)
    again = run_live(live_lab, PORT, tmp_path)
    assert [outcome.reason for outcome in again.result.verdict.outcomes if not outcome.has_passed] == []


def test_a_signal_in_mid_fault_reverts_it_and_keeps_the_results(live_lab: str, tmp_path: Path) -> None:
    def interrupt(step: str) -> None:
        if step == "flap1 applied":
            os.kill(os.getpid(), signal.SIGTERM)

    finished = run_live(live_lab, FLAP, tmp_path, interrupt)
    assert finished.result.verdict.reason == "interrupted by SIGTERM"
    assert json.loads((finished.folder / "manifest.json").read_text())["status"] == "interrupted"
    assert [change.action for change in finished.result.recording.fault_changes] == ["applied", "cleared"]
    assert_no_fault_is_left(live_lab)


def test_a_nic_agent_killed_in_mid_run_is_an_error_that_names_it(live_lab: str, tmp_path: Path) -> None:
    state = read_state(lab_paths(live_lab))
    assert state is not None
    agent = next(process for process in state.processes if process.node == "h1")

    def kill(step: str) -> None:
        if step == "flap1 applied":
            os.kill(agent.pid, signal.SIGKILL)

    finished = run_live(live_lab, FLAP, tmp_path, kill)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 1)
    assert verdict.reason.startswith("the NIC agent of h1 is lost: ")
    assert finished.result.recording.fault_changes[-1].action == "cleared"
    assert (finished.folder / "report.html").is_file()
    assert_no_fault_is_left(live_lab)
