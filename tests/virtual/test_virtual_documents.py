"""The documents of runs and campaigns, and of commands about them, have the shapes of golden files."""

import json
from pathlib import Path

import pytest
from golden_documents import check_document
from keep_bundles import CAMPAIGN, SCENARIO
from runs import run_campaign

from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.tables import finished_runs
from mrc_testbed.cli.app import run

FILES = {
    "run-plan": "plan.json",
    "run-histograms": "histograms.json",
    "campaign-plan": "plan.json",
    "campaign-summary": "summary.json",
}
BUNDLE, CAMPAIGN_BUNDLE = "run.tar.zst", "campaign.tar.zst"
COMMANDS = (
    ("Bundle", "bundle", "{campaign}", "--into", CAMPAIGN_BUNDLE),
    ("Bundle", "bundle", "{run}", "--into", BUNDLE),
    ("RunReport", "report", BUNDLE),
    ("Comparison", "compare", BUNDLE, BUNDLE),
    ("UnpackedBundle", "bundle", "open", BUNDLE, "--into", "theirs"),
    ("UnpackedBundle", "bundle", "open", CAMPAIGN_BUNDLE),
    ("CampaignList", "campaign", "list"),
    ("CampaignSummary", "campaign", "show", CAMPAIGN_BUNDLE),
    ("CampaignStatistics", "campaign", "stats", CAMPAIGN_BUNDLE),
    ("CampaignCheck", "campaign", "check", CAMPAIGN_BUNDLE, "--baseline", "baseline.json"),
    ("Replay", "replay", CAMPAIGN_BUNDLE, "--virtual"),
    ("Why", "why", BUNDLE),
)
TIMES = {"times(message_completion)", "times(packet_rtt)", "times(collective_time(sum))"}
FIGURES = {
    *(
        f"{name}({workload})"
        for name in ("goodput", "fairness", "wrong_bytes")
        for workload in ("main", "sum")
    ),
    *(f"{name}(collective_time(sum))" for name in ("p50", "p99", "max")),
    *(f"{name}(link1)" for name in ("lost", "detect", "avoid", "restore")),
    *("busbw(sum)", "p99(message_completion)", "wrong_bytes"),
}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that passed."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "kept.yaml").write_text(SCENARIO)
    (folder / "kept-campaign.yaml").write_text(f"{CAMPAIGN}  seeds: {{from: 1, count: 6}}\n")
    _, campaign = run_campaign(plan_campaign(folder / "kept-campaign.yaml"), folder / "campaigns")
    return campaign.path


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_its_shape(name: str, campaign: Path) -> None:
    folder = campaign if name.startswith("campaign") else finished_runs(campaign)[0].path
    found = json.loads((folder / FILES[name]).read_text())
    check_document(name, found)
    if name == "run-histograms":
        assert found["histograms"].keys() == TIMES


def test_each_line_of_the_journal_has_its_shape(campaign: Path) -> None:
    for line in (campaign / "journal.jsonl").read_text().splitlines():
        check_document("campaign-journal", json.loads(line))


def test_what_commands_print_has_its_shape(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["campaign", "baseline", str(campaign), "--into", "baseline.json"]) == 0
    baseline = json.loads(Path("baseline.json").read_text())
    check_document("campaign-baseline", baseline)
    assert {key: set(cell["figures"]) for key, cell in baseline["cells"].items()} == {
        f"kept transport.window={window}": FIGURES - {"lost(link1)"} for window in (16, 32)
    }
    places = {"campaign": campaign, "run": finished_runs(campaign)[0].path}
    for kind, *words in COMMANDS:
        capsys.readouterr()
        assert run([*(word.format_map(places) for word in words), "-o", "json"]) == 0, words
        found = json.loads(capsys.readouterr().out)
        assert found["kind"] == kind
        check_document(kind, found)
        if kind == "CampaignStatistics":
            assert [(set(cell["figures"]), set(cell["times"])) for cell in found["cells"]] == [
                (FIGURES, TIMES)
            ] * 2
    check_document("bundle-header", json.loads(next(Path("theirs").glob("kept/*/bundle.json")).read_text()))
