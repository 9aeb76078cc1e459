"""Programs in scenarios: ranks of a script that reports steps, in a lab that is up."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from live_scenario import run_live
from waiting import poll_until

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.workloads.running_program import WITHOUT_A_STEP

BEGIN = """
import json, os, select, sys, time
rank, fd = int(os.environ["RANK"]), int(os.environ["MRC_TESTBED_REPORT_FD"])
def report(step, **fields):
    given = {"step": step, "time_s": 0.02, "loss": 3.0 - step / 10, "bytes": 1000, "slowest_rank": 1}
    os.write(fd, (json.dumps(given | fields) + "\\n").encode())
def steps(count):
    for step in range(count):
        select.select([], [], [], 0.02)
        report(step, end_ns=time.monotonic_ns())
print("rank", rank, os.environ.get("MRC_TORCH_AS"), os.environ["COLOUR"])
"""


def run(
    name: str,
    runs: Path,
    script: str,
    *,
    more: str = "",
    spec: str = "",
    command: str = sys.executable,
    progress: Callable[[str], None] = lambda _: None,
) -> FinishedRun:
    """A run of a script, which begins with BEGIN, on both hosts of a lab."""
    path = runs / "script.py"
    path.write_text(BEGIN + script)
    text = (
        "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: trial}\nspec:\n"
        "  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}\n"
        "  workloads:\n"
        f"    - {{name: job, kind: program, command: [{command}, {path}], as: gloo, "
        f"environment: {{COLOUR: red}}{more}}}\n{spec}"
    )
    return run_live(name, text, runs, progress)


def written(runs: Path) -> list[str]:
    [path] = runs.glob("*/*/job.log")
    return path.read_text().splitlines()


def log(finished: FinishedRun) -> list[str]:
    return sorted((finished.folder / "job.log").read_text().splitlines())


def test_steps_of_a_program_are_measured_like_those_of_training(live_lab: str, tmp_path: Path) -> None:
    finished = run(
        live_lab,
        tmp_path,
        "steps(60)",
        spec="  faults:\n"
        "    - {id: flap1, at: 1s, for: 100ms, kind: loss, ratio: 1%, select: {links: {plane: 0}}}\n"
        "  expect: [p50(step_time(job)) >= 20ms, loss(job) < 0, loss(job) before flap1 > loss(job),\n"
        "           operations(job) > 10, job_throughput(job) > 0]\n",
    )
    verdict = finished.result.verdict
    assert verdict.status in (Status.PASSED, Status.UNTRUSTED), verdict.reason
    assert log(finished) == ["[0] rank 0 gloo red", "[1] rank 1 gloo red"]
    recording = finished.result.recording
    steps = recording.operations["job"]
    assert len(steps) == 60
    assert {each.last_rank for each in steps} == {"h1"}
    assert steps[-1].sent_bytes == 2000  # of both ranks; the first ones may have been one's alone
    assert recording.zero_ns is not None
    assert steps[0].step_begin_ns < recording.zero_ns  # so that the first step is not measured
    [workload] = json.loads((finished.folder / "manifest.json").read_text())["workloads"]
    assert (workload["kind"], workload["program"]["status"], workload["program"]["error"]) == (
        "program",
        0,
        None,
    )
    [job] = finished.result.jobs
    assert job.headline.endswith("; no rank lost")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("steps(3)\nif rank == 1: sys.exit(3)\nselect.select([], [], [])", "rank 1 (h1) ended with status 3"),
        ("print('bye')", WITHOUT_A_STEP),
        ("if rank == 1: report(0)", WITHOUT_A_STEP),
        (
            "if rank == 1: report(0, los=1)\nselect.select([], [], [])",
            "rank 1 (h1) reported no step: los: there is no such field; did you mean 'loss'?",
        ),
    ],
)
def test_a_failure_is_named_and_what_ranks_wrote_is_kept(
    live_lab: str, tmp_path: Path, script: str, reason: str
) -> None:
    finished = run(live_lab, tmp_path, script)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.reason) == (Status.ERROR, f"workload job: {reason}")
    assert "[1] rank 1 gloo red" in log(finished)
    [workload] = json.loads((finished.folder / "manifest.json").read_text())["workloads"]
    assert workload["program"]["error"] == reason
    assert all(reason in job.headline for job in finished.result.jobs)


@pytest.mark.parametrize(("count", "reason"), [(0, "rank 0 had not reported a step"), (2, "had not ended")])
def test_a_program_that_hangs_runs_into_its_limit_and_its_ranks_are_ended(
    live_lab: str, tmp_path: Path, count: int, reason: str
) -> None:
    def let_both_begin(step: str) -> None:
        if step == "waiting for the first step of job":
            poll_until(lambda: len(written(tmp_path)) == 4, what="output")

    script = f"print('pid', os.getpid(), flush=True)\nsteps({count})\nselect.select([], [], [])"
    finished = run(live_lab, tmp_path, script, more=f", timeout: {1 + count}s", progress=let_both_begin)
    assert finished.result.verdict.status is Status.ERROR
    assert reason in finished.result.verdict.reason
    processes = [Path("/proc", line.split()[-1]) for line in log(finished) if " pid " in line]
    assert len(processes) == 2
    poll_until(lambda: not any(process.exists() for process in processes), what="the end of its ranks")


def test_a_signal_before_the_first_step_ends_the_ranks_and_keeps_what_they_wrote(
    live_lab: str, tmp_path: Path
) -> None:
    def interrupt(step: str) -> None:
        if step == "waiting for the first step of job":
            poll_until(lambda: len(written(tmp_path)) == 2, what="output")
            os.kill(os.getpid(), signal.SIGTERM)

    finished = run(live_lab, tmp_path, "select.select([], [], [])", progress=interrupt)
    assert finished.result.verdict.status is Status.INTERRUPTED
    assert log(finished) == ["[0] rank 0 gloo red", "[1] rank 1 gloo red"]
    [workload] = json.loads((finished.folder / "manifest.json").read_text())["workloads"]
    assert (workload["program"]["status"], workload["program"]["error"]) == (None, None)


def test_no_such_program_is_refused_before_anything_starts(live_lab: str, tmp_path: Path) -> None:
    finished = run(live_lab, tmp_path, "", command="no-such-program")
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code) == (Status.ERROR, UsageError.exit_code)
    assert verdict.reason == "no-such-program: there is no such program"
