"""A lab of which only the maps exist, and the program that fills histograms."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from compiling import compile_program
from map_filling import HistogramProgram, PinnedLab, lab_up

from mrc_agents.bpf.libbpf import BpfObject
from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=1, t1=1, hosts_per_t0=2)
SOURCE = Path(__file__).parent / "histogram_twin.bpf.c"


@pytest.fixture(scope="session")
def twin_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program that adds times to a histogram."""
    return compile_program(SOURCE, tmp_path_factory.mktemp("bpf"))


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
    with lab_up("observed", SPEC) as lab:
        yield lab
