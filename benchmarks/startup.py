"""CPU time (user and system) of commands that do next to nothing: the wait before anything begins.

Bytecode is cached, as `make setup` leaves it: the first call of each command is not counted.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure
from benchmarks.transfer import live_lab
from mrc_testbed.topology.spec import TopologySpec

COMMAND: Final = Path(sys.executable).with_name("mrc-testbed")
CALLS: Final = 7
TARGET: Final = "<= 0.25"
PLAIN: Final = {
    "--help": ("--help",),
    "status, no lab": ("status",),
    "fault add --help": ("fault", "add", "--help"),
    "version": ("--version",),
}
TYPED: Final = {
    "TAB after `st`": "st",
    "TAB after `ev list h`": "ev list h",
    "TAB after `fault add l`": "fault add l",
}


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        cached = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        cached |= {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        empty = cached | {"MRC_TESTBED_STATE_DIR": f"{folder}/state"}
        for name, arguments in PLAIN.items():
            yield _figure(name, arguments, empty)
        for line in TYPED:
            asked = {
                "_MRC_TESTBED_COMPLETE": "complete_bash",
                "COMP_WORDS": f"mrc-testbed {line}",
                "COMP_CWORD": str(len(line.split())),
            }
            yield _figure(f"TAB after `{line}`", (), empty | asked)
        with live_lab(TopologySpec()) as lab:
            yield _figure("status, the default lab", ("status", "-n", lab.name), cached)


def _figure(name: str, arguments: tuple[str, ...], environment: Mapping[str, str]) -> Figure:
    samples = [_cpu_s(arguments, environment) for _ in range(CALLS + 1)]
    return Figure("startup", name, "s of CPU", tuple(samples[1:]), TARGET)


def _cpu_s(arguments: tuple[str, ...], environment: Mapping[str, str]) -> float:
    """User and system time of one call."""
    with subprocess.Popen(
        [COMMAND, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # it has been waited for
    return usage.ru_utime + usage.ru_stime
