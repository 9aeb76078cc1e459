"""Runs in virtual time: what is done, in which order, and what is left when something goes wrong."""

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from scenario_text import FLAP, HEAD
from virtual_trial import Trial

from mrc_testbed.errors import AgentError, CleanupError, FabricError, FaultError
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.workloads.flow import Flow

MS = 1_000_000
S = 1_000_000_000
SHAPED = HEAD + "  topology: {port_rate: 5Mbit}\n"
GRAY = SHAPED + (
    "  workloads: [{name: main, kind: sendrecv, shift: 4, size: 64KiB, duration: 1s}]\n"
    "  faults:\n"
    "    - {id: gray, at: 300ms, until: cleared, kind: loss, ratio: 5%, select: {links: {plane: 1}}}\n"
    "  expect: [qp_errors == 0]\n"
)
COUNTED = SHAPED + (
    "  workloads: [{name: main, kind: write-bw, from: h0, to: h4, size: 64KiB, iterations: 30}]\n"
    "  expect: [messages == 30, wrong_bytes == 0]\n"
)
READING = {"read", "acknowledged_bytes", "drain_events"}


def run(
    text: str, tmp_path: Path, change: Callable[[Trial], object] = lambda _: None
) -> tuple[Trial, FinishedRun]:
    trial = Trial(text)
    change(trial)
    return trial, trial.execute(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, FinishedRun]:
    """A run that nothing disturbs."""
    return run(FLAP, tmp_path_factory.mktemp("runs"))


def test_a_whole_run_passes(whole: tuple[Trial, FinishedRun]) -> None:
    lab, finished = whole
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code, verdict.untrusted) == (Status.PASSED, 0, ())
    assert [outcome.has_passed for outcome in verdict.outcomes] == [True] * 4
    assert not lab.left


def test_the_order_of_a_run(whole: tuple[Trial, FinishedRun]) -> None:
    lab, _ = whole
    steps = [call for call in lab.calls if call not in READING and not call.startswith("announce ")]
    assert steps == [
        "prepare",
        "ring_drops",
        "make_ready",
        "start main",
        *["apply flap1", "clear flap1"] * 4,
        "stop main",
        "clear_all",
        "collect",
        "ring_drops",
        "operations main",
        "batches main",
        "program main",
        "clear_all",
        "close",
        "announcement over",
        "recovery flap1",
    ]


def test_faults_are_applied_when_the_plan_says(whole: tuple[Trial, FinishedRun]) -> None:
    _, finished = whole
    recording = finished.result.recording
    planned = [edge for period in recording.plan.faults[0].periods for edge in period if edge is not None]
    real = [recording.relative_ns(change.before_ns) for change in recording.fault_changes]
    assert len(real) == 8
    assert real == planned


def test_readings_come_every_100_ms_and_at_the_edges_of_faults(whole: tuple[Trial, FinishedRun]) -> None:
    _, finished = whole
    recording = finished.result.recording
    times = [reading.time_ns for reading in recording.readings if reading.time_ns <= (recording.end_ns or 0)]
    assert len(times) > 45
    assert all(later - earlier <= 100 * MS for earlier, later in pairwise(times))
    for change in (recording.fault_changes[0], recording.fault_changes[-1]):
        assert change.after_ns in times


def test_time_zero_is_the_end_of_warm_up(whole: tuple[Trial, FinishedRun]) -> None:
    _, finished = whole
    recording = finished.result.recording
    assert recording.zero_ns is not None
    assert recording.zero_ns - recording.start_ns == 500 * MS
    assert recording.measured_span().length_ns == 4 * S


def test_a_run_is_announced_while_it_lasts(whole: tuple[Trial, FinishedRun]) -> None:
    lab, finished = whole
    announced = next(call for call in lab.calls if call.startswith("announce "))
    assert announced == f"announce trial/{finished.folder.name} 42"
    assert lab.calls[-2:] == ["announcement over", "recovery flap1"]


def test_a_missed_expectation_fails_the_run(tmp_path: Path) -> None:
    _, finished = run(FLAP.replace(">= 75%", ">= 97%"), tmp_path)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code) == (Status.FAILED, 4)
    assert [outcome.has_passed for outcome in verdict.outcomes] == [False, True, True, True]


def test_wrong_bytes_fail_the_run(tmp_path: Path) -> None:
    _, finished = run(FLAP, tmp_path, lambda lab: lab.damage(3))
    assert finished.result.verdict.status is Status.FAILED
    assert finished.result.verdict.outcomes[2].reason == "wrong_bytes was 3, exactly 0 was expected"


