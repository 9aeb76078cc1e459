"""CPU time to open a campaign of 1000 runs, and to write its report: 50 cells of 20 seeds, synthetic figures.

One run in virtual time gives the shape of a result folder; every other has its files with figures of its own.
"""

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import process_time
from typing import Any, Final

from benchmarks.figure import Figure
from mrc_testbed.campaign.execution import carry_out_virtually
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import PlannedRun, plan_campaign
from mrc_testbed.campaign.summary_files import write_summary

CALLS: Final = 3
SPREAD: Final = 0.03
CAMPAIGN: Final = """\
apiVersion: mrc-testbed/v1
kind: Campaign
metadata: {{name: large}}
spec:
  scenarios: ['{scenario}']
  matrix:
    faults.gray.ratio: [1%, 2%, 5%, 10%, 20%]
    transport.window: [16, 24, 32, 40, 48, 56, 64, 72, 80, 96]
  seeds: {{from: 1, count: 20}}
  baseline: {{faults.gray.ratio: 1%}}
  expect: [goodput(main) >= 50% of goodput(main) in baseline in 19 of 20 runs]
"""


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        path = _filled(Path(name))
        opened, reported = [], []
        for _ in range(CALLS):
            begun_s = process_time()
            folder = CampaignFolder.open(path)
            opened.append(process_time() - begun_s)
            begun_s = process_time()
            write_summary(folder)
            reported.append(process_time() - begun_s)
    yield Figure("campaign_journal", "open 1000 runs", "s of CPU", tuple(opened), "< 0.5")
    yield Figure("campaign_journal", "report of 1000 runs", "s of CPU", tuple(reported), "< 5")


def _filled(folder: Path) -> Path:
    """A campaign whose runs all have ended."""
    scenario = Path(__file__).parents[1] / "scenarios" / "gray-link.yaml"
    file = folder / "large.yaml"
    file.write_text(CAMPAIGN.format(scenario=scenario))
    campaign = CampaignFolder.create(folder, plan_campaign(file))
    first = campaign.plan.runs[0]
    entry = carry_out_virtually(first, campaign.path)
    model = campaign.path / str(entry.folder)
    generator = random.Random(1)
    with (campaign.path / "journal.jsonl").open("w", encoding="utf-8") as journal:
        for run in campaign.plan.runs:
            copied = model.with_name(f"run-{run.index:04d}")
            _copy(model, copied, run, generator)
            kept = asdict(entry) | {"key": run.key, "folder": str(copied.relative_to(campaign.path))}
            journal.write(json.dumps(kept) + "\n")
    return campaign.path


def _copy(model: Path, copied: Path, run: PlannedRun, generator: random.Random) -> None:
    copied.mkdir()
    shutil.copy(model / "histograms.json", copied)
    manifest: dict[str, Any] = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
    manifest |= {"run": copied.name, "seed": run.plan.seed}
    for workload in manifest["workloads"]:
        workload["goodput_bps"] *= generator.gauss(1, SPREAD)
    for expectation in manifest["expectations"]:
        expectation["measured"] = {
            name: value * generator.gauss(1, SPREAD) for name, value in expectation["measured"].items()
        }
    for fault in manifest["faults"]:
        fault["lost_packets"] = round(fault["lost_packets"] * generator.gauss(1, SPREAD))
    (copied / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
