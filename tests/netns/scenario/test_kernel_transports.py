"""TCP and MPTCP of the hosts' own kernels, through the fabric."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from live_scenario import run_live

from mrc_testbed.agents.abi import NicCounter
from mrc_testbed.fabric import lab
from mrc_testbed.metrics.lab_watch import open_reader
from mrc_testbed.metrics.sampler import take_reading
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.topology.spec import TopologySpec

pytestmark = pytest.mark.root

SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {{name: kernels}}
spec:
  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 1{topology}}}
  transport: {{kind: {kind}}}
  workloads: {workloads}
  faults: {faults}
  expect: [wrong_bytes == 0, qp_errors == 0]
"""
# These last a second: the fault begins some milliseconds after the first message.
TWO = """
    - {name: main, kind: write-bw, from: h0, to: h1, size: 20KiB, iterations: 2000}
    - {name: ring, kind: all-reduce, hosts: all, size: 64KiB, iterations: 10}
"""
ONE = "[{name: main, kind: write-bw, from: h0, to: h1, size: 20KiB, iterations: 100}]"
LOSS = "[{id: gray, at: 0s, until: cleared, kind: loss, ratio: 2%, select: {links: {between: [t0, t1]}}}]"


def run(
    name: str, kind: str, runs: Path, workloads: str = TWO, *, topology: str = "", faults: str = "[]"
) -> FinishedRun:
    text = SCENARIO.format(kind=kind, workloads=workloads, topology=topology, faults=faults)
    return run_live(name, text, runs)


@pytest.mark.parametrize(
    "kind", ["tcp", pytest.param("mptcp", marks=pytest.mark.slow("waits for the kernel's time-outs"))]
)
def test_every_byte_arrives_in_spite_of_loss(live_lab: str, tmp_path: Path, kind: str) -> None:
    with closing(open_reader(live_lab)) as reader:
        # of what proved the lab's planes: MRC
        before, proofs = list(reader.nics["h0"].counters()), reader.nics["h0"].message_completion().count
        result = run(live_lab, kind, tmp_path, faults=LOSS).result
        counters = [now - then for now, then in zip(reader.nics["h0"].counters(), before, strict=True)]
        completed = reader.nics["h0"].message_completion().count - proofs
    assert [outcome.text for outcome in result.verdict.outcomes if not outcome.has_passed] == []
    assert sum(outcome.compared_bytes for outcome in result.recording.outcomes) > 0
    assert counters[NicCounter.TX_SACK] == 0
    assert counters[NicCounter.ACKED_BYTES] >= 2000 * 20 * 1024
    assert completed == counters[NicCounter.MESSAGES] >= 2000
    assert counters[NicCounter.TX_RETRANSMIT_SACK] + counters[NicCounter.TX_RETRANSMIT_TIMEOUT] > 0


@pytest.fixture
def slow_lab(state_dir: Path) -> Iterator[str]:
    """Name of a lab whose ports have a rate and whose switches hash."""
    name = f"k{os.getpid()}"
    try:
        spec = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=10_000_000, forwarding="ecmp")
        lab.up(spec, name=name, runtime="netns")
        yield name
    finally:
        lab.down(name)


@pytest.mark.slow("a lab of its own")
@pytest.mark.ci
def test_mptcp_uses_every_plane_and_tcp_one(slow_lab: str, tmp_path: Path) -> None:
    topology = ", port_rate: 10Mbit, forwarding: ecmp"
    for kind in ("tcp", "mptcp"):
        reader = open_reader(slow_lab)
        before = take_reading(reader).plane_tx_bytes
        result = run(slow_lab, kind, tmp_path, ONE, topology=topology).result
        after = take_reading(reader).plane_tx_bytes
        reader.close()
        assert [outcome.text for outcome in result.verdict.outcomes if not outcome.has_passed] == []
        sent = sorted(late - early for early, late in zip(before, after, strict=True))
        if kind == "tcp":
            assert sent[0] < sent[1] / 10
            assert sent[1] > 2_000_000
        else:
            assert sent[0] > 100_000
