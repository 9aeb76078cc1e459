"""Where and with what a run was made: versions, kernel, CPU. Reads the machine, changes nothing."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Provenance:
    """The facts that one needs to judge, and to repeat, a run."""

    # mrc_testbed, python, kernel: versions
    mrc_testbed: str
    python: str
    kernel: str
    architecture: str  # of the machine, such as x86_64
    cpu: str  # model name; `unknown` where the kernel does not tell
    cpu_count: int  # CPUs this process may use
    memory_bytes: int  # of the machine
    lab: str  # name of the lab
    runtime: str  # `docker` or `netns`
    machine: str = ""  # its host name; empty where 0.3.0 wrote the manifest


def observe_provenance(lab: str, runtime: str) -> Provenance:
    """The provenance of a run made now on this machine."""
    return Provenance(
        mrc_testbed=version("mrc-testbed"),
        python=platform.python_version(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=cpu_model(),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        lab=lab,
        runtime=runtime,
        machine=platform.node(),
    )


def cpu_model() -> str:
    """Return the model name in /proc/cpuinfo; some architectures have none."""
    for line in _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return "unknown"
