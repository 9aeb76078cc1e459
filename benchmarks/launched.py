"""All-reduce of programs that `launch` starts, four ranks on ports without a rate: libmrc_coll from C, the
backend `mrc` and gloo by torch (needs `make torch`), and the NIC agents' own `bench all-reduce`, by turns.

What torch adds is the all-reduce of 4 bytes by the backend less that from C. Memory is what a rank's largest
resident set grows by from the import of torch on, 1 MiB of data and its copies included.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.applications import COMMAND
from benchmarks.figure import Figure
from benchmarks.transfer import live_lab
from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = ROOT / "build" / "torch" / "bin" / "python"
SOURCES: Final = ROOT / "benchmarks" / "ranks"
HOSTS: Final = "h0,h1,h2,h3"
REPETITIONS: Final = 5
MIB: Final = 1 << 20


def run() -> Iterator[Figure]:
    by_c, by_mrc, by_gloo, by_agents = [], [], [], []
    with live_lab(TopologySpec()) as lab, TemporaryDirectory() as folder:
        program = _compiled(Path(folder))
        for _ in range(REPETITIONS):
            by_c.append(_launched(lab, program))
            by_agents.append(_agents_ms(lab))
            if PYTHON.exists():
                by_mrc.append(_launched(lab, str(PYTHON), str(SOURCES / "all_reduce.py"), "mrc"))
                by_gloo.append(_launched(lab, str(PYTHON), str(SOURCES / "all_reduce.py"), "gloo"))
    yield _figure("libmrc_coll from C, 1 MiB", "ms", [each[MIB] / 1e6 for each in by_c], "<= 8")
    yield _figure("libmrc_coll from C, 4 B", "us", [each[4] / 1e3 for each in by_c])
    yield _figure("`bench all-reduce`, 1 MiB", "ms", by_agents)
    if not by_mrc:
        return
    yield _figure("torch, backend mrc, 1 MiB", "ms", [each[MIB] / 1e6 for each in by_mrc])
    yield _figure("torch, gloo on the management network, 1 MiB", "ms", [each[MIB] / 1e6 for each in by_gloo])
    added = [(ours[4] - alone[4]) / 1e3 for ours, alone in zip(by_mrc, by_c, strict=True)]
    yield _figure("what torch adds to 4 B", "us", added, "<= 40")
    ratios = [ours[MIB] / 1e6 / agents for ours, agents in zip(by_mrc, by_agents, strict=True)]
    yield _figure("torch, backend mrc, 1 MiB, over `bench all-reduce`", "ratio", ratios, "<= 1.10")
    yield _figure("memory of a rank beyond torch", "MiB", [each[-1] / MIB for each in by_mrc], "<= 30")


def _figure(name: str, unit: str, samples: list[float], target: str = "") -> Figure:
    return Figure("launched", name, unit, tuple(samples), target)


def _compiled(folder: Path) -> str:
    program = str(folder / "all_reduce")
    flags = ["-O2", "-I", str(ROOT / "agents/mrc_agents" / "collectives"), "-L", str(OBJECTS_DIR)]
    source = str(SOURCES / "all_reduce.c")
    subprocess.run(["clang", *flags, source, "-o", program, "-lmrc_coll", "-libverbs"], check=True)
    return program


def _launched(lab: Lab, *program: str) -> dict[int, int]:
    """Bytes to ns; -1 to the bytes of memory."""
    command = [str(COMMAND), "-n", lab.name, "launch", "--hosts", HOSTS, "--", *program]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.removeprefix("[0] ").split() for line in said.splitlines()]
    return {-1 if name == "memory" else int(name): int(value) for name, value in rows}


def _agents_ms(lab: Lab) -> float:
    command = [
        str(COMMAND),
        "-n",
        lab.name,
        "-o",
        "json",
        "bench",
        "all-reduce",
        "--hosts",
        HOSTS,
        "-b",
        "1MiB",
    ]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    milliseconds: float = json.loads(said)["sizes"][0]["operation_ns"]["p50"] / 1e6
    return milliseconds
