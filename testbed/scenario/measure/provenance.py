"""Where and with what a run was made: versions, kernel, CPU. Reads the machine, changes nothing."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The facts that one needs to judge, and to repeat, a run.

    Attributes:
        mrc_testbed, python, kernel: versions.
        architecture: of the machine, such as x86_64.
        cpu: model name; `unknown` where the kernel does not tell.
        cpu_count: CPUs this process may use.
        memory_bytes: of the machine.
        lab: name of the lab.
        runtime: `docker` or `netns`.
        machine: its host name; empty where 0.3.0 wrote the manifest.
    """

    mrc_testbed: str
    python: str
    kernel: str
    architecture: str
    cpu: str
    cpu_count: int
    memory_bytes: int
    lab: str
    runtime: str
    machine: str = ""


def observe_provenance(lab: str, runtime: str) -> Provenance:
    """The provenance of a run made now on this machine."""
    return Provenance(
        mrc_testbed=version("mrc-testbed"),
        python=platform.python_version(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=parse_cpu_model(_CPU_INFO.read_text(encoding="utf-8", errors="replace")),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        lab=lab,
        runtime=runtime,
        machine=platform.node(),
    )


def parse_cpu_model(text: str) -> str:
    """The model name in the *text* of /proc/cpuinfo; some architectures have none."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return "unknown"
