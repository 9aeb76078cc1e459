"""The jobs of a lab as its watchers read them."""

import subprocess
import sys
from pathlib import Path

from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.job_ring import RING_STEPS, JobRing, RunningJob, running_jobs
from mrc_testbed.workloads.operation_record import OperationRecord

RANKS = ("h0", "h1", "h2")
JOB = Collective("all-reduce", RANKS, 4096, "float32", "sum", 1, compute_ns=1000)


def record(at: int) -> OperationRecord:
    return OperationRecord(10 * at, 10 * at + 1, 10 * at + 9, 0, 1, 0, RANKS[at % 3])


def test_a_job_is_there_while_it_runs(tmp_path: Path) -> None:
    assert running_jobs(tmp_path) == []
    ring = JobRing(tmp_path, "job", JOB)
    assert running_jobs(tmp_path) == [RunningJob("job", "step", RANKS, ())]
    ring.add(record(0))
    ring.add(record(1))
    [job] = running_jobs(tmp_path)
    assert job.steps == ((0, 9, "h0"), (10, 19, "h1"))
    ring.close()
    assert running_jobs(tmp_path) == []


def test_of_many_steps_the_latest_are_kept(tmp_path: Path) -> None:
    ring = JobRing(tmp_path, "job", JOB)
    for at in range(RING_STEPS + 5):
        ring.add(record(at))
    [job] = running_jobs(tmp_path)
    assert job.steps[-1] == (10 * (RING_STEPS + 4), 10 * (RING_STEPS + 4) + 9, RANKS[(RING_STEPS + 4) % 3])
    begins = [step.begin_ns for step in job.steps]
    assert begins == list(range(begins[0], 10 * (RING_STEPS + 5), 10))
    assert RING_STEPS // 2 < len(begins) < RING_STEPS
    ring.close()


def test_what_a_killed_process_left_is_no_job(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from mrc_testbed.workloads.collective import Collective\n"
        "from mrc_testbed.workloads.job_ring import JobRing\n"
        "job = Collective('broadcast', ('h0', 'h1'), 64, 'int32', 'sum', 1)\n"
        "ring = JobRing(pathlib.Path(sys.argv[1]), 'job', job)\n"
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert len(list((tmp_path / "jobs").iterdir())) == 1
    assert running_jobs(tmp_path) == []
