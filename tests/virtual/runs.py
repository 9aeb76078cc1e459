"""Runs in virtual time for tests: plans, and result folders without what differs between equal runs."""

from pathlib import Path
from typing import Final

import pytest
from stopped_clock import StoppedClock

from mrc_agents.bpf.virtual import LIBRARY, VirtualRuntime
from mrc_testbed.campaign.execution import execute_campaign, virtual_stage
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import CampaignPlan
from mrc_testbed.explain.trace import Tracer
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.virtual.world import VirtualLabView, planned_lab, world_in

ROOT: Final = Path(__file__).parents[2]
SCENARIOS: Final = ROOT / "scenarios"


LARGE = {
    "allreduce",
    "alltoall",
    "dead-path",
    "ev-loss",
    "incast-400g",
    "incast-tiers",
    "incast-victim",
    "lossy-paths",
    "permutation-400g",
    "sendrecv",
}
"""Those that take four seconds or more."""
AT_NIGHT = {
    "all-reduce-400g",
    "all-reduce-tiers",
    "all-to-all-tiers",
    "lossy-soak",
    "permutation-256",
    "permutation-tiers",
    "training-tiers",
}
"""Those that take longer still, and so do all of a thousand NICs."""
SHORT = {"nic-links-flap-true", "t1-down-true"}
"""Scenarios of the paper at its own rates that take three seconds; the others take up to two minutes."""
ONE_OF_A_KIND = {"ev-loss-true", "t0t1-fail-true"}
"""Those of them that .ci/run has: loss, a dead link; an incast, and the same over RoCEv2, is in paper/."""
SLOW = pytest.mark.slow("many packets: each costs the same at 800 Gbit/s as at 100 Mbit/s")


def marks_of(path: Path) -> list[pytest.MarkDecorator]:
    if path.stem in LARGE | ONE_OF_A_KIND:
        return [SLOW, pytest.mark.ci]
    is_slow = path.stem in AT_NIGHT or path.stem.endswith(("-1024", "-1024-flap"))
    is_slow |= path.parent.name == "drills"  # four minutes each: people look for the fault meanwhile
    return [SLOW] if is_slow or (path.parent.name == "paper-true" and path.stem not in SHORT) else []


FILES = [
    pytest.param(str(path.relative_to(SCENARIOS)), marks=marks_of(path))
    for path in sorted(SCENARIOS.rglob("*.yaml"))
    if path.parent.name not in {"campaigns", "train"} and path.name != "all.yaml"
]
"""Those of train/ need PyTorch: tests/e2e/torch."""


def plan_of(scenario: str, *, seed: int | None = None) -> Plan:
    return resolve(load_scenario(SCENARIOS / scenario), seed=seed)


def run(plan: Plan, runs: Path, library: Path = LIBRARY, tracer: Tracer | None = None) -> FinishedRun:
    clock, runtime = StoppedClock(), VirtualRuntime(library)
    with planned_lab(plan, clock, runtime) as lab, world_in(lab, plan, clock) as world:
        if tracer is not None:
            tracer.begin(lab)
        return execute(plan, None, world, VirtualLabView(), runs)


def contents(done: FinishedRun) -> dict[str, bytes]:
    """The files of a result folder; the run's own name, which is random, reads RUN."""
    run_id = done.result.run_id.encode()
    return {path.name: path.read_bytes().replace(run_id, b"RUN") for path in sorted(done.folder.iterdir())}


def run_campaign(plan: CampaignPlan, runs: Path) -> tuple[int, CampaignFolder]:
    """The exit status and the folder of a campaign, or of the variants of a scenario."""
    folder = CampaignFolder.create(runs, plan)
    return execute_campaign(folder, virtual_stage(lambda: None), progress=lambda _: None), folder
