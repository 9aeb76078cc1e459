"""Runs of programs whose states are planned: time 0 is their first step, their failures are the run's."""

import csv
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from golden_documents import check_document
from scenario_text import HEAD
from virtual_trial import Trial

from mrc_testbed.campaign.run_figures import run_figures
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.result_text import optimizers_of
from mrc_testbed.scenario.report.run_record import load_manifest
from mrc_testbed.workloads.engine import Engine
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import Output, Program, ProgramState

MS = 1_000_000
S = 1_000_000_000
JOB = (
    HEAD
    + """\
  topology: {planes: 2, t0: 2, t1: 1, hosts_per_t0: 1, port_rate: 5Mbit}
  workloads:
    - {name: beside, kind: write-bw, from: h0, to: h1, size: 4KiB, warmup: 200ms, duration: 1s}
    - {name: job, kind: program, hosts: 2, command: [./train], compute: 100ms, timeout: 8s}
  faults:
    - {id: gray, at: 500ms, for: 200ms, kind: loss, ratio: 5%, select: {links: {plane: 1}}}
  expect: ["p99(step_time(job)) < 101ms", "job_throughput(job) > 9", "loss(job) < 1.5",
           "loss(job) before gray > 2"]
"""
)
STEPPED = ProgramState(has_stepped=True, run_ns=4 * S)
ENDED = ProgramState(has_stepped=True, run_ns=6 * S, status=0)


class ProgramTrial(Trial):
    """A run whose program comes to states at times: it has no processes."""

    def __init__(
        self, states: Sequence[tuple[int, ProgramState]], steps: Sequence[OperationRecord] = ()
    ) -> None:
        super().__init__(JOB)
        self.states = [(0, ProgramState(has_stepped=False, run_ns=0)), *states]
        self.steps = steps

    def replaced(self, workloads: Engine) -> Engine:
        return cast("Engine", PlannedProgram(workloads, self))


class PlannedProgram:
    """The workloads of a lab, but for the program."""

    def __init__(self, others: Engine, trial: ProgramTrial) -> None:
        self._others = others
        self._trial = trial

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if arguments[:1] == ("job",):
                own = vars(PlannedProgram).get(f"_{name}")
                return own(self, *arguments[1:]) if own else None
            return getattr(self._others, name)(*arguments)

        return call

    def prepare(self, loads: Sequence[Load], seed: int, output: Output) -> None:
        self._others.prepare([each for each in loads if each.program is None], seed, output)
        output("job", b"[0] loading\n")

    def _program(self) -> ProgramState:
        return [state for at_ns, state in self._trial.states if at_ns <= self._trial.clock.now_ns()][-1]

    def _is_finished(self) -> bool:
        state = self._program()
        return state.status is not None or state.error is not None

    def _await_step(self, deadline_ns: int) -> None:
        clock = self._trial.clock
        later = [at_ns for at_ns, _ in self._trial.states if at_ns > clock.now_ns()]
        clock.wait_until_ns(min([deadline_ns, *later]))

    def _operations(self) -> Sequence[OperationRecord]:
        return self._trial.steps


def run(
    tmp_path: Path, *states: tuple[int, ProgramState], last_loss: float | None = 1.1
) -> tuple[Trial, FinishedRun]:
    """A run whose program comes to these states at these times."""
    steps = [
        OperationRecord(
            at,
            at,
            at + 100 * MS,
            reaction_ns=0,
            compared_bytes=0,
            wrong_bytes=0,
            last_rank="h1",
            loss=3 - (at - 4 * S) / S,
            sent_bytes=1000,
        )
        for at in range(4 * S, 6 * S, 100 * MS)
    ]
    steps[-1] = replace(steps[-1], loss=last_loss)
    trial = ProgramTrial(states, steps)
    return trial, trial.execute(tmp_path)


def program(finished: FinishedRun) -> dict[str, Any]:
    _, job = json.loads((finished.folder / "manifest.json").read_text())["workloads"]
    found: dict[str, Any] = job["program"]
    return found


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    _, finished = run(tmp_path_factory.mktemp("runs"), (4 * S, STEPPED), (6 * S, ENDED))
    return finished


def test_its_steps_are_judged_and_described_like_those_of_training(passed: FinishedRun) -> None:
    verdict = passed.result.verdict
    assert (verdict.status, [each.reason for each in verdict.outcomes if not each.has_passed]) == (
        Status.PASSED,
        [],
    )
    [job] = passed.result.jobs
    assert (job.word, job.pace is not None and job.pace.slowest_rank) == ("step", "h1")
    assert job.headline.startswith("too few steps to tell: step median 100 ms (n = 5) before, 100 ms (n = 2)")
    summary = (passed.folder / "summary.md").read_text()
    assert f"**job**: {job.headline}." in summary
    report = (passed.folder / "report.html").read_text()
    assert "program, ./train; ranks on h0, h1" in report
    histograms = json.loads((passed.folder / "histograms.json").read_text())["histograms"]
    assert "times(step_time(job))" in histograms
    assert "times(collective_time(job))" not in histograms


@pytest.mark.parametrize(
    ("optimizers", "expected"),
    [
        ([], ""),
        ([None, "Adam", "Adam"], ""),
        (["SGD", "SGD", "Adam", "Adam"], "Steps are of SGD (from step 0) and Adam (from step 2)"),
        ([None, "SGD", "Adam", "SGD"], "Steps are of SGD (from step 1) and Adam (from step 2)"),
    ],
)
def test_a_sentence_says_when_optimizers_began(optimizers: list[str | None], expected: str) -> None:
    step = OperationRecord(0, 0, 1, 0, 0, 0, "h0")
    assert optimizers_of([replace(step, optimizer=each) for each in optimizers]) == expected


