"""CPU time (user and system) of commands that do next to nothing: the wait before anything begins.

Each is a ratio to that of `python -c 'import numpy'`, of the same installation and called by turns, so that a
busy machine slows down both. Bytecode is cached, as `make setup` leaves it: the first turn is not counted.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.figure import Figure
from benchmarks.transfer import live_lab
from mrc_testbed.topology.spec import TopologySpec

COMMAND: Final = str(Path(sys.executable).with_name("mrc-testbed"))
TURNS: Final = 9
UNIT: Final = (sys.executable, "-c", "import numpy")
PLAIN: Final = {
    "--help": "<= 1",
    "--version": "",
    "status": "",
    "fault add --help": "",
    "fault add loss --help": "<= 1.5",
    "run --help": "",
    "run --dry-run t0-t1-flap": "<= 2.5",
    "validate t0-t1-flap": "",
}
"""Command line, with no lab up -> its goal."""
TYPED: Final = ("st", "ev list h", "fault add l", "run t")
"""Command lines that TAB completes."""


def commands() -> Iterator[Figure]:
    """Commands without a lab."""
    with tempfile.TemporaryDirectory() as folder:
        empty = _cached(folder) | {"MRC_TESTBED_STATE_DIR": f"{folder}/state"}
        lines: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
            line: ((COMMAND, *line.split()), empty) for line in PLAIN
        }
        for line in TYPED:
            asked = {
                "_MRC_TESTBED_COMPLETE": "complete_bash",
                "COMP_WORDS": f"mrc-testbed {line}",
                "COMP_CWORD": str(len(line.split())),
            }
            lines[f"TAB after `{line}`"] = (COMMAND,), empty | asked
        units, samples = _by_turns(lines, empty)
    yield Figure("startup", "python -c 'import numpy'", "s of CPU", units)
    for name, taken in samples.items():
        ratios = tuple(sample / median(units) for sample in taken)
        yield Figure("startup", name, "ratio", ratios, PLAIN.get(name, ""))


def with_lab() -> Iterator[Figure]:
    """`status` of a lab that is up."""
    with tempfile.TemporaryDirectory() as folder, live_lab(TopologySpec()) as lab:
        cached = _cached(folder)
        units, samples = _by_turns({"status": ((COMMAND, "status", "-n", lab.name), cached)}, cached)
    ratios = tuple(sample / median(units) for sample in samples["status"])
    yield Figure("startup", "status, the default lab", "ratio", ratios)


PARTS: Final = {"commands": commands, "lab": with_lab}


def run() -> Iterator[Figure]:
    yield from commands()
    yield from with_lab()


def _cached(folder: str) -> dict[str, str]:
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}


def _by_turns(
    lines: Mapping[str, tuple[Sequence[str], Mapping[str, str]]], environment: Mapping[str, str]
) -> tuple[tuple[float, ...], dict[str, tuple[float, ...]]]:
    """CPU time of the unit, and of each line by its name, of every turn but the first."""
    units: list[float] = []
    samples: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(TURNS + 1):
        units.append(_cpu_s(UNIT, environment))
        for name, line in lines.items():
            samples[name].append(_cpu_s(*line))
    return tuple(units[1:]), {name: tuple(taken[1:]) for name, taken in samples.items()}


def _cpu_s(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """User and system time of one call."""
    with subprocess.Popen(
        arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # it has been waited for
    return usage.ru_utime + usage.ru_stime
