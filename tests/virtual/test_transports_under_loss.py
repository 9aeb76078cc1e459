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


MUTE = document("""\
Scenario {name: mute}
  topology: {planes: 1, t0: 1, t1: 1, hosts_per_t0: 66, port_rate: 10Gbit, link_delay: 1us,
    nic: {window_packets: 1024}}
  transport: {kind: mrc, cc: fixed}
  workloads:
    - {name: ring, kind: all-reduce, size: 264KiB, iterations: 3, timeout: 1s}
  faults:
    - {id: mute, at: 0s, for: 1500us, kind: loss, ratio: 100%, traffic: control,
       select: {links: h1:0}, direction: b-to-a}
  expect: [wrong_bytes == 0, operations(ring) == 3]
""")


def test_a_ring_waits_for_room_in_a_work_ring(tmp_path):
    """A rank goes on receiving while nothing that it sends is acknowledged: its requests fill the ring."""
    file = tmp_path / "mute.yaml"
    file.write_text(MUTE)
    result = run(resolve(load_scenario(file)), tmp_path).result
    assert result.verdict.status is Status.PASSED, result.verdict.reason
