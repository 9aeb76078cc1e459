"""The fidelity guard: is every run of an overloaded lab flagged, and none of a lab the machine can carry?

Overloaded: ports of 2 Gbit/s, eight hosts sending across T1s, some twenty times what two cores carry. Calm:
the default lab, unshaped, and the same with ports of 25 Mbit/s, a third of what two cores carry. Run it on
a machine that does nothing else: what disturbs a calm run is then the guard's business.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.transfer import live_lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.scenario.execution import execute
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.spec import TopologySpec

RUNS = 20
CALM_RATE_BPS = 25_000_000
OVERLOAD_RATE_BPS = 2_000_000_000
SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {{name: guard}}
spec:
  topology: {{{topology}}}
  workloads:
    - {{name: main, kind: sendrecv, size: 64KiB, shift: 4, duration: 1s, warmup: 200ms}}
  expect: [wrong_bytes == 0]
"""


def _part(name: str, rate_bps: int | None, flagged: int) -> Iterator[Figure]:
    with live_lab(TopologySpec(port_rate=rate_bps)) as lab:
        verdicts = [_verdict(lab) for _ in range(RUNS)]
    count = sum(verdict is Status.UNTRUSTED for verdict in verdicts)
    yield Figure("guard", f"{name}: flagged, of {RUNS} runs", "runs", (count,), str(flagged))


PARTS = {
    "overloaded": partial(_part, "overloaded lab, ports of 2 Gbit/s", OVERLOAD_RATE_BPS, RUNS),
    "calm": partial(_part, "default lab, ports of 25 Mbit/s", CALM_RATE_BPS, 0),
    "unshaped": partial(_part, "default lab, unshaped", None, 0),
}


def run() -> Iterator[Figure]:
    for part in PARTS.values():
        yield from part()


def _verdict(lab: Lab) -> Status:
    topology = "" if lab.spec.port_rate is None else f"port_rate: {lab.spec.port_rate // 10**6}Mbit"
    text = SCENARIO.format(topology=topology)
    with (
        tempfile.TemporaryDirectory() as folder,
        catching_signals() as clock,
        live_world(lab, clock) as world,
    ):
        plan = resolve(load_scenario(text))
        return execute(plan, text, world, LiveLab(lab), Path(folder)).result.verdict.status
