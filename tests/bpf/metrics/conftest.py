"""A lab of which only the maps exist, and the program that fills histograms."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from platform import machine

import pytest
from map_filling import HistogramProgram, PinnedLab

from mrc_testbed.agents.bpf.libbpf import BpfObject
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=1, t1=1, hosts_per_t0=2)
SOURCE = Path(__file__).parent / "histogram_twin.bpf.c"
INCLUDE = Path(__file__).parents[3] / "agents" / "include"


@pytest.fixture(scope="session")
def twin_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program that adds times to a histogram."""
    compiled = tmp_path_factory.mktemp("bpf") / "histogram_twin.bpf.o"
    options = ["-target", "bpf", "-O2", "-g", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
    headers = ["-idirafter", f"/usr/include/{machine()}-linux-gnu"]
    subprocess.run(["clang", *options, *headers, "-c", str(SOURCE), "-o", str(compiled)], check=True)
    return compiled


@pytest.fixture
def histogram_program(twin_object: Path) -> Iterator[HistogramProgram]:
    """The program with a histogram of its own."""
    with BpfObject(twin_object) as loaded:
        yield HistogramProgram(loaded)


@pytest.fixture
def state_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    root = tmp_path / "state"
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(root))
    return root


@pytest.fixture
def pinned_lab(state_root: Path) -> Iterator[PinnedLab]:
    """A lab of two planes and two hosts, `observed`, that is up."""
    lab = PinnedLab(lab_paths("observed"), Clos(SPEC))
    try:
        lab.bring_up()
        yield lab
    finally:
        lab.take_down()
