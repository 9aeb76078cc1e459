"""Runs in virtual time for tests: plans, and result folders without what differs between equal runs."""

from pathlib import Path
from typing import Final

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
