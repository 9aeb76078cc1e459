"""Memory: of a NIC agent, and of the machine per node of a 96 + 32 lab (runtime netns)."""

import gc
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bring_up import SIZES
from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec


def run() -> Iterator[Figure]:
    with live_lab(TopologySpec()) as lab:
        with Transfer(lab, 0, 5) as transfer:
            transfer.start()
            pause(0.5)
            transfer.finish()
            busy = _agent_rss_mib(lab)
        yield Figure("footprint", "NIC agent, resident, the largest of 8", "MiB", (max(busy),), "<= 60")
        yield Figure(
            "footprint", "our processes at the 16 switches", "process", (_switch_processes(lab),), "0"
        )
    gc.collect()
    before_mib = _used_mib()
    with live_lab(SIZES[1].spec) as lab:
        grown_mib = _used_mib() - before_mib
        nodes = lab.clos.numbering.switch_count + lab.clos.numbering.host_count
        yield Figure("footprint", "machine memory per node, 96 + 32 nodes", "MiB", (grown_mib / nodes,))


def _agent_rss_mib(lab: Lab) -> list[float]:
    return [
        int(_status_field(process.pid, "VmRSS")) / 1024
        for process in lab.state.processes
        if process.node is not None
    ]


def _status_field(pid: int, name: str) -> str:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split()[1]
    raise LookupError(name)


def _switch_processes(lab: Lab) -> int:
    """Processes whose network namespace is a switch's."""
    namespaces = {lab.namespace(switch.name).stat().st_ino for switch in lab.clos.switches()}
    count = 0
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            count += entry.stat().st_ino in namespaces
        except (FileNotFoundError, ProcessLookupError):  # it ended since the folder was read
            continue
    return count


def _used_mib() -> float:
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    total, available = (int(fields[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    return (total - available) / 1024
