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
TRANSPORTS = KEPT / "gone" / "transports-0.3.0.tar.zst"
REPEAT = KEPT / "gone" / "repeat-0.3.0.tar.zst"
"""These two name what is gone since 0.4: tcp and mptcp, `repeat`. Commit e0a9b04 carried them out."""


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


@pytest.mark.parametrize(("path", "count"), [(TRANSPORTS, 2), (REPEAT, 12)], ids=["transports", "repeat"])
def test_a_campaign_that_names_what_is_gone_is_read_as_before(path, count, tmp_path, capsys):
    def answer(*words):
        assert run([*words, "-o", "json"]) == 0, words
        return json.loads(capsys.readouterr().out)

    assert set(results.load(path).runs.status) == {"passed"}
    assert len(results.load(path).runs) == count
    assert answer("campaign", "show", str(path))["counts"] == {"passed": count}
    assert len(answer("campaign", "stats", str(path))["cells"]) == 2
    assert {each["outcome"] for each in answer("campaign", "check", str(path))["expectations"]} == {"held"}
    assert run(["campaign", "export", str(path), "--into", str(tmp_path / "tables")]) == 0
    assert len((tmp_path / "tables" / "runs.csv").read_text().splitlines()) == 1 + count
    capsys.readouterr()
    assert run(["campaign", "merge", str(path), str(path), "--campaigns", str(tmp_path), "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert "missing" not in printed.err  # what the repetition did not ask for
    merged = json.loads(printed.out)
    assert merged["counts"] == {"passed": count}
    assert answer("campaign", "report", merged["folder"])["counts"] == {"passed": count}


@pytest.mark.parametrize("kind", ["tcp", "mptcp"])
def test_a_run_over_a_transport_that_is_gone_is_shown_and_compared(kind, capsys):
    with opened(TRANSPORTS, "campaign") as path:
        found = CampaignFolder.open(path)
        [planned] = [each for each in found.plan.runs if each.plan.transport.kind == kind]
        folder = found.result_folder(planned)
        assert folder is not None
        assert load_plan(folder / "plan.json").transport.kind == kind
        assert run(["report", str(folder), "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["manifest"]["status"] == "passed"
        assert run(["compare", str(folder), str(folder), "-o", "json"]) == 0
        assert {each["ratio"] for each in json.loads(capsys.readouterr().out)["figures"]} <= {1.0, None}
        assert f"{kind}, one " in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (TRANSPORTS, "tcp is gone since 0.4; use mrc, rocev2, infiniband or spray-gbn"),
        (REPEAT, "gone since 0.4: give the campaign more `seeds`"),
    ],
    ids=["transports", "repeat"],
)
def test_a_campaign_that_names_what_is_gone_is_not_carried_out(path, said, tmp_path, capsys):
    assert run(["replay", str(path), "--virtual", "--campaigns", str(tmp_path / "replayed")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    with opened(path, "campaign") as folder:
        assert run(["campaign", "resume", str(folder), "--virtual"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "replayed").exists()


@pytest.mark.parametrize("kind", ["tcp", "mptcp"])
def test_a_run_over_a_transport_that_is_gone_is_not_carried_out(kind, tmp_path, capsys):
    with opened(TRANSPORTS, "campaign") as path:
        found = CampaignFolder.open(path)
        [planned] = [each for each in found.plan.runs if each.plan.transport.kind == kind]
        given = str(found.result_folder(planned))
        assert run(["replay", given, "--virtual", "--runs", str(tmp_path / "runs")]) == 2
    assert f"{kind} is gone since 0.4; use mrc" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "runs").exists()
