"""Scenarios with a program in virtual time, from the file to the result folder."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import contents, run
from waiting import poll_until

from mrc_testbed.cli.app import run as command
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PRINTS = (
    "print(' #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\\n 65536 1000 11 10 0.1')"
)


def scenario(*arguments: str, more: str = "", faults: str = "[]", expect: str = "[]") -> str:
    """A scenario file with a program; *more* are fields of it."""
    command = json.dumps([sys.executable, *arguments])
    environment = json.dumps({"PYTHONPATH": str(ROOT / "mrc-torch")})
    return f"""
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {{name: program, description: A program.}}
spec:
  seed: 3
  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 100Mbit}}
  workloads:
    - {{name: job, kind: program, command: {command}, environment: {environment}, compute: 10ms{more}}}
  faults: {faults}
  expect: {expect}
"""


def done(tmp_path: Path, text: str) -> FinishedRun:
    return run(resolve(load_scenario(text)), tmp_path)


def test_a_job_goes_through_a_fault_and_leaves_the_same_results_each_time(tmp_path: Path) -> None:
    text = scenario(
        str(HERE / "virtual_rank.py"),
        "train",
        "30",
        faults="[{id: flap, at: 200ms, for: 300ms, kind: link-flap, every: 100ms, down: 40ms, "
        'select: {links: "h0:0"}}]',
        expect="[fault_drops during flap > 0, max(step_time(job)) during flap > 50ms,"
        " job_throughput(job) after flap > 10, loss(job) < 0.1, operations(job) >= 28]",
    )
    first, second = done(tmp_path / "1", text), done(tmp_path / "2", text)
    assert first.result.verdict.status is Status.PASSED, first.result.verdict.reason
    recording = first.result.recording
    steps = recording.operations["job"]
    assert recording.zero_ns is not None
    assert steps[0].step_begin_ns < recording.zero_ns < steps[1].end_ns
    assert recording.end_ns == steps[-1].end_ns
    [job] = first.result.jobs
    assert "while link h0:0~p0-t0-0:0 flapped" in job.headline
    assert job.headline.endswith("; no rank lost")
    summary = (first.folder / "summary.md").read_text()
    assert "Each step computes for 10ms, as declared." in summary
    varying = ("manifest.json", "report.html", "summary.md", "junit.xml")
    one, other = (
        {name: text for name, text in contents(each).items() if name not in varying}
        for each in (first, second)
    )
    assert one == other
    assert {"job.log", "operations.csv", "series.csv", "events.jsonl"} <= one.keys()


def test_the_series_of_a_short_job_is_as_long_and_as_fine_as_the_job(tmp_path: Path) -> None:
    finished = done(tmp_path, scenario(str(HERE / "virtual_rank.py"), "train", "8"))
    recording = finished.result.recording
    steps, times_ns = recording.operations["job"], [each.time_ns for each in recording.readings]
    first_ns = steps[0].step_ns
    assert times_ns[-1] - steps[-1].end_ns <= first_ns < 50_000_000  # not a tenth of a second
    with (finished.folder / "series.csv").open(newline="") as stream:
        usual = list(csv.DictReader(stream))[2:-1]
    assert len(usual) >= len(steps) - 3
    assert all(float(each["goodput_bps"]) > 0 for each in usual)
    assert max(int(each["interval_ns"]) for each in usual) <= first_ns
    assert "<h2>Job</h2>" in (finished.folder / "report.html").read_text()


def test_a_rank_that_dies_ends_the_run_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    finished = done(tmp_path, scenario(str(HERE / "virtual_rank.py"), "die"))
    verdict = finished.result.verdict
    assert (verdict.status, verdict.reason) == (
        Status.ERROR,
        "workload job: rank 1 (h1) was ended by SIGKILL",
    )
    assert "rank 1 (h1) was ended by SIGKILL" in (finished.folder / "job.log").read_text()
    assert finished.result.recording.operations["job"]


def test_figures_that_ranks_print_are_measured_also_without_steps(tmp_path: Path) -> None:
    text = scenario(
        "-c",
        PRINTS,
        more=", steps: false, hosts: 1",
        expect="[printed_bandwidth(job) > 83Mbit, printed_bandwidth(job) < 84Mbit]",
    )
    finished = done(tmp_path, text)
    assert finished.result.verdict.status is Status.PASSED, finished.result.verdict.reason
    [workload] = json.loads((finished.folder / "manifest.json").read_text())["workloads"]
    [printed] = workload["program"]["printed"]
    assert (printed["size_bytes"], printed["bandwidth_bps"]) == (65536, 10 * 8 * 2**20)
    assert "| job, rank 0 | 64 KiB | 83.9 Mbit/s |" in (finished.folder / "summary.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--", "true"], 2, "--compute: virtual time does not measure how long a step computes"),
        (
            ["--compute", "1ms", "--ranks", "7", "--", "no-such-program"],
            2,
            "no-such-program: there is no such program",
        ),
        (["--compute", "1ms", "--ranks", "9", "--", "true"], 2, "hosts: 9; the fabric has 8 hosts"),
        (["--compute", "soon", "--", "true"], 2, "compute: there is no such file"),
        (["--compute", "1ms", "--ranks", "7", "--", "true"], 0, "note: the program ended without a step"),
        (["--compute", "1ms", "--ranks", "2", "--", "false"], 1, "ended with status 1"),
        (["--compute", "1ms", "--ranks", "1", "--", "sh", "-c", "kill -37 $$"], 165, "ended by SIGRTMIN+3"),
        (["--compute", "1ms", "--", "true"], 2, "hosts: 8; mrc-torch connects at most 7 ranks"),
        (["--compute", "1ms", "--as", "gloo", "--", "true"], 2, "hosts: 8; mrc-torch connects at most 7"),
    ],
)
def test_launch_says_in_a_line_why_nothing_was_trained(
    arguments: list[str],
    status: int,
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mrc_testbed.workloads.program.RANKS_MAX", 7)
    assert command(["launch", "--virtual", "--runs", str(tmp_path), *arguments]) == status
    said = capsys.readouterr()
    assert complaint in " ".join((said.out + said.err).split())


def test_launch_shows_output_with_ranks_and_the_steps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "mrc-torch"))
    rank = [sys.executable, str(HERE / "virtual_rank.py"), "overlap"]
    options = ["--virtual", "--runs", str(tmp_path), "--ranks", "2", "--compute", "1ms", "--"]
    assert command(["launch", *options, *rank]) == 0
    said, shown = capfd.readouterr()
    assert sorted(line[:3] for line in said.splitlines()) == ["[0]", "[1]"]
    assert "no fault was active; no rank lost" in shown


def test_a_trace_is_of_programs_by_mrc_torch_and_replaces_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "trace"
    launch = ["launch", "--virtual", "--runs", str(tmp_path), "--ranks", "2", "--compute", "1ms"]
    traced = [*launch, "--trace", str(folder), "--", "true"]
    assert command(traced) == 0
    assert "note: no trace of job: nothing was recorded" in capsys.readouterr().err
    (folder / "rank.0.et").touch()
    assert command(traced) == 2
    assert f"--trace: {folder} has a trace" in " ".join(capsys.readouterr().err.split())
    assert command([*launch, "--trace", str(folder / "rank.0.et"), "--", "true"]) == 2
    assert "cannot be made: File exists" in " ".join(capsys.readouterr().err.split())


def test_a_bundle_runs_no_program_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = done(tmp_path, scenario(str(HERE / "virtual_rank.py"), "train", "3"))
    bundle = tmp_path / "job.tar.zst"
    assert command(["bundle", "create", str(finished.folder), "--into", str(bundle)]) == 0
    replay = ["replay", str(bundle), "--virtual", "--runs", str(tmp_path / "again")]
    assert command(replay) == 2
    assert "the bundle runs a program: " in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
    assert command([*replay, "--programs"]) == 0


def test_an_interruption_ends_ranks_that_compute_and_keeps_the_results(tmp_path: Path) -> None:
    """Signals that are for ranks reach them before, and end nothing."""
    started, saved = tmp_path / "started", tmp_path / "saved"
    waits = f"""
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: open({str(saved)!r}, "a").write("saved "))
open({str(started)!r}, "a").write(f"{{os.getpid()}}\\n")
while True:
    signal.pause()
