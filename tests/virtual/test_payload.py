"""Payload by reference: messages of every length arrive as they are, wherever they lie in memory."""

import pytest
from document_text import document
from runs import run

from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

SCENARIO = document("""\
Scenario {{name: lengths}}
  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 40Mbit, nic: {nic}}}
  workloads: [{{name: main, kind: {kind}, size: {size}, duration: 30ms}}]
  expect: [wrong_bytes == 0, qp_errors == 0]
""")


@pytest.mark.parametrize("kind", ["all-to-all", "sendrecv"])
@pytest.mark.parametrize("size", [16, 64, 128, 192, 252, 256, 260, 2052, 3_000_000])
def test_an_operation_of_any_size_moves_the_right_bytes(kind, size, tmp_path):
    """With 3 MB, packets lie across the borders of the NIC's memory segments, which take 1 MiB each."""
    file = tmp_path / "lengths.yaml"
    file.write_text(SCENARIO.format(kind=kind, size=f"{size}B", nic="{}"))
    done = run(resolve(load_scenario(file)), tmp_path)
    assert done.result.verdict.status is Status.PASSED, done.result.verdict.reason


@pytest.mark.parametrize("icrc", ["off", "on"])
@pytest.mark.parametrize("size", [4092, 4096, 4100, 3_000_000])
def test_packets_of_4_kib_move_the_right_bytes(size, icrc, tmp_path):
    """With the iCRC on payload is copied hop by hop."""
    file = tmp_path / "lengths.yaml"
    nic = f'{{path_mtu: 4KiB, icrc: "{icrc}"}}'
    file.write_text(SCENARIO.format(kind="sendrecv", size=f"{size}B", nic=nic))
    done = run(resolve(load_scenario(file)), tmp_path)
    assert done.result.verdict.status is Status.PASSED, done.result.verdict.reason
    recording = done.result.recording
    packets = sum(host.tx_data_packets for host in recording.readings[-1].hosts.values())
    needed = sum(outcome.messages for outcome in recording.outcomes) * -(-size // 4096)
    assert needed <= packets < 1.1 * needed  # of 2 KiB it would be half as many again, or more
