"""PyTorch jobs in virtual time: the losses of gloo through faults, the same bytes each time, no root."""

import csv
import json
import subprocess
import sys
from collections import Counter
from operator import sub
from pathlib import Path

import pytest
from document_text import document
from trace_files import ends_ns, traces_in
from training_cases import BEYOND_GLOO, EXAMPLE, LOOPS, OF_GLOO, by_gloo, check

from benchmarks.gloo import losses
from mrc_testbed.cli.app import run as command_line
from mrc_testbed.traces.graph import Compute, GroupCall, StepMark

pytestmark = [
    pytest.mark.download("PyTorch"),
    pytest.mark.slow("imports PyTorch in four processes, again and again"),
]

HERE = Path(__file__).parent
GRADIENT_BYTES = 653_824
GRAY_LINKS = tuple(f"p1-t0-{t0}:{port + 2}~p1-t1-{port}:{t0}" for t0 in (0, 1) for port in (0, 1))
FAULTS = document("""\
Scenario {name: faults, description: A flap and a gray link.}
  seed: 5
  topology: {planes: 4, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 100Gbit, link_delay: 500ns}
  workloads:
    - {name: any, kind: write-bw, from: h0, to: h2, size: 64KiB, duration: 20ms}
  faults:
    - {id: flap, at: 2ms, for: 8ms, kind: link-flap, every: 2ms, down: 700us, select: {links: "h0:0"}}
    - {id: gray, at: 3ms, for: 12ms, kind: loss, ratio: 5%, select: {links: {plane: 1, between: [t0, t1]}}}
""")

AGAIN = document("""\
Scenario {name: again, description: The trace of a job on the fabric that it had.}
  topology: {planes: 4, t0: 2, t1: 4, hosts_per_t0: 4, port_rate: 100Gbit, link_delay: 500ns}
  workloads:
    - {name: job, kind: trace, files: "trace/rank.{}.et", hosts: 4}
""")


