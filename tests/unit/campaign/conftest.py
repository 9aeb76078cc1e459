"""A campaign of two small scenarios, and a stage that simulates labs."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "scenario"))

from simulated_lab import SimulatedLab

from mrc_testbed.campaign.execution import Progress, RunOnLab, execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import PlannedRun, plan_campaign
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.topology.spec import TopologySpec

FLAP = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: flap, description: Links flap., paper: "Fig. 9d", claim: Goodput holds.}
spec:
  seed: 5
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 2s}
  faults:
    - {id: flap1, at: 500ms, for: 1s, kind: link-flap, every: 500ms, down: 100ms, select: {links: {plane: 0}}}
  expect:
    - goodput(main) > 1Mbit
    - wrong_bytes == 0
"""
PLAIN = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: plain}
spec:
  topology: lab.yaml
  workloads:
    - {name: main, kind: sendrecv, size: 64KiB, duration: 1s}
  expect: ["goodput(main) > 1Tbit"]
"""
LAB = """\
apiVersion: mrc-testbed/v1
kind: Topology
metadata: {name: lab}
spec: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
"""
CAMPAIGN = """\
apiVersion: mrc-testbed/v1
kind: Campaign
metadata: {name: both, description: Two scenarios.}
spec:
  scenarios:
    - flap.yaml
    - {path: plain.yaml, matrix: {workloads.main.size: [4KiB, 64KiB]}, seeds: [9]}
  matrix:
    transport.window: [16, 64]
  seeds: [1, 2]
  order: file
"""


def write_files(folder: Path) -> None:
    (folder / "flap.yaml").write_text(FLAP)
    (folder / "plain.yaml").write_text(PLAIN.replace("1Tbit", "1000Gbit"))
    (folder / "lab.yaml").write_text(LAB)
    (folder / "both.yaml").write_text(CAMPAIGN)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_files(tmp_path)
    return tmp_path


def _nothing(_run: PlannedRun, _lab: SimulatedLab) -> None:
    """Before most runs."""


class SimulatedStage:
    """Labs that exist only as arithmetic.

    Attributes:
        events: what happened, in order.
        before_run: called before each run; it may raise.
    """

    def __init__(self) -> None:
        self.events: list[str] = []
        self.before_run: Callable[[PlannedRun, SimulatedLab], None] = _nothing

    @contextmanager
    def __call__(self, topology: TopologySpec) -> Iterator[RunOnLab]:
        self.events.append(f"up {topology.planes}")

        def run_on_lab(run: PlannedRun, runs: Path, say: Progress) -> FinishedRun:
            self.events.append(run.key)
            lab = SimulatedLab(run.plan)
            self.before_run(run, lab)
            return execute(run.plan, run.source, lab.world, lab, runs, say)

        try:
            yield run_on_lab
        finally:
            self.events.append(f"down {topology.planes}")


@pytest.fixture
def stage() -> SimulatedStage:
    return SimulatedStage()


@pytest.fixture(scope="module")
def shared_stage() -> SimulatedStage:
    """The stage of a campaign that a module's tests only read."""
    return SimulatedStage()


@pytest.fixture(scope="session")
def finished_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the campaign, carried out; for whoever only reads it."""
    folder = tmp_path_factory.mktemp("finished")
    write_files(folder)
    campaign = CampaignFolder.create(folder / "campaigns", plan_campaign(folder / "both.yaml"))
    execute_campaign(campaign, SimulatedStage(), progress=lambda _: None)
    return campaign.path


@pytest.fixture
def campaign(finished_campaign: Path, tmp_path: Path) -> Path:
    """A copy of the campaign's folder, carried out."""
    copied = tmp_path / "campaigns" / "both" / finished_campaign.name
    shutil.copytree(finished_campaign, copied, symlinks=True)
    (copied.parent / "latest").symlink_to(copied.name)
    return copied
