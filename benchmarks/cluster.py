"""A campaign on a Dask cluster of this machine: speed-up by a second worker, overhead, CPU of the head.

For overhead and CPU the runs are short, so that the way to a worker and back weighs as much as it can.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import monotonic, process_time
from typing import Final

from benchmarks.figure import Figure
from mrc_agents.clock import machine_ns
from mrc_testbed.campaign.execution import carry_out_virtually, execute_in_parallel
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.workers import LocalWorkers, Workers
from mrc_testbed.cluster.connection import Cluster
from mrc_testbed.cluster.head import ClusterWorkers

ADDRESS: Final = "tcp://127.0.0.1:18786"
BY_ONE: Final = 100
RUNS: Final = 1000
SHORT_MS: Final = 20
LONG_RUNS: Final = 40
LONG_MS: Final = 400
"""A run of about a second."""

SCENARIO: Final = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {{name: one}}
spec:
  topology: {{planes: 2, t0: 1, t1: 1, hosts_per_t0: 2, port_rate: 100Mbit}}
  transport: {{kind: mrc}}
  workloads: [{{name: main, kind: write-bw, from: h0, to: h1, size: 5000B, duration: {ms}ms}}]
"""
CAMPAIGN: Final = """\
apiVersion: mrc-testbed/v1
kind: Campaign
metadata: {{name: many}}
spec: {{scenarios: [one.yaml], seeds: {{from: 1, count: {runs}}}}}
"""
_START_S: Final = 60


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        local_s, _ = _timed(_campaign(folder, BY_ONE), 1)
        with _cluster(folder, workers=1):
            short_s, _ = _timed(_campaign(folder, BY_ONE), None)
            one_s, _ = _timed(_campaign(folder, LONG_RUNS, LONG_MS), None)
        with _cluster(folder, workers=2):
            two_s, _ = _timed(_campaign(folder, LONG_RUNS, LONG_MS), None)
            whole_s, head_s = _timed(_campaign(folder, RUNS), None)
    yield Figure("cluster", "two workers over one", "times", (one_s / two_s,), ">= 1.7")
    yield Figure("cluster", "overhead of a run", "ms", ((short_s - local_s) / BY_ONE * 1e3,), "<= 30")
    yield Figure(
        "cluster", "head, 1000 runs on two workers", "% of a core", (head_s / whole_s * 100,), "<= 10"
    )


def _campaign(folder: Path, runs: int, duration_ms: int = SHORT_MS) -> CampaignFolder:
    (folder / "one.yaml").write_text(SCENARIO.format(ms=duration_ms))
    file = folder / "campaign.yaml"
    file.write_text(CAMPAIGN.format(runs=runs))
    return CampaignFolder.create(folder / "campaigns", plan_campaign(file))


def _timed(campaign: CampaignFolder, jobs: int | None) -> tuple[float, float]:
    """Seconds that the runs take, and CPU seconds of this process; None for the cluster's workers.

    One run goes ahead, as processes start with the first.
    """
    with ExitStack() as stack:
        workers = stack.enter_context(_workers(stack, campaign, jobs))
        while not workers.room():
            workers.wait()
        workers.begin(campaign.plan.runs[0])
        while not (done := workers.wait()):
            pass
        campaign.note(done[0])
        began, cpu = monotonic(), process_time()
        if execute_in_parallel(campaign, workers, progress=lambda _: None) != 0:
            raise RuntimeError(f"{campaign.path}: a run did not pass")
        return monotonic() - began, process_time() - cpu


def _workers(stack: ExitStack, campaign: CampaignFolder, jobs: int | None) -> AbstractContextManager[Workers]:
    if jobs is not None:
        return LocalWorkers(campaign.path, jobs, carry_out_virtually)
    cluster = stack.enter_context(Cluster(ADDRESS))
    return nullcontext(
        ClusterWorkers(cluster, campaign, is_virtual=True, runtime=None, progress=lambda _: None)
    )


@contextmanager
def _cluster(folder: Path, workers: int) -> Iterator[None]:
    """A scheduler and so many workers of one thread each, once all are there."""
    dask, preload = (
        Path(sys.executable).with_name("dask"),
        ["--no-dashboard", "--preload", "mrc_testbed.cluster"],
    )
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", ADDRESS.rpartition(":")[2]]
    of_one = ["worker", ADDRESS, "--nworkers", "1", "--nthreads", "1", "--local-directory", str(folder)]
    commands = [scheduler, *[of_one] * workers]
    started = [
        subprocess.Popen([dask, *each, *preload], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for each in commands
    ]
    try:
        end_ns = machine_ns() + _START_S * 10**9
        with Cluster(ADDRESS) as cluster:
            while cluster.room("virtual", lambda _: None) < workers:
                if machine_ns() > end_ns:
                    raise RuntimeError("the workers did not come")
                cluster.look("virtual", lambda _: None)
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
