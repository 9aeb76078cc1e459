"""Labs up and down, in both runtimes, against stock Mininet building the same graph in the same run."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.figure import Figure
from benchmarks.transfer import LAB_NAME
from mrc_testbed.fabric import lab as labs
from mrc_testbed.topology.spec import TopologySpec

REPETITIONS = 3


@dataclass(frozen=True, slots=True)
class Size:
    """A fabric by its number of switches and hosts, and how fast it is meant to be up, in s."""

    name: str
    spec: TopologySpec
    netns_s: int
    docker_s: int


SIZES = (
    Size("24 + 8 nodes", TopologySpec(planes=4, t0=2, t1=4, hosts_per_t0=4), 3, 10),
    Size("96 + 32 nodes", TopologySpec(planes=8, t0=8, t1=4, hosts_per_t0=4), 12, 40),
)


def run() -> Iterator[Figure]:
    for size in SIZES:
        for runtime, limit_s in (("netns", size.netns_s), ("docker", size.docker_s)):
            if runtime == "docker" and not _docker_answers():
                continue
            ups, downs = [], []
            for _ in range(REPETITIONS):
                ups.append(_seconds(lambda: labs.up(size.spec, name=LAB_NAME, runtime=runtime)))  # noqa: B023
                downs.append(_seconds(lambda: labs.down(LAB_NAME)))
            yield Figure("bring_up", f"{size.name}, {runtime}: up", "s", tuple(ups), f"<= {limit_s}")
            yield Figure("bring_up", f"{size.name}, {runtime}: down", "s", tuple(downs))
        if shutil.which("mnexec"):
            runs = [_stock_mininet(size.spec) for _ in range(REPETITIONS)]
            yield Figure("bring_up", f"{size.name}, stock Mininet: up", "s", tuple(run[0] for run in runs))
            yield Figure("bring_up", f"{size.name}, stock Mininet: down", "s", tuple(run[1] for run in runs))


def _seconds(work: Callable[[], object]) -> float:
    start_ns = time.monotonic_ns()
    work()
    return (time.monotonic_ns() - start_ns) / 1e9


def _docker_answers() -> bool:
    return (
        shutil.which("docker") is not None
        and not subprocess.run(["docker", "version"], capture_output=True, check=False).returncode
    )


def _stock_mininet(spec: TopologySpec) -> tuple[float, float]:
    """Seconds that Mininet, as shipped, takes for the same nodes and links; it carries no packet yet then."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.stock_mininet", spec.model_dump_json()],
        check=True,
        capture_output=True,
        text=True,
    )
    up_s, down_s = answer.stdout.split()[-2:]
    return float(up_s), float(down_s)
