"""Collectives: how fast one process drives the ranks, and how much of a shaped fabric they use.

Unshaped, an all-reduce of a few bytes is nothing but reactions: 14 messages one after the other through eight
ranks, each from the kernel to an agent, to the process that drives the ranks, and back to another agent. The
operations per second are what that process can do; messages are all ranks' together.

Shaped at 25 Mbit/s ports, the bus bandwidth of large all-reduces is compared with what the busiest NIC's
ports carry of payload (2048 of 2174 bytes per packet): the rest are SACKs of what comes in by the same ports,
and reaction time that slices did not hide.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.applications import COMMAND
from benchmarks.figure import Figure
from benchmarks.transfer import live_lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import format_size_bytes

REPETITIONS: Final = 5
PORT_RATE_BPS: Final = 25_000_000
PAYLOAD_SHARE: Final = 2048 / 2174


def run() -> Iterator[Figure]:
    with live_lab(TopologySpec()) as lab:
        results = [_all_reduce(lab, 4096, iterations=100) for _ in range(REPETITIONS)]
        ranks = len(list(lab.clos.hosts()))
        messages = ranks * 2 * (ranks - 1)
        per_second = tuple(1e9 / result["operation_ns"]["mean"] for result in results)
        what = f"all-reduce of 4KiB, {ranks} ranks, unshaped"
        yield Figure("collective", f"{what}: operations", "op/s", per_second)
        yield Figure("collective", f"{what}: messages", "message/s", tuple(messages * x for x in per_second))
        reactions = tuple(result["reaction_ns"] / 1e3 for result in results)
        yield Figure("collective", f"{what}: mean reaction", "us", reactions)
        yield Figure("collective", f"{what}: wrong bytes", "B", (_wrong(results),), "0")
    spec = TopologySpec(port_rate=PORT_RATE_BPS, t1=4, hosts_per_t0=2)
    with live_lab(spec) as lab:
        yield from _shaped(lab, spec)


def _shaped(lab: Lab, spec: TopologySpec) -> Iterator[Figure]:
    line_bps = spec.planes * PORT_RATE_BPS * PAYLOAD_SHARE
    for size_bytes in (256 << 10, 1 << 20, 4 << 20):
        results = [_all_reduce(lab, size_bytes, iterations=4) for _ in range(3)]
        shares = tuple(100 * result["busbw_bps"] / line_bps for result in results)
        what = f"all-reduce of {size_bytes >> 10}KiB, 4 ranks, 25 Mbit/s ports"
        yield Figure("collective", f"{what}: busbw of the line's payload rate", "%", shares)
        yield Figure("collective", f"{what}: wrong bytes", "B", (_wrong(results),), "0")


def _all_reduce(lab: Lab, size_bytes: int, *, iterations: int) -> dict[str, Any]:
    """The figures of `bench all-reduce` for one size."""
    options = f"-b {format_size_bytes(size_bytes)} -i {iterations} -w 1".split()
    command = [str(COMMAND), "-n", lab.name, "-o", "json", "bench", "all-reduce", *options]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    [found] = json.loads(said)["sizes"]
    return dict(found)


def _wrong(results: list[dict[str, Any]]) -> int:
    return sum(result["wrong_bytes"] for result in results)
