"""One NIC per module, reset for every test, and the far ends it talks to."""
# ruff: noqa: E402 - modules with assertions are rewritten only if imported after they are registered

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("far_end", "fuzzed_qp", "nic_bench", "write_source", "write_target")

from far_end import FarEnd
from nic_bench import QP_COUNT, NicBench
from write_source import WriteSource
from write_target import WriteTarget

from mrc_agents.nic.work_queue import QPN_MIN
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=3, t1=2, hosts_per_t0=2, uplinks_per_pair=2))
HOST, NEIGHBOUR, DISTANT = 3, 2, 4


@pytest.fixture(scope="module")
def bench() -> Iterator[NicBench]:
    """The NIC of a host in the middle row, with downlink 1; what earlier tests did to it is still there."""
    with NicBench(FABRIC, HOST) as nic:
        yield nic


@pytest.fixture
def nic(bench: NicBench) -> NicBench:
    """That NIC as new."""
    bench.reset()
    return bench


@pytest.fixture(scope="module")
def rc_bench() -> Iterator[NicBench]:
    """The same NIC with the program of reliable connections; what earlier tests did to it is still there."""
    with NicBench(FABRIC, HOST, has_rc=True) as nic:
        yield nic


@pytest.fixture
def rc_nic(rc_bench: NicBench) -> NicBench:
    """That NIC as new."""
    rc_bench.reset()
    return rc_bench


@pytest.fixture(scope="module")
def distant() -> FarEnd:
    """A host across a T1."""
    return FarEnd(FABRIC, HOST, DISTANT)


@pytest.fixture(scope="module")
def timed() -> FarEnd:
    """The distant host for a QP with a clock, one of its own: it may tick once more in the next test."""
    return FarEnd(FABRIC, HOST, DISTANT, qpn=QPN_MIN + QP_COUNT - 1)


@pytest.fixture(scope="module")
def neighbour() -> FarEnd:
    """A host at the same T0."""
    return FarEnd(FABRIC, HOST, NEIGHBOUR)


@pytest.fixture
def source(nic: NicBench, distant: FarEnd) -> WriteSource:
    """A QP that sends to the distant host."""
    return WriteSource(nic, distant)


@pytest.fixture
def target(nic: NicBench, distant: FarEnd) -> WriteTarget:
    """A QP that receives from it."""
    return WriteTarget(nic, distant)
