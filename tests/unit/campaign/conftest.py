"""A campaign of two small scenarios, and a stage of labs in virtual time."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from document_text import document
from virtual_trial import Trial

from mrc_testbed.campaign.execution import Progress, RunOnLab, execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import PlannedRun, plan_campaign
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.topology.spec import TopologySpec

FLAP = document("""\
Scenario {name: flap, description: Links flap., paper: "Fig. 9d", claim: Goodput holds.}
  seed: 5
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 2Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 2s}
  faults:
    - {id: flap1, at: 500ms, for: 1s, kind: link-flap, every: 500ms, down: 100ms, select: {links: {plane: 0}}}
  expect:
    - goodput(main) > 1Mbit
    - wrong_bytes == 0
""")
PLAIN = document("""\
Scenario {name: plain}
  topology: lab.yaml
  workloads:
    - {name: main, kind: sendrecv, size: 64KiB, duration: 1s}
  expect: ["goodput(main) > 1Tbit"]
""")
LAB = document("""\
Topology {name: lab}
{planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 2Mbit}
""")
CAMPAIGN = document("""\
Campaign {name: both, description: Two scenarios.}
  scenarios:
    - flap.yaml
    - {path: plain.yaml, matrix: {workloads.main.size: [4KiB, 64KiB]}, seeds: [9]}
  matrix:
    transport.window: [16, 64]
  seeds: [1, 2]
  order: file
""")


def write_files(folder: Path) -> None:
    (folder / "flap.yaml").write_text(FLAP)
    (folder / "plain.yaml").write_text(PLAIN.replace("1Tbit", "1000Gbit"))
    (folder / "lab.yaml").write_text(LAB)
    (folder / "both.yaml").write_text(CAMPAIGN)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def _nothing(_run: PlannedRun, _lab: Trial) -> None:
    """Before most runs."""


class TrialStage:
    """Labs in virtual time, in place of live ones."""

    def __init__(self) -> None:
        self.events: list[str] = []  # what happened, in order
        # called before each run; it may raise
        self.before_run: Callable[[PlannedRun, Trial], None] = _nothing

    @contextmanager
    def __call__(self, topology: TopologySpec) -> Iterator[RunOnLab]:
        self.events.append(f"up {topology.planes}")

        def run_on_lab(run: PlannedRun, runs: Path, say: Progress) -> FinishedRun:
            self.events.append(run.key)
            trial = Trial(run.plan, run.source)
            self.before_run(run, trial)
            return trial.execute(runs, say)

        try:
            yield run_on_lab
        finally:
            self.events.append(f"down {topology.planes}")


@pytest.fixture
def stage() -> TrialStage:
    return TrialStage()


@pytest.fixture(scope="module")
def shared_stage() -> TrialStage:
    """The stage of a campaign that a module's tests only read."""
    return TrialStage()


@pytest.fixture(scope="session")
def finished_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the campaign, carried out; for whoever only reads it."""
    folder = tmp_path_factory.mktemp("finished")
    write_files(folder)
    campaign = CampaignFolder.create(folder / "campaigns", plan_campaign(folder / "both.yaml"))
    execute_campaign(campaign, TrialStage(), progress=lambda _: None)
    return campaign.path


@pytest.fixture
def campaign(finished_campaign: Path, tmp_path: Path) -> Path:
    """A copy of the campaign's folder, carried out."""
    copied = tmp_path / "campaigns" / "both" / finished_campaign.name
    shutil.copytree(finished_campaign, copied, symlinks=True)
    (copied.parent / "latest").symlink_to(copied.name)
    return copied