def launched(folder: Path, *arguments: str) -> tuple[int, list[str], str]:
    """Exit status, output and complaints of `launch --virtual`."""
    command = [sys.executable, "-m", "mrc_testbed.cli", "launch", "--virtual", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.ci
def test_losses_are_those_of_gloo_and_bytes_those_of_the_run_before(
    torch_python: str, tmp_path: Path
) -> None:
    scenario = tmp_path / "faults.yaml"
    scenario.write_text(FAULTS)
    command = [torch_python, *EXAMPLE, "15"]
    expected = losses(by_gloo(15, *command))
    assert [len(steps) for steps in expected.values()] == [15] * 4
    options = ("-t", str(scenario), "--compute", "1ms", "--as", "gloo", "--", *command)
    status, said, complained = launched(tmp_path, "--trace", "first", *options)
    assert (status, losses(said)) == (0, expected), complained
    again = launched(tmp_path, "--trace", "again", *options)
    assert [line for line in said if line.startswith("[")] == [line for line in again[1] if line[0:1] == "["]
    steps, repeated = ((folder / "operations.csv").read_text() for folder in _results(tmp_path))
    assert steps == repeated
    check_trace(tmp_path / "first", said)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def check_trace(folder: Path, said: list[str]) -> None:
    """Hold the trace of the example against its model, the clocks of its ranks and the faults of its run."""
    begins = set()
    for rank, trace in enumerate(traces_in(folder)):
        assert trace.groups == {"0": (0, 1, 2, 3)}
        marks = [node for node in trace.nodes if isinstance(node.work, StepMark)]
        assert [node.name for node in marks] == [f"ProfilerStep#{step}" for step in range(15)]
        calls = Counter(node.work for node in trace.nodes if isinstance(node.work, GroupCall))
        assert calls[GroupCall("all-reduce", "0", GRADIENT_BYTES)] == 15
        assert calls[GroupCall("broadcast", "0", GRADIENT_BYTES, 0)] == 1
        assert calls[GroupCall("barrier", "0", 0)] == 1
        computed = [node.duration_ns for node in trace.nodes if isinstance(node.work, Compute)]
        assert computed == [1_000_000] * 15
        printed = [json.loads(line[4:]) for line in said if line.startswith(f"[{rank}]")]
        ends = ends_ns(trace.nodes)
        begins |= {step["ended_ns"] - ends[mark.id] for step, mark in zip(printed, marks[1:], strict=False)}
    assert len(begins) == 1  # all steps of all ranks are exact
    faults = json.loads((folder / "faults.json").read_text())
    assert {(each["fault"], each["kind"], *each["places"]) for each in faults} == {
        ("flap", "link-flap", "h0:0~p0-t0-0:0"),
        ("gray", "loss", *GRAY_LINKS),
    }
    assert all(0 < each["begin_ns"] < each["end_ns"] for each in faults)
    assert len(faults) == 5


def _results(folder: Path) -> list[Path]:
    return [path for path in (folder / "runs" / "launch").iterdir() if not path.is_symlink()]


def test_each_module_computes_as_long_as_in_a_profile(torch_python: str, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    command = [torch_python, *EXAMPLE, "8"]
    measured = [torch_python, "-m", "mrc_torch.profile", str(profile), *EXAMPLE[1:], "8"]
    subprocess.run(measured, check=True, capture_output=True)
    stages_ns = json.loads(profile.read_text())["stage_ns"]
    assert {"forward next", "loss", "backward words", "optimizer"} <= stages_ns.keys()
    options = ("--compute", str(profile), "--as", "gloo", "--trace", "trace", "--", *command)
    status, said, complained = launched(tmp_path, "--ranks", "4", *options)
    assert status == 0, complained
    *_, last = (line for line in said if line.startswith("[0]"))
    step = json.loads(last.removeprefix("[0]"))
    assert step["ended_ns"] - step["began_ns"] >= sum(stages_ns.values())
    scenario = tmp_path / "again.yaml"
    scenario.write_text(AGAIN)
    assert command_line(["run", str(scenario), "--virtual", "--runs", str(tmp_path / "runs")]) == 0
    first, again = (
        [int(step["end_ns"]) for step in csv.DictReader((folder / "operations.csv").read_text().splitlines())]
        for folder in (*_results(tmp_path), tmp_path / "runs" / "again" / "latest")
    )
    assert [*map(sub, again[1:], again)] == pytest.approx([*map(sub, first[1:], first)], rel=1e-3)


def test_operations(torch_python: str, tmp_path: Path) -> None:
    program = [torch_python, str(HERE / "backend_ranks.py")]
    cases = ["collectives", "shapes_and_kinds", "messages_cross", "groups_share_qps"]
    cases.append("what_is_not_served_is_refused_by_name")
    status, said, complained = launched(tmp_path, "--ranks", "4", "--compute", "0ms", "--", *program, *cases)
    assert sorted(line for line in said if line.startswith("[")) == [f"[{rank}] done" for rank in range(4)], (
        status,
        complained,
    )


@pytest.mark.ci
def test_what_scripts_train_ends_and_is_that_of_gloo(torch_python: str, tmp_path: Path) -> None:
    program = [torch_python, str(HERE / "training_ranks.py"), "gloo"]
    expected = by_gloo(len(OF_GLOO), *program, *OF_GLOO)
    status, said, complained = launched(
        tmp_path, "--ranks", "4", "--compute", "1ms", "--as", "gloo", "--", *program, *OF_GLOO, BEYOND_GLOO
    )
    assert status == 0, complained
    check([line for line in said if line.startswith("[")], expected)


def test_loops_that_wait_in_the_machine_give_the_same_bytes(torch_python: str, tmp_path: Path) -> None:
    program = [torch_python, str(HERE / "training_ranks.py"), "gloo", *LOOPS]
    options = ("--ranks", "4", "--compute", "1ms", "--as", "gloo", "--", *program)
    (status, said, complained), again = (launched(tmp_path, *options) for _ in range(2))
    assert (status, again[0]) == (0, 0), complained
    assert sorted(said[:12]) == sorted(by_gloo(len(LOOPS), *program))
    assert said[:12] == again[1][:12]
    steps, repeated = ((folder / "operations.csv").read_text() for folder in _results(tmp_path))
    assert steps == repeated


@pytest.mark.parametrize(
    "name", ["DistributedDataParallelCPU", "all_gather_object_subgroup", "isend", "send_recv_with_tag"]
)
def test_pytorchs_own_tests(torch_python: str, tmp_path: Path, name: str) -> None:
    program = [torch_python, str(HERE / "suite_ranks.py"), str(tmp_path / "suite"), f"test_{name}"]
    status, said, complained = launched(
        tmp_path, "--ranks", "4", "--compute", "0ms", "--as", "gloo", "--", *program
    )
    passed = [f"[{rank}] passed test_{name} " for rank in range(4)]
    assert (status, sorted(line for line in said if " test_" in line)) == (0, passed), complained


def launched_steps(
    torch_python: str, folder: Path, *arguments: str
) -> tuple[list[str], list[dict[str, str]]]:
    """Output of a job of three ranks of step_ranks.py, and its steps."""
    command = [torch_python, str(HERE / "step_ranks.py"), *arguments]
    status, said, complained = launched(
        folder, "--ranks", "3", "--compute", "1ms", "--as", "gloo", "--", *command
    )
    assert status == 0, complained
    said += complained.splitlines()
    [results] = _results(folder)
    with (results / "operations.csv").open(newline="") as stream:
        return said, list(csv.DictReader(stream))


@pytest.mark.parametrize(
    "kind", ["idle", "critic", "in turn", "by closure", "by grad", "of a vector", "diverging"]
)
def test_a_step_is_one_that_had_gradients(torch_python: str, tmp_path: Path, kind: str) -> None:
    said, steps = launched_steps(torch_python, tmp_path, kind)
    check_steps(said, steps)
    assert any("not finite" in line for line in said) == (kind == "diverging")


def check_steps(said: list[str], steps: list[dict[str, str]]) -> None:
    """Hold the losses of steps against those that rank 0 has printed, and the time that each computes."""
    expected = [line.split(" ")[2] for line in said if line.startswith("[0] ")]
    assert [float(step["loss"] or "nan") for step in steps] == pytest.approx(
        [float(loss or "nan") for loss in expected], rel=1e-7, nan_ok=True
    )
    assert min(int(step["end_ns"]) - int(step["begin_ns"]) for step in steps) >= 1_000_000


def test_an_optimizer_that_another_outruns_hands_over(torch_python: str, tmp_path: Path) -> None:
    said, steps = launched_steps(torch_python, tmp_path, "phases")
    check_steps(said, steps)
    named = "Steps are of SGD (from step 0) and Adam (from step 2) and AdamW (from step 5)"
    assert any(named in line for line in said)


@pytest.mark.parametrize("kind", ["scaled", "scaled, sharded"])
def test_amp_changes_neither_losses_nor_steps(torch_python: str, tmp_path: Path, kind: str) -> None:
    check_steps(*launched_steps(torch_python, tmp_path, kind))
