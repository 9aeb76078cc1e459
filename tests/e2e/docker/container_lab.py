"""The lab of these tests, and what Docker and the kernel know of it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.fabric.process import find_marked
from mrc_testbed.topology.spec import TopologySpec

SMALL = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1)
"""Six switches, two hosts."""


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


def containers(lab: str) -> list[str]:
    """Names of the lab's containers, stopped ones too, sorted."""
    listed = docker("ps", "--all", "--filter", f"label=mrc-testbed.lab={lab}", "--format", "{{.Names}}")
    return sorted(listed.split())


def inspect(container: str) -> dict[str, Any]:
    """All that Docker knows of a container."""
    found: list[dict[str, Any]] = json.loads(docker("inspect", container))
    return found[0]


def mounts() -> list[str]:
    """Everything mounted, as the kernel lists it."""
    return Path("/proc/self/mounts").read_text().splitlines()


def observe_leftovers(lab: str, state_dir: Path) -> list[str]:
    """Everything on the machine that belongs to *lab*."""
    left = [f"container {name}" for name in containers(lab)]
    left += [f"namespace {name}" for name in namespace_names() if name.startswith(f"mrc-{lab}-")]
    left += [f"process {process.pid}" for process in find_marked(lab)]
    left += [f"mount {line}" for line in mounts() if f"/mrc-{lab}-" in line]
    left += [f"file {path}" for path in (*state_dir.glob(f"{lab}*"), *state_dir.glob(f"bpffs/{lab}"))]
    return left
