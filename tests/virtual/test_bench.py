"""`bench` in virtual time: a scenario of one workload, which `run` repeats to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from golden_documents import check_document

from mrc_testbed.cli.app import run

FILE = "apiVersion: mrc-testbed/v1\nmetadata: {name: gray}\n"
GRAY = """kind: Scenario
spec:
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 10Gbit}
  workloads: [{name: other, kind: write-bw, from: h0, to: h1, size: 1MiB, duration: 1ms}]
  faults: [{id: gray, at: 0s, for: 1ms, kind: loss, ratio: 1%, select: {links: 'h0:0'}}]
"""
BENCH = "write-bw h0 h2 -i 20 --qps 2 --virtual -t gray.yaml"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gray.yaml").write_text(FILE + GRAY)
    Path("campaign.yaml").write_text(FILE + "kind: Campaign\nspec: {}\n")


def bench(line: str) -> list[str]:
    return ["bench", *line.split()]


def document(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> dict[str, Any]:
    assert run(["-o", "json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check_document(found["kind"], found)
    return found


def test_a_bench_is_the_same_twice_and_as_the_scenario_it_saves(capsys: pytest.CaptureFixture[str]) -> None:
    given = bench(f"{BENCH} --seed 3 --cc fixed --window 8")
    first = document(capsys, [*given, "--save", "saved.yaml"])
    assert document(capsys, given) == first
    assert [first[key] for key in ("lab", "cc", "window_packets", "messages")] == ["virtual", "fixed", 8, 40]
    [again] = document(capsys, ["run", "saved.yaml", "--virtual"])["manifest"]["workloads"]
    assert [again[key] for key in ("messages", "compared_bytes")] == [40, first["compared_bytes"]]
    assert run([*given, "--save", "saved.yaml"]) == 2
    assert "--save: saved.yaml cannot be written: File exists" in capsys.readouterr().err


def test_a_bench_meets_the_faults_of_a_scenario_and_keeps_a_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(bench(f"{BENCH} --report")) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "faults              gray (loss)" in shown
    [report] = [Path(line.split()[1]) for line in shown if line.startswith("report ")]
    assert report.is_file()
    manifest = json.loads((report.parent / "manifest.json").read_text())
    assert [fault["id"] for fault in manifest["faults"]] == ["gray"]


def test_a_sweep_has_a_run_for_each_size_and_is_saved_as_variants(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = bench(
        "all-to-all -b 4KiB -e 16KiB -i 2 -w 1 --hosts h3,h1,h0 --save s.yaml --virtual -t gray.yaml"
    )
    found = document(capsys, sweep)
    assert found["ranks"] == ["h3", "h1", "h0"]
    sizes = [(size["size_bytes"], size["operation_ns"]["count"]) for size in found["sizes"]]
    assert sizes == [(4096, 2), (8192, 2), (16384, 2)]
    assert run(["run", "s.yaml", "--virtual", "--dry-run"]) == 0
    assert "16KiB" in capsys.readouterr().out


def test_latency_is_half_of_a_round_trip_and_flows_have_rows(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, bench("write-lat h0 h1 -i 200 --virtual"))
    assert (found["messages"], found["latency_ns"]["typical"]) == (200, found["completion_ns"]["typical"] / 2)
    assert run(bench("sendrecv -i 20 --hosts h0,h2,h1 --virtual")) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("h", "all "))]
    assert [row[0] + row[2] for row in rows[:3]] == ["h0h2", "h2h1", "h1h0"]
    assert rows[3][:3] == ["all", "65536", "60"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("write-bw h0 h9", "command line: to: there is no host 'h9'"),
        ("write-bw h0 h0", "command line: h0 would send to itself"),
        ("write-bw h0 h1 --size 4", "command line: size: '4' is not a size: it has no unit"),
        ("write-bw h0 h1 --size 64MiB", "command line: messages of 64MiB need"),
        ("write-bw h0 h1 --cc dcqcn", "command line: cc: "),
        ("write-bw h0 h1 --transport tcp", "tcp is gone since 0.4; use mrc, rocev2"),
        ("write-bw h0 h1 --transport rocev", "did you mean 'rocev2'?"),
        ("write-bw h0 h1 -t campaign.yaml", "is a Campaign file"),
        ("write-bw h0 h1 --save /proc/x", "--save: /proc/x cannot be written"),
        ("all-reduce -b 12MiB", "needs 24MiB of memory at h0, which has 16MiB for it"),
        ("all-reduce -b 1MiB -e 4KiB", "--max-size 4KiB is less than --min-size 1MiB"),
        ("all-reduce --dtype float31", "did you mean 'float32'"),
        ("all-to-all --qps 40", "h0 would need 560 QPs; a NIC holds 32"),
        ("training --collective all-redus", "did you mean 'all-reduce'"),
    ],
)
def test_bad_input_is_refused_by_its_option(
    line: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(bench(f"{line} --virtual")) == 2
    assert complaint in capsys.readouterr().err.replace("\n", " ")
