"""The alert MrcGrayLoss: silent in quiet runs, and how soon it fires once a T1 loses a few percent.

Runs of ten simulated minutes, of a drawn fabric under a drawn training job that takes 0.3 to 30 % of line
rate. The series that the exporter would have are written down every five seconds; Prometheus' own promtool
evaluates the rules over them.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.figure import Figure
from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.faults.interactive import parse_fault, plan_fault
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.collector import LabCollector
from mrc_testbed.metrics.exposition import Samples
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.scenario.run.signal_clock import NO_DESCRIPTOR, SignalClock
from mrc_testbed.scenario.spec.one_workload import one_workload_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual.engine import VirtualEngine, virtual_transport
from mrc_testbed.virtual.world import VirtualFaults, planned_lab

RULES = Path(__file__).parents[1] / "dashboards/rules/mrc-testbed.yaml"
QUIET_RUNS, GRAY_RUNS = 100, 20
LENGTH_S, SCRAPE_S, FAULT_S = 600, 5, 300
LIMIT_S = 120
LOSS = "3%"
LOAD_OF_GRAY = 0.01
"""One percent of line rate."""
NAMES = ("mrc_ev_transitions_total", "mrc_port_tx_packets_total", "mrc_link_suspicions_total")


_TIME = re.compile(r", time: (?:(\d+)m)?(?:(\d+)s)?,")
_GOT = re.compile(r"(\{__name__=\"ALERTS\".*\})")


@dataclass(slots=True)
class Series:
    """The series of a run, by name with labels, a value every SCRAPE_S."""

    values: dict[str, list[float]] = field(default_factory=dict)
    scrapes: int = 0

    def add(self, samples: Samples) -> None:
        labels_of = {metric.name: metric.labels for metric in METRICS}
        for name in NAMES:
            for values, value in samples.get(name, ()):
                pairs = ",".join(
                    f'{label}="{each}"' for label, each in zip(labels_of[name], values, strict=True)
                )
                series = self.values.setdefault(f"{name}{{{pairs}}}", [0.0] * self.scrapes)
                series.append(float(cast("float", value)))
        self.scrapes += 1


def draw(seed: int, load: float | None) -> Plan:
    """A fabric and a training job; *load* is the share of the ports' rate that it takes, None: drawn."""
    random = Random(seed)
    spec = TopologySpec(
        planes=random.choice((2, 4)),
        t0=random.choice((2, 4)),
        t1=random.choice((2, 4)),
        hosts_per_t0=2,
        port_rate=random.choice((25_000_000, 100_000_000)),
    )
    share = 0.003 * 100 ** random.random() if load is None else load
    compute_s = 0.1 * 20 ** random.random()
    size = max(8192, int(share * compute_s * spec.planes * (spec.port_rate or 0) / 8 / 2)) & ~4095
    values: dict[str, Any] = {
        "name": "job",
        "kind": "training",
        "compute": f"{compute_s:.3f}s",
        "collective": random.choice(("all-reduce", "all-to-all", "all-gather")),
        "size": f"{size}B",
        "duration": f"{LENGTH_S}s",
    }
    return resolve(one_workload_scenario("quiet", values, topology=spec, seed=seed))


def run_of(plan: Plan, t1: str | None) -> Series:
    """The series of a run; *t1* loses packets from FAULT_S on."""
    series = Series()
    machine = SignalClock(NO_DESCRIPTOR)
    with (
        TemporaryDirectory() as folder,
        planned_lab(plan, machine) as lab,
        closing(VirtualFaults(lab)) as faults,
        closing(VirtualEngine(lab, virtual_transport(lab, plan.transport), machine=machine)) as engine,
        closing(LabReader("lab", lab.clos, lab.fabric_pins, lab.fabric_pins)) as reader,
    ):
        paths = SimpleNamespace(folder=Path(folder), faults=Path(folder) / "faults")
        collector = LabCollector(reader, cast("LabPaths", paths))
        loads = [workload.load for workload in plan.workloads]
        engine.prepare(loads, plan.seed)
        for load in loads:
            engine.start(load.name)
        begun_ns = monotonic_ns()
        for time_s in range(0, LENGTH_S + 1, SCRAPE_S):
            engine.wait(begun_ns + time_s * 10**9)
            if time_s == FAULT_S and t1 is not None:
                fault = parse_fault("loss", f"{t1}:*", {"until": "cleared", "ratio": LOSS}, ())
                faults.apply(plan_fault(fault, lab.clos, plan.seed))
            samples: Samples = {}
            collector.collect(samples)
            series.add(samples)
    return series


def firing(series: Series, folder: Path) -> list[tuple[int, str]]:
    """When in the run, in seconds, alerts fire, with their labels: what promtool finds against "none"."""
    times = range(SCRAPE_S, LENGTH_S + 1, SCRAPE_S)
    test = {
        "interval": f"{SCRAPE_S}s",
        "input_series": [
            {"series": name, "values": " ".join(f"{value:g}" for value in values)}
            for name, values in series.values.items()
        ],
        "promql_expr_test": [
            {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{time_s}s", "exp_samples": []}
            for time_s in times
        ],
    }
    file = folder / "run.test.yaml"
    document = {"rule_files": [str(RULES)], "evaluation_interval": f"{SCRAPE_S}s", "tests": [test]}
    file.write_text(json.dumps(document))
    tested = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    found, time_s = [], 0
    for line in (tested.stdout + tested.stderr).splitlines():
        if at := _TIME.search(line):
            time_s = 60 * int(at[1] or 0) + int(at[2] or 0)
        elif at := _GOT.search(line):
            found.append((time_s, at[1]))
    if bool(tested.returncode) != bool(found):
        raise RuntimeError(tested.stdout + tested.stderr)
    return found


def quiet() -> Iterator[Figure]:
    """Quiet runs in which the alert fires."""
    with TemporaryDirectory() as folder:
        alarms = [bool(firing(run_of(draw(seed, None), None), Path(folder))) for seed in range(QUIET_RUNS)]
    yield Figure("gray alert", f"{QUIET_RUNS} quiet runs: false alarms", "", (sum(alarms),), "0")


def gray() -> Iterator[Figure]:
    """Time until the alert names a T1 that loses a few percent, and runs in which it does not in time."""
    times_s, others, late = [], 0, 0
    with TemporaryDirectory() as folder:
        for seed in range(GRAY_RUNS):
            plan = draw(seed, LOAD_OF_GRAY)
            t1 = Random(seed).choice([f"p0-t1-{number}" for number in range(plan.topology.t1)])
            found = firing(run_of(plan, t1), Path(folder))
            others += any(f'switch="{t1}"' not in labels for _, labels in found)
            first_s = min((at_s for at_s, labels in found if f'switch="{t1}"' in labels), default=LENGTH_S)
            times_s.append(first_s - FAULT_S)
            late += first_s - FAULT_S > LIMIT_S
    case = f"{LOSS} of loss at a T1, {LOAD_OF_GRAY:.0%} of line rate"
    yield Figure("gray alert", f"{case}: time to the alert", "s", tuple(times_s), f"<= {LIMIT_S}")
    yield Figure("gray alert", f"{case}: later than that, of {GRAY_RUNS}", "", (late,), "0")
    yield Figure("gray alert", f"{case}: other alarms, of {GRAY_RUNS}", "", (others,), "0")


PARTS = {"quiet": quiet, "gray": gray}


def run() -> Iterator[Figure]:
    yield from quiet()
    yield from gray()
