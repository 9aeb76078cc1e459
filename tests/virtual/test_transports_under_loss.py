"""Every transport while links lose packets: all bytes right, and packets sent again as each kind does."""

import pytest
from document_text import document
from runs import run

from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

SCENARIO = document("""\
Scenario {{name: transports}}
  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 40Mbit}}
  transport: {{kind: {kind}, qps: 2}}
  workloads:
    - {{name: main, kind: write-bw, from: h0, to: h1, size: 20KiB, iterations: 50}}
    - {{name: ring, kind: all-reduce, hosts: all, size: 64KiB, iterations: 10}}
  faults:
    - {{id: gray, at: 0s, until: cleared, kind: loss, ratio: 1%, select: {{links: {{between: [t0, t1]}}}}}}
  expect: [wrong_bytes == 0, qp_errors == 0]
""")


@pytest.mark.parametrize("kind", ["mrc", "rocev2", "infiniband"])
def test_every_byte_arrives_and_only_mrc_retransmits_by_sack(kind, tmp_path):
    file = tmp_path / "transports.yaml"
    file.write_text(SCENARIO.format(kind=kind))
    result = run(resolve(load_scenario(file)), tmp_path).result
    assert result.verdict.status is Status.PASSED, result.verdict.reason
    assert all(outcome.compared_bytes > 0 for outcome in result.recording.outcomes)
    host = result.recording.readings[-1].hosts["h0"]
    assert host.retransmits > 0
    assert (host.retransmits_sack > 0) == (kind == "mrc")
    assert (host.retransmits_nack + host.retransmits_timeout > 0) == (kind != "mrc")