def test_the_manifest_says_how_it_ended_and_what_its_steps_were(passed: FinishedRun) -> None:
    check_document("run-manifest", load_manifest(passed.folder / "manifest.json"))
    found = program(passed)
    assert (found["status"], found["run_ns"], found["error"]) == (0, 6 * S, None)
    assert found["step"] == {**found["step"], "p50_ns": 100 * MS, "max_ns": 100 * MS}
    assert found["loss"] == pytest.approx(1.1, abs=0.11)
    figures = run_figures(json.loads((passed.folder / "manifest.json").read_text()))
    assert figures["p99(step_time(job))"].value == 100 * MS
    assert figures["loss(job)"].value == found["loss"]
    assert "wrong_bytes(job)" not in figures


def test_each_step_has_a_line(passed: FinishedRun) -> None:
    with (passed.folder / "operations.csv").open(newline="") as stream:
        first, *_ = csv.DictReader(stream)
    assert (first["last_rank"], first["loss"], first["sent_bytes"]) == ("h1", "3.0", "1000")


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_last_loss_that_is_not_finite_is_shown_and_fails_what_is_expected_of_it(
    tmp_path: Path, loss: float
) -> None:
    _, finished = run(tmp_path, (4 * S, STEPPED), (6 * S, ENDED), last_loss=loss)
    verdict = finished.result.verdict
    assert verdict.status is Status.FAILED
    assert [(each.text, each.reason) for each in verdict.outcomes if not each.has_passed] == [
        ("loss(job) < 1.5", "not measured: loss(job): that of the last step is not finite")
    ]
    assert "| not finite |" in (finished.folder / "summary.md").read_text()
    assert "not finite" in (finished.folder / "report.html").read_text()
    manifest = load_manifest(finished.folder / "manifest.json")
    assert program(finished)["loss"] is None
    assert run_figures(manifest)["loss(job)"].value is None
    with (finished.folder / "operations.csv").open(newline="") as stream:
        assert [each["loss"] for each in csv.DictReader(stream)][-2:] == [pytest.approx("1.2"), ""]


def test_ranks_may_end_without_a_loss(tmp_path: Path) -> None:
    """Such as those that evaluate: the loss is that of the last step that has one."""
    _, finished = run(tmp_path, (4 * S, STEPPED), (6 * S, ENDED), last_loss=None)
    assert finished.result.verdict.status is Status.PASSED
    assert program(finished)["loss"] == pytest.approx(1.2)


def test_time_0_is_after_the_first_step_and_the_warm_up_of_flows(tmp_path: Path) -> None:
    lab, finished = run(tmp_path, (4 * S, STEPPED), (6 * S, ENDED))
    assert [call for call in lab.calls if call.startswith("start ")] == ["start job", "start beside"]
    zero_ns = finished.result.recording.zero_ns
    assert zero_ns is not None
    assert 4200 * MS <= zero_ns < 4220 * MS
    records = [json.loads(line) for line in (finished.folder / "events.jsonl").read_text().splitlines()]
    [applied] = [each for each in records if each["event"] == "fault-applied"]
    assert 500 * MS <= applied["time_ns"] < 520 * MS


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ([], "workload job: rank 0 had not reported a step after 8s"),
        ([(S, ProgramState(False, S, 3, "rank 1 (h1) ended with status 3"))], "job: rank 1 (h1) ended with"),
        (
            [(S, STEPPED), (2 * S, ProgramState(True, S, -9, "rank 1 (h1) was ended by SIGKILL"))],
            "by SIGKILL",
        ),
        ([(S, STEPPED)], "workload job had not ended after 8s"),
    ],
)
def test_a_failed_program_is_an_error(
    tmp_path: Path, states: list[tuple[int, ProgramState]], reason: str
) -> None:
    lab, finished = run(tmp_path, *states)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, 1)
    assert reason in verdict.reason
    assert (finished.folder / "job.log").read_bytes() == b"[0] loading\n"
    assert "close" in lab.calls
    failed = [f"the job failed: {state.error}" for _, state in states if state.error and state.has_stepped]
    assert [job.headline.partition("; ")[2] for job in finished.result.jobs if failed] == failed
    assert program(finished)["error"] == (states[-1][1].error if states else None)


def test_waiting_for_the_first_step_can_be_interrupted(tmp_path: Path) -> None:
    trial = ProgramTrial(())
    trial.clock.interrupt_at_ns = S
    finished = trial.execute(tmp_path)
    assert finished.result.verdict.status is Status.INTERRUPTED
    assert program(finished)["status"] is None


def test_a_program_without_steps_has_time_0_at_its_start_and_fewer_readings_the_longer_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc_testbed.scenario.run.runner._READINGS_OF_JOB", 10)
    trial = ProgramTrial([(3 * S, replace(ENDED, has_stepped=False))])
    job = trial.plan.workloads[1]
    job = replace(job, program=replace(cast("Program", job.program), reports_steps=None))
    trial.plan = replace(trial.plan, workloads=(job,), faults=(), expect=(), reading_interval_ns=100 * MS)
    result = trial.execute(tmp_path).result
    recording, start_ns = result.recording, result.recording.start_ns
    assert (result.verdict.status, recording.zero_ns, recording.latest_ns) == (Status.PASSED, start_ns, 0)
    ages_ms = [(each.time_ns - start_ns) // MS for each in recording.readings]
    assert (ages_ms[:11], len(ages_ms)) == ([*range(0, 1100, 100)], 20)
