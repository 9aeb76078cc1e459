"""Ready campaigns in virtual time: one seed of each cell comes to what the campaign expects of it."""

import pytest
from runs import SCENARIOS, run_campaign

from mrc_testbed.campaign.judge import outcomes_of
from mrc_testbed.campaign.plan import plan_campaign

FOLDER = SCENARIOS / "campaigns"
PLANS = {path.stem: plan_campaign(path) for path in FOLDER.glob("*.yaml")}
RUNS_MAX = 40
HELD = sorted(
    name
    for name, plan in PLANS.items()
    if plan.expect and not any(workload.program for run in plan.runs for workload in run.plan.workloads)
)
LARGE = [pytest.mark.slow(f"more than {RUNS_MAX} runs")]


def test_campaigns_are_found():
    assert "mrc-against-rocev2" in HELD


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LARGE if len(PLANS[name].runs) > RUNS_MAX else []) for name in HELD]
)
def test_a_campaign_holds_what_it_expects(name, tmp_path):
    _, folder = run_campaign(plan_campaign(FOLDER / f"{name}.yaml", seed=1), tmp_path)
    assert {entry and entry.status for entry in map(folder.entry, folder.plan.runs)} == {"passed"}
    failed = [each for each in outcomes_of(folder) if each.outcome == "failed"]
    assert not failed
