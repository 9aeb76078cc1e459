"""`bench` in virtual time: a scenario of one workload, which `run` repeats to the byte."""

import json
from pathlib import Path

import pytest
from golden_documents import check_document

from mrc_testbed.cli.app import run

GRAY = """
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: gray}
spec:
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 10Gbit}
  transport: {evs: 8}
  workloads: [{name: other, kind: write-bw, from: h0, to: h1, size: 1MiB, duration: 1ms}]
  faults: [{id: gray, at: 0s, for: 1ms, kind: loss, ratio: 1%, select: {links: 'h0:0'}}]
"""
BENCH = ("write-bw", "h0", "h2", "-i", "20", "--qps", "2", "--virtual")


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "gray.yaml"
    path.write_text(GRAY)
    return path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(["-o", "json", "bench", *arguments]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    check_document(str(found["kind"]), found)
    return found


def test_a_bench_is_the_same_twice_and_as_the_scenario_it_saves(
    fabric: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved.yaml"
    bench = (*BENCH, "-t", str(fabric), "--seed", "3", "--cc", "fixed", "--window", "8")
    first = document(capsys, *bench, "--save", str(saved))
    assert document(capsys, *bench) == first
    assert (first["lab"], first["cc"], first["window_packets"], first["messages"]) == (
        "virtual",
        "fixed",
        8,
        40,
    )
    assert run(["-o", "json", "run", str(saved), "--virtual", "--runs", str(tmp_path)]) == 0
    [workload] = json.loads(capsys.readouterr().out)["manifest"]["workloads"]
    assert (workload["messages"], workload["compared_bytes"]) == (first["messages"], first["compared_bytes"])
    assert run(["bench", *bench, "--save", str(saved)]) == 2
    assert "cannot be written: File exists" in capsys.readouterr().err


def test_a_bench_meets_the_faults_of_a_scenario_and_keeps_a_report(
    fabric: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", *BENCH, "-t", str(fabric), "--report"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "faults              gray (loss)" in shown
    [report] = [Path(line.split()[1]) for line in shown if line.startswith("report ")]
    assert report.is_file()
    manifest = json.loads((report.parent / "manifest.json").read_text())
    assert [fault["id"] for fault in manifest["faults"]] == ["gray"]
    assert "mrc, nscc" in next(line for line in shown if line.startswith("transport"))


def test_a_sweep_has_a_run_for_each_size_and_is_saved_as_variants(
    fabric: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "sweep.yaml"
    sweep = ("all-reduce", "-b", "4KiB", "-e", "16KiB", "-i", "2", "-w", "1", "--virtual", "-t", str(fabric))
    found = document(capsys, *sweep, "--save", str(saved))
    sizes = [(size["size_bytes"], size["operation_ns"]["count"]) for size in found["sizes"]]  # type: ignore[attr-defined]
    assert sizes == [(4096, 2), (8192, 2), (16384, 2)]
    assert run(["run", str(saved), "--virtual", "--dry-run"]) == 0
    assert "16KiB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("write-bw", "h0", "h9", "--virtual"), "command line: to: there is no host 'h9'"),
        (("write-bw", "h0", "h1", "--virtual", "--size", "4"), "command line: size: '4' is not a size"),
        (("write-bw", "h0", "h1", "--virtual", "--cc", "dcqcn"), "command line: cc: "),
        (("write-bw", "h0", "h1", "--virtual", "-t", "{campaign}"), "is a Campaign file"),
        (("write-bw", "h0", "h1", "--virtual", "--save", "/proc/x"), "--save: /proc/x cannot be written"),
    ],
)
def test_bad_input_is_refused_by_its_option(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = tmp_path / "campaign.yaml"
    campaign.write_text("apiVersion: mrc-testbed/v1\nkind: Campaign\nmetadata: {name: c}\nspec: {}\n")
    assert run(["bench", *(each.format(campaign=campaign) for each in arguments)]) == 2
    assert complaint in capsys.readouterr().err