def test_a_fault_until_cleared_is_reverted_at_the_end(tmp_path: Path) -> None:
    lab, finished = run(GRAY, tmp_path)
    actions = [change.action for change in finished.result.recording.fault_changes]
    assert actions == ["applied", "cleared"]
    assert not lab.left


def test_iterations_end_the_run(tmp_path: Path) -> None:
    _, finished = run(COUNTED, tmp_path)
    recording = finished.result.recording
    assert finished.result.verdict.status is Status.PASSED
    assert 0.7 * S < recording.measured_span().length_ns < 1.1 * S


def test_iterations_that_take_too_long_end_in_an_error(tmp_path: Path) -> None:
    text = COUNTED.replace("iterations: 30", "iterations: 30000, timeout: 2s")
    lab, finished = run(text, tmp_path)
    assert finished.result.verdict.status is Status.ERROR
    assert finished.result.verdict.reason == "workload main had not finished its 30000 iterations after 2s"
    assert not lab.left


def test_a_fault_due_after_all_iterations_is_an_error(tmp_path: Path) -> None:
    faults = "  faults: [{id: late, at: 5s, for: 1s, kind: link-down, select: {links: h0:0}}]\n"
    lab, finished = run(COUNTED + faults, tmp_path)
    assert finished.result.verdict.status is Status.ERROR
    assert finished.result.verdict.reason.startswith(
        "fault late was due at 5s, but all workloads had finished by "
    )
    assert "apply late" not in lab.calls


def test_a_signal_ends_the_run_and_reverts_its_faults(tmp_path: Path) -> None:
    def interrupt_during_the_first_flap(lab: Trial) -> None:
        lab.clock.interrupt_at_ns = 1650 * MS

    lab, finished = run(FLAP, tmp_path, interrupt_during_the_first_flap)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code, verdict.reason) == (
        Status.INTERRUPTED,
        130,
        "interrupted by SIGINT",
    )
    assert not lab.left
    assert [change.action for change in finished.result.recording.fault_changes] == ["applied", "cleared"]
    assert "collect" not in lab.calls


def test_a_signal_ends_a_late_run_before_what_else_is_due(tmp_path: Path) -> None:
    def be_late_and_interrupt(lab: Trial) -> None:
        def interrupt(change: object) -> object:
            lab.clock.interrupt_at_ns = lab.clock.now_ns()
            return change

        lab.clock.pause_at_ns, lab.clock.pause_ns = 1400 * MS, S
        lab.change["apply flap1"].append(interrupt)

    lab, finished = run(FLAP, tmp_path, be_late_and_interrupt)
    assert lab.calls.count("apply flap1") == 1
    assert [change.action for change in finished.result.recording.fault_changes] == ["applied", "cleared"]


def test_an_interrupted_run_keeps_what_it_had_measured(tmp_path: Path) -> None:
    _, finished = run(FLAP, tmp_path, lambda lab: setattr(lab.clock, "interrupt_at_ns", 2 * S))
    rows = (finished.folder / "series.csv").read_text().splitlines()
    assert len(rows) > 15
    manifest = json.loads((finished.folder / "manifest.json").read_text())
    assert manifest["status"] == "interrupted"
    assert (finished.folder.parent / "latest").resolve() == finished.folder
    assert "interrupted" in (finished.folder / "report.html").read_text()


def test_keyboard_interrupt_is_an_interruption_too(tmp_path: Path) -> None:
    lab, finished = run(FLAP, tmp_path, lambda lab: lab.fail.update({"apply flap1": KeyboardInterrupt()}))
    assert finished.result.verdict.exit_code == 130
    assert not lab.left


@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        ("prepare", AgentError("h3 died"), "h3 died"),
        ("start main", AgentError("h3 died"), "h3 died"),
        ("apply flap1", FaultError("port 9 refused"), "port 9 refused"),
        ("read", FabricError("map is gone"), "map is gone"),
        ("stop main", AgentError("h3 died"), "h3 died"),
        ("collect", AgentError("h3 died"), "h3 died"),
    ],
)
def test_an_error_ends_the_run_and_leaves_nothing_behind(
    tmp_path: Path, call: str, error: Exception, reason: str
) -> None:
    lab, finished = run(FLAP, tmp_path, lambda lab: lab.fail.update({call: error}))
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code, verdict.reason) == (Status.ERROR, 1, reason)
    assert not lab.left
    assert (finished.folder / "report.html").is_file()


