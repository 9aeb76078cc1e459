"""The metrics of a collective, which goes on when it cannot show them."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mrc_testbed.metrics.measured import read_measured
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.job_ring import running_jobs
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import Program

RECORD = OperationRecord(1_000, 2_000, 5_000, 10, 4096, 0, "h0")


def collective(compute_ns: int | None) -> Collective:
    """Four ranks that add 4 KiB up."""
    ranks = ("h0", "h1", "h2", "h3")
    return Collective("all-reduce", ranks, 4096, "float32", "sum", 1, compute_ns=compute_ns)


def test_operations_and_steps_are_counted_with_the_bytes_of_the_bus(tmp_path: Path) -> None:
    shown = OperationPublisher(tmp_path)
    shown.completed("job", collective(None), RECORD)
    shown.completed("job", collective(1_000), RECORD)
    shown.close()
    operations, steps = read_measured(tmp_path)
    assert (operations.what, operations.kind, operations.times.count) == ("collective", "all-reduce", 2)
    assert operations.size_bytes == 2 * 6144  # 2 (n - 1) / n of 4096
    assert operations.times.sum_ns == 2 * 3_000
    assert (steps.what, steps.workload, steps.times.sum_ns) == ("step", "job", 4_000)


def test_steps_of_a_program_are_counted_and_shown(tmp_path: Path) -> None:
    shown = OperationPublisher(tmp_path)
    shown.completed("job", Program(("h0", "h1"), ("./train",)), RECORD)
    [steps] = read_measured(tmp_path)
    assert (steps.what, steps.kind, steps.workload, steps.times.sum_ns) == ("step", "program", "job", 4_000)
    [job] = running_jobs(tmp_path)
    assert (job.word, job.ranks, [step.last_rank for step in job.steps]) == ("step", ("h0", "h1"), ["h0"])
    shown.close()


def test_a_later_job_of_the_same_name_may_have_other_ranks(tmp_path: Path) -> None:
    shown = OperationPublisher(tmp_path)
    shown.completed("job", collective(1_000), RECORD)
    shown.completed("job", replace(collective(1_000), ranks=("h4", "h5")), replace(RECORD, last_rank="h5"))
    [job] = running_jobs(tmp_path)
    assert job.ranks == ("h4", "h5")
    assert [step.last_rank for step in job.steps] == ["h5"]
    shown.close()
    assert running_jobs(tmp_path) == []


def test_a_job_that_has_ended_is_shown_no_more_and_stays_counted(tmp_path: Path) -> None:
    shown = OperationPublisher(tmp_path)
    for name in ("first", "second"):
        shown.completed(name, collective(1_000), RECORD)
    shown.ended("first")
    assert [job.name for job in running_jobs(tmp_path)] == ["second"]
    shown.ended("first")
    assert [times.times.count for times in read_measured(tmp_path)] == [2, 1, 1]
    shown.close()


def test_a_lab_that_is_gone_or_a_full_disk_harms_no_workload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    shown = OperationPublisher(lab)
    shutil.rmtree(lab)
    with caplog.at_level(logging.WARNING):
        shown.completed("job", collective(None), RECORD)
        shown.completed("job", collective(None), RECORD)
    shown.close()
    assert len(caplog.records) == 1
    assert "will not show operations" in caplog.text