"""
    launch = ["launch", "--virtual", "--runs", str(tmp_path), "--ranks", "2", "--compute", "1ms", "--"]
    running = subprocess.Popen(
        [sys.executable, "-m", "mrc_testbed.cli", *launch, sys.executable, "-c", waits],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    poll_until(lambda: started.exists() and len(started.read_text().split()) == 2, what="the ranks")
    running.send_signal(signal.SIGUSR1)
    poll_until(lambda: saved.exists() and saved.read_text() == "saved saved ", what="the ranks' handlers")
    running.send_signal(signal.SIGQUIT)
    _, shown = running.communicate()
    assert (running.returncode, b"interrupted by SIGQUIT" in shown) == (131, True)
    assert not any(Path("/proc", pid).exists() for pid in started.read_text().split())
    assert (tmp_path / "launch" / "latest" / "manifest.json").is_file()


def test_a_fault_that_was_due_after_the_program_is_an_error_of_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "mrc-torch"))
    faults = tmp_path / "faults.yaml"
    faults.write_text(
        scenario(faults="[{id: late, at: 60s, for: 1s, kind: plane-down, select: {planes: 0}}]")
    )
    rank = [sys.executable, str(HERE / "virtual_rank.py"), "train", "2"]
    options = ["--virtual", "-t", str(faults), "--runs", str(tmp_path), "--compute", "1ms", "--"]
    assert command(["launch", *options, *rank]) == Status.ERROR.exit_code
