"""spray-gbn over links that lose packets; tests/virtual/test_transports_under_loss.py has the others."""

from contextlib import closing
from pathlib import Path

import pytest
from live_scenario import run_live

from mrc_testbed.agents.abi import NicCounter
from mrc_testbed.metrics.lab_watch import open_reader

pytestmark = pytest.mark.root

SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: transports}
spec:
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
  transport: {kind: spray-gbn, qps: 2}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 20KiB, iterations: 2000}
    - {name: ring, kind: all-reduce, hosts: all, size: 64KiB, iterations: 10}
  faults:
    - {id: gray, at: 0s, until: cleared, kind: loss, ratio: 1%, select: {links: {between: [t0, t1]}}}
  expect: [wrong_bytes == 0, qp_errors == 0]
"""


def test_every_byte_arrives_in_spite_of_loss(live_lab: str, tmp_path: Path) -> None:
    with closing(open_reader(live_lab)) as reader:
        before = list(reader.nics["h0"].counters())  # of what proved the lab's planes: MRC
        result = run_live(live_lab, SCENARIO, tmp_path).result
        counters = [now - then for now, then in zip(reader.nics["h0"].counters(), before, strict=True)]
    assert [outcome.text for outcome in result.verdict.outcomes if not outcome.has_passed] == []
    assert counters[NicCounter.TX_RETRANSMIT_NACK] + counters[NicCounter.TX_RETRANSMIT_TIMEOUT] > 0
    assert counters[NicCounter.TX_RETRANSMIT_SACK] == 0
