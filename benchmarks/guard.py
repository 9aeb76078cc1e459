"""The fidelity guard: is every run of an overloaded lab flagged, and none of a lab the machine can carry?

Overloaded: ports of 2 Gbit/s, eight hosts sending across T1s, some twenty times what two cores carry. Calm:
the default lab, unshaped, and the same with ports of 25 Mbit/s, a third of what two cores carry. Run it on
a machine that does nothing else: what disturbs a calm run is then the guard's business.

Busy: ready scenarios, live, while a process keeps one core busy, each beside the same run in virtual time.
"""

import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual.world import run_virtually

RUNS = 20
CALM_RATE_BPS = 25_000_000
OVERLOAD_RATE_BPS = 2_000_000_000
BUSY_RUNS = 10
BUSY_SCENARIOS = [
    Path("scenarios") / f"{name}.yaml" for name in ("gray-loss", "t0-t1-flap", "training-gray-t1")
]
TRUSTED, CERTAIN, UNCERTAIN, CONTRADICTED = (
    "trusted",
    "certain expectations",
    "expectations that lateness could have turned",
    "certain expectations that virtual time contradicts",
)
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


@contextmanager
def _busy_core() -> Iterator[None]:
    """A process of our own that uses all of one core."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _spin() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    while True:
        pass


def _busy() -> Iterator[Figure]:
    found: Counter[str] = Counter()
    for path in BUSY_SCENARIOS:
        for number in range(BUSY_RUNS):
            scenario = load_scenario(path)
            found.update(_beside_virtual_time(resolve(scenario, seed=scenario.spec.seed + number)))
    runs = BUSY_RUNS * len(BUSY_SCENARIOS)
    for name, unit, target in (
        (TRUSTED, "runs", ""),
        (CERTAIN, "expectations", ""),
        (UNCERTAIN, "expectations", ""),
        (CONTRADICTED, "expectations", "0"),
    ):
        yield Figure("guard", f"one core busy, {runs} runs: {name}", unit, (found[name],), target)


def _beside_virtual_time(plan: Plan) -> Iterator[str]:
    """Names of what to count of a run of *plan* with one core busy; prints contradictions."""
    with tempfile.TemporaryDirectory() as folder:
        exact = run_virtually(plan, None, Path(folder)).result.verdict
        with (
            live_lab(plan.topology) as lab,
            catching_signals() as clock,
            live_world(lab, plan, clock) as world,
            _busy_core(),
        ):
            late = execute(plan, None, world, LiveLab(lab), Path(folder)).result.verdict
    yield from [TRUSTED] * late.is_trusted
    for found, right in zip(late.outcomes, exact.outcomes, strict=True):
        yield CERTAIN if found.is_certain else UNCERTAIN
        if found.is_certain and found.answer != right.answer:
            print(f"{plan.scenario}, seed {plan.seed}: {found.reason}; in virtual time {right.reason}")
            yield CONTRADICTED


PARTS: dict[str, Callable[[], Iterator[Figure]]] = {
    "overloaded": partial(_part, "overloaded lab, ports of 2 Gbit/s", OVERLOAD_RATE_BPS, RUNS),
    "calm": partial(_part, "default lab, ports of 25 Mbit/s", CALM_RATE_BPS, 0),
    "unshaped": partial(_part, "default lab, unshaped", None, 0),
    "busy": _busy,
}


def run() -> Iterator[Figure]:
    for part in PARTS.values():
        yield from part()


def _verdict(lab: Lab) -> Status:
    topology = "" if lab.spec.port_rate is None else f"port_rate: {lab.spec.port_rate // 10**6}Mbit"
    text = SCENARIO.format(topology=topology)
    plan = resolve(load_scenario(text))
    with (
        tempfile.TemporaryDirectory() as folder,
        catching_signals() as clock,
        live_world(lab, plan, clock) as world,
    ):
        return execute(plan, text, world, LiveLab(lab), Path(folder)).result.verdict.status
