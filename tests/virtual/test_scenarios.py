"""Every shipped scenario file has in virtual time the verdict that it has live."""

from dataclasses import replace
from pathlib import Path

import pytest
from runs import FILES, SCENARIOS, plan_of, run, run_campaign

from mrc_testbed.campaign.execution import (
    carry_out_virtually,
    execute_campaign,
    execute_in_parallel,
    virtual_stage,
)
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import plan_variants
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.campaign.workers import LocalWorkers
from mrc_testbed.cli import app
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario


def test_files_are_found() -> None:
    assert len(FILES) >= 39


@pytest.mark.parametrize("file", FILES)
def test_scenario_passes(file: str, tmp_path: Path) -> None:
    loaded = load_scenario(SCENARIOS / file)
    if not loaded.spec.variants:
        verdict = run(plan_of(file), tmp_path).result.verdict
        assert verdict.status is Status.PASSED, [each.reason for each in verdict.outcomes]
        return
    code, folder = run_campaign(plan_variants(loaded, seed=None), tmp_path)
    assert code == 0, summarize_campaign(folder)


@pytest.mark.slow("a campaign of the paper, twice")
@pytest.mark.ci
def test_processes_give_what_one_gives(tmp_path: Path) -> None:
    planned = plan_variants(load_scenario(SCENARIOS / "paper" / "p2p.yaml"), seed=None)
    alone, together = (CampaignFolder.create(tmp_path / name, planned) for name in ("alone", "together"))
    assert execute_campaign(alone, virtual_stage(lambda: None), progress=lambda _: None) == 0
    with LocalWorkers(together.path, 2, carry_out_virtually) as workers:
        assert execute_in_parallel(together, workers, progress=lambda _: None) == 0
    for each in planned.runs:
        one, other = alone.manifest(each), together.manifest(each)
        assert one is not None
        assert other is not None
        assert one["expectations"] == other["expectations"]


def test_a_run_says_that_it_is_exact(tmp_path: Path) -> None:
    done = run(plan_of("pause-storm.yaml"), tmp_path)
    first = done.result.fidelity[0]
    assert (first.what, first.measured) == ("virtual", "exact")
    assert done.result.clock_step_ns == 0


def test_ports_without_a_rate_are_refused(tmp_path: Path) -> None:
    plan = plan_of("gray-mix.yaml")
    topology = plan.topology.model_copy(update={"port_rate": None})
    with pytest.raises(UsageError, match="ports with a rate"):
        run(replace(plan, topology=topology), tmp_path)


def test_the_demo_names_a_command_that_works_without_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.run(["demo", "--virtual"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("next ")]
    assert app.run([*line.split()[2:], "--dry-run"]) == 0
