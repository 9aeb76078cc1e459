"""Virtual time: what a lost packet costs collectives of small messages, and what their targets would allow.

The fabric of scenarios/lossy-paths.yaml, loss on all T0-T1 links for three seconds. The cost is the time that
operations take longer, over the packets that they lose.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns
from mrc_testbed.virtual.world import run_virtually

SEEDS: Final = range(1, 9)
JOBS: Final = (
    ("all-to-all", "64KiB"),
    ("all-to-all", "256KiB"),
    ("all-reduce", "64KiB"),
    ("all-reduce", "256KiB"),
)
TARGETS: Final = {"0.1%": 0.97, "1%": 0.85}
"""Loss ratio -> share of the goodput that is to be kept."""

SCENARIO: Final = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {{name: lost-packets}}
spec:
  topology:
    planes: 4
    t0: 2
    t1: 4
    hosts_per_t0: 3
    port_rate: 15Mbit
    nic: {{qps_max: 64}}
    queue: {{links: direct}}
  workloads: [{{name: all, kind: {kind}, size: {size}, warmup: 1s, duration: 6s}}]
  faults:
    - {{id: path, at: 2s, for: 3s, kind: loss, ratio: {ratio}, select: {{links: {{between: [t0, t1]}}}}}}
"""


def _cell(kind: str, size: str, ratio: str) -> Iterator[Figure]:
    scenario = load_scenario(SCENARIO.format(kind=kind, size=size, ratio=ratio))
    per_operation, costs, allowed = [], [], []
    for seed in SEEDS:
        plan = resolve(scenario, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            measurement = Measurement(run_virtually(plan, None, Path(folder)).result.recording)
        before_ns, during_ns, operations, lost = (
            measurement.measure(parse_quantity(quantity))
            for quantity in (
                "mean(collective_time(all)) before path",
                "mean(collective_time(all)) during path",
                "operations(all) during path",
                "lost(path)",
            )
        )
        idle_rtt_ns = base_rtt_ns(resolve_topology(plan.topology))
        per_operation.append(lost / operations)
        costs.append((during_ns - before_ns) / per_operation[-1] / idle_rtt_ns)
        allowed.append((1 / TARGETS[ratio] - 1) * before_ns / per_operation[-1] / idle_rtt_ns)
    case = f"{kind} {size}, {ratio} loss"
    yield Figure("lost packets", f"{case}: lost per operation", "packets", tuple(per_operation))
    yield Figure("lost packets", f"{case}: cost of one", "idle RTT", tuple(costs))
    yield Figure("lost packets", f"{case}: cost that {TARGETS[ratio]:.0%} allow", "idle RTT", tuple(allowed))


def run() -> Iterator[Figure]:
    for ratio in TARGETS:
        for kind, size in JOBS:
            yield from _cell(kind, size, ratio)