def test_an_error_late_in_a_run_keeps_its_series(tmp_path: Path) -> None:
    _, finished = run(FLAP, tmp_path, lambda lab: lab.fail.update({"stop main": AgentError("h3 died")}))
    assert len((finished.folder / "series.csv").read_text().splitlines()) > 40
    assert "h3 died" in (finished.folder / "report.html").read_text()


def test_a_bug_is_raised_after_the_results_were_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        run(FLAP, tmp_path, lambda lab: lab.fail.update({"stop main": KeyError("oops")}))
    folder = (tmp_path / "trial" / "latest").resolve()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["status"], manifest["reason"]) == ("error", "KeyError: 'oops'")


def test_incomplete_clean_up_outweighs_the_verdict(tmp_path: Path) -> None:
    _, finished = run(FLAP, tmp_path, lambda lab: lab.fail.update({"close": CleanupError("QP 256 stays")}))
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 6)
    assert verdict.reason == "clean-up is incomplete: QP 256 stays"


def test_every_step_of_clean_up_is_tried(tmp_path: Path) -> None:
    def fail_twice(lab: Trial) -> None:
        lab.fail.update({"stop main": AgentError("h3 died"), "clear_all": CleanupError("port 9 stays down")})

    lab, finished = run(FLAP, tmp_path, fail_twice)
    assert finished.result.verdict.reason == "clean-up is incomplete: port 9 stays down"
    assert not lab.left


def test_an_abort_condition_ends_the_run(tmp_path: Path) -> None:
    lab, finished = run(FLAP + "  abort: [assumed_bad > 10]\n", tmp_path)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code) == (Status.ABORTED, 5)
    assert verdict.reason.startswith("abort condition 'assumed_bad > 10' was met: assumed_bad was ")
    assert not lab.left
    assert lab.calls.count("apply flap1") == 1


def test_an_abort_condition_with_a_duration_waits_for_it(tmp_path: Path) -> None:
    _, finished = run(FLAP + "  abort: [messages > 0 for 2s]\n", tmp_path)
    recording = finished.result.recording
    assert finished.result.verdict.status is Status.ABORTED
    assert 2 * S < recording.relative_ns(recording.readings[-1].time_ns) < 2.4 * S


def test_a_condition_that_does_not_hold_aborts_nothing(tmp_path: Path) -> None:
    _, finished = run(FLAP + "  abort: [qp_errors > 0, host_saturated for 1s]\n", tmp_path)
    assert finished.result.verdict.status is Status.PASSED


def test_a_run_on_a_machine_that_stood_still_is_not_trusted(tmp_path: Path) -> None:
    def pause(lab: Trial) -> None:
        lab.clock.pause_at_ns, lab.clock.pause_ns = 900 * MS, 800 * MS

    _, finished = run(FLAP, tmp_path, pause)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code) == (Status.UNTRUSTED, 7)
    assert verdict.reason == "the machine stood still for 0.80 s (limit: 0.50 s)"


def test_lost_events_make_recovery_times_untrusted(tmp_path: Path) -> None:
    _, finished = run(FLAP, tmp_path, lambda lab: lab.lose_events(5))
    assert finished.result.verdict.untrusted == (
        "5 NIC events were lost, so times of detection and recovery are incomplete",
    )


def test_progress_is_reported_in_words(tmp_path: Path) -> None:
    reported: list[str] = []
    Trial(GRAY).execute(tmp_path, reported.append)
    assert reported == [
        "preparing workloads: memory, QPs",
        "warm-up is over",
        "workload main started",
        "gray applied",
        "workload main ended",
        "gray cleared",
        "comparing received memory",
        "run is over",
    ]


def test_flows_that_take_long_to_read_are_read_less_often_but_at_every_edge(
    tmp_path: Path, whole: tuple[Trial, FinishedRun]
) -> None:
    def slow(lab: Trial) -> None:
        def late(counts: Mapping[Flow, int]) -> Mapping[Flow, int]:
            lab.clock.wait_until_ns(lab.clock.now_ns() + 15 * MS)
            return counts

        lab.change["acknowledged_bytes"].append(late)

    _, usual = whole
    _, finished = run(FLAP, tmp_path, slow)
    recording = finished.result.recording
    assert len(recording.flow_readings) < len(recording.readings) * 2 / 3
    for change in (recording.fault_changes[0], recording.fault_changes[-1]):
        nearest_ns = min(abs(reading.time_ns - change.after_ns) for reading in recording.flow_readings)
        assert nearest_ns == 0
    assert finished.result.goodput_bps["main"] == pytest.approx(usual.result.goodput_bps["main"], rel=0.05)
