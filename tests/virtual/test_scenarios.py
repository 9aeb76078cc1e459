"""Every shipped scenario file has in virtual time the verdict that it has live."""

from dataclasses import replace
from pathlib import Path

import pytest
from runs import SCENARIOS, plan_of, run, run_campaign

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

LARGE = {
    "allreduce",
    "alltoall",
    "dead-path",
    "ev-loss",
    "incast-400g",
    "incast-victim",
    "lossy-paths",
    "permutation-400g",
    "sendrecv",
}
"""Those that take four seconds or more."""
AT_NIGHT = {"all-reduce-400g", "lossy-soak", "permutation-256"}
"""Those that take longer still, and so do all of a thousand NICs."""
SHORT = {"nic-links-flap-true", "t1-down-true"}
"""Scenarios of the paper at its own rates that take three seconds; the others take up to two minutes."""
ONE_OF_A_KIND = {"ev-loss-true", "incast-victim-true", "t0t1-fail-true"}
"""Those of them that .ci/run has: loss, an incast beside the same over RoCEv2, a dead link."""
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
