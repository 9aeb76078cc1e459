"""Writes bundles of this version for tests/unit/campaign/kept.

    PYTHONPATH=tests python tests/virtual/keep_bundles.py

Once a version, when it is released: later versions have to open what is there. The machine in them is
nobody's.
"""

from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from document_text import document
from runs import ROOT, run_campaign

from mrc_testbed.bundle.bundle import SUFFIX, write_bundle
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.tables import finished_runs
from mrc_testbed.scenario.measure.provenance import Provenance

KEPT = ROOT / "tests" / "unit" / "campaign" / "kept"

SCENARIO = document("""\
Scenario {name: kept, description: A link goes down and comes back., claim: Goodput holds.}
  seed: 5
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 20Mbit}
  transport: {kind: mrc}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, depth: 2, duration: 800ms}
    - {name: sum, kind: all-reduce, size: 16KiB, duration: 800ms}
  faults:
    - {id: link1, at: 200ms, for: 200ms, kind: link-down, select: {links: "p0-t0-0:1~p0-t1-0:0"}}
  expect:
    - goodput(main) > 1Mbit
    - p99(message_completion) < 1s
    - wrong_bytes == 0
""")
CAMPAIGN = document("""\
Campaign {name: kept-campaign, description: Two windows.}
  scenarios: [kept.yaml]
  matrix: {transport.window: [16, 32]}
  baseline: {transport.window: 16}
  expect: [wrong_bytes == 0 for all seeds]
""")


def nobody(lab: str, runtime: str) -> Provenance:
    """A machine that is nobody's."""
    return Provenance(
        version("mrc-testbed"), "3.11.2", "6.1.0", "x86_64", "unknown", 2, 1 << 32, lab, runtime
    )


def main() -> None:
    """Carries out a campaign, and bundles it and its first run."""
    KEPT.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch, patch("mrc_testbed.scenario.execution.observe_provenance", nobody):
        folder = Path(scratch)
        (folder / "kept.yaml").write_text(SCENARIO, encoding="utf-8")
        (folder / "kept-campaign.yaml").write_text(CAMPAIGN, encoding="utf-8")
        status, campaign = run_campaign(plan_campaign(folder / "kept-campaign.yaml"), folder / "campaigns")
        assert status == 0
        for what, path in (("campaign", campaign.path), ("run", finished_runs(campaign.path)[0].path)):
            write_bundle(path, KEPT / f"{what}-{version('mrc-testbed')}{SUFFIX}")


if __name__ == "__main__":
    main()
