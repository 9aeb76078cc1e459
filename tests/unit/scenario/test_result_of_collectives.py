"""The results of a run about collectives and training."""

import csv
import json
from pathlib import Path

import pytest
from document_text import document
from virtual_trial import Trial

from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.workloads.operation_record import OperationRecord

MS = 1_000_000
TEXT = document("""\
Scenario {name: job}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 5Mbit}
  workloads:
    - {name: job, kind: training, compute: 60ms, size: 1MiB, warmup: 500ms, duration: 1s}
    - {name: beside, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 1s}
  expect: ["p99(step_time(job)) < 101ms", "job_throughput(job) > 9"]
""")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    trial = Trial(TEXT)
    # a step each 100 ms, from the begin of the run to well after it
    steps = [
        OperationRecord(
            at,
            at + 60 * MS,
            at + 100 * MS,
            reaction_ns=7000,
            compared_bytes=4 << 20,
            wrong_bytes=0,
            last_rank="h1",
        )
        for at in range(1, 3000 * MS, 100 * MS)
    ]
    trial.change["operations job"].append(lambda _: steps)
    return trial.execute(tmp_path_factory.mktemp("runs"))


def test_expectations_on_steps_are_judged(finished: FinishedRun) -> None:
    assert [outcome.has_passed for outcome in finished.result.verdict.outcomes] == [True, True]


def test_times_are_written_from_the_median_on(finished: FinishedRun) -> None:
    shown = finished.result.collectives["job"].step
    assert shown is not None
    assert shown.shown() == ["100 ms"] * 4


def test_the_manifest_reports_collectives_and_steps_apart(finished: FinishedRun) -> None:
    job, beside = json.loads((finished.folder / "manifest.json").read_text())["workloads"]
    assert (job["kind"], beside["kind"], beside["collective"]) == ("training", "write-bw", None)
    found = job["collective"]
    assert (found["kind"], found["size_bytes"], found["reaction_ns"]) == ("all-reduce", 1 << 20, 7000)
    assert found["operation"]["p50_ns"] == 40 * MS
    assert found["step"]["max_ns"] == 100 * MS
    assert found["step"]["count"] in (9, 10)  # the measured second, without its warm-up
    assert found["busbw_bps"] == pytest.approx((1 << 20) * 8 / 0.040 * 2 * 3 / 4, rel=1e-6)


def test_every_operation_has_a_line_on_the_axis_of_the_run(finished: FinishedRun) -> None:
    with (finished.folder / "operations.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 30
    assert {row["workload"] for row in rows} == {"job"}
    assert [int(row["end_ns"]) - int(row["step_begin_ns"]) for row in rows] == [100 * MS] * 30
    assert int(rows[0]["step_begin_ns"]) < 0


def test_the_summary_has_a_table_of_collectives(finished: FinishedRun) -> None:
    summary = (finished.folder / "summary.md").read_text()
    [row] = [line for line in summary.splitlines() if line.startswith("| job | all-reduce")]
    assert row.endswith("| 315 Mbit/s | 100 ms | 100 ms | 100 ms |")


def test_a_run_without_collectives_has_no_file_of_operations(tmp_path: Path) -> None:
    text = TEXT.replace("training, compute: 60ms,", "sendrecv,").split("  expect")[0]
    folder = Trial(text).execute(tmp_path).folder
    assert not (folder / "operations.csv").exists()
    assert "collective" not in (folder / "summary.md").read_text()
