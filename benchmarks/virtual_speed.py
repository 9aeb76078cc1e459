"""CPU time (user and system) of large runs in virtual time, from the command to the report.

`permutation` runs by turns with UEC's htsim where the variable HTSIM_UEC names its program: htsim_uec of
github:ultraethernet/uet-htsim (40ccb05), with the same leaf-spine, flows, rate, MTU and length, 128 paths.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

ROOT: Final = Path(__file__).parents[1]
HTSIM: Final = Path(__file__).with_name("htsim")
COMMAND: Final = Path(sys.executable).with_name("mrc-testbed")
REPETITIONS: Final = 3
FLOW_BYTES: Final = 20_000_000
"""More than a flow sends in the time."""


def permutation() -> Iterator[Figure]:
    """256 NICs of 400 Gbit/s for 300 us."""
    ours, theirs = [], []
    program = os.environ.get("HTSIM_UEC")
    with tempfile.TemporaryDirectory() as folder:
        traffic = Path(folder, "permutation.cm")
        traffic.write_text(_traffic(HTSIM / "permutation.yaml"))
        for _ in range(REPETITIONS):
            ours.append(_run_cpu_s(HTSIM / "permutation.yaml"))
            if program is not None:
                limits = ("-mtu", "4096", "-linkspeed", "400000", "-sender_cc_only", "-end", "300")
                files = ("-nodes", "256", "-topo", str(HTSIM / "leaf-spine.topo"), "-tm", str(traffic))
                theirs.append(_cpu_s([program, *files, *limits, "-seed", "1", "-paths", "128"], folder))
    yield Figure("virtual_speed", "permutation of 256 NICs, 300 us", "s of CPU", tuple(ours))
    if theirs:
        ratios = tuple(each / other for each, other in zip(ours, theirs, strict=True))
        yield Figure("virtual_speed", "permutation of 256 NICs: htsim", "s of CPU", tuple(theirs))
        yield Figure("virtual_speed", "permutation of 256 NICs: of htsim's CPU time", "", ratios, "<= 0.33")


def ranks() -> Iterator[Figure]:
    """Operations of 1 024 ranks."""
    for name, target in (("all-reduce-1024", ""), ("training-1024-flap", "<= 120")):
        cpu_s = _run_cpu_s(ROOT / "scenarios" / "true" / f"{name}.yaml")
        yield Figure("virtual_speed", f"true/{name}", "s of CPU", (cpu_s,), target)


PARTS: Final = {"permutation": permutation, "ranks": ranks}


def run() -> Iterator[Figure]:
    for part in PARTS.values():
        yield from part()


def _traffic(scenario: Path) -> str:
    """The flows of a scenario, as htsim reads them."""
    [workload] = resolve(load_scenario(scenario)).workloads
    flows = [(flow.source.removeprefix("h"), flow.target.removeprefix("h")) for flow in workload.flows]
    lines = [
        f"{source}->{target} id {number} start 0 size {FLOW_BYTES}"
        for number, (source, target) in enumerate(flows, 1)
    ]
    return "\n".join((f"Nodes {len(flows)}", f"Connections {len(flows)}", *lines, ""))


def _run_cpu_s(scenario: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return _cpu_s([str(COMMAND), "run", "--virtual", "--runs", folder, str(scenario)], folder)


def _cpu_s(command: Sequence[str], folder: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
