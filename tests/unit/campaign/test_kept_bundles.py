"""Bundles of earlier versions open as they did then; tests/virtual/keep_bundles.py writes this one's."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from mrc_testbed import results
from mrc_testbed.bundle.bundle import BUNDLE_SCHEMA_VERSION, opened
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.cli.app import run
from mrc_testbed.scenario.spec.plan import load_plan

KEPT = Path(__file__).parent / "kept"
RUNS = sorted(KEPT.glob("run-*"))
CAMPAIGNS = sorted(KEPT.glob("campaign-*"))


def test_there_is_one_of_this_version():
    assert KEPT / f"run-{version('mrc-testbed')}.tar.zst" in RUNS
    assert KEPT / f"campaign-{version('mrc-testbed')}.tar.zst" in CAMPAIGNS


@pytest.mark.parametrize("path", [*RUNS, *CAMPAIGNS], ids=lambda path: path.name)
def test_its_tables_are_read(path):
    found = results.load(path)
    assert set(found.runs.status) == {"passed"}
    goodput = found.figures.query("figure == 'goodput(main)'")
    assert len(goodput) == len(found.runs)
    assert goodput.value.between(1e6, 40e6).all()
    assert set(found.samples.metric) >= {"goodput", "goodput(main)"}


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_run_is_shown_and_compared_and_its_plan_can_be_carried_out(path, capsys):
    assert run(["report", str(path), "-o", "json"]) == 0
    manifest = json.loads(capsys.readouterr().out)["manifest"]
    assert manifest["faults"][0]["lost_packets"] > 0
    assert run(["compare", str(path), str(path), "-o", "json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert {figure["ratio"] for figure in figures} <= {1.0, None}
    with opened(path, "run") as folder:
        assert load_plan(folder / "plan.json").scenario == "kept"
        assert json.loads((folder / "bundle.json").read_text())["schema_version"] <= BUNDLE_SCHEMA_VERSION


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.name)
def test_a_campaign_is_shown_and_summed_up_and_could_be_repeated(path, capsys):
    for command in ("show", "report", "stats", "check"):
        assert run(["campaign", command, str(path), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["campaign"] == "kept-campaign"
    with opened(path, "campaign") as folder:
        found = CampaignFolder.open(folder)
    entries = [found.entry(each) for each in found.plan.runs]
    assert [entry and entry.status for entry in entries] == ["passed", "passed"]
