"""Which planes the packets of one QP take, by transport."""

import pytest
from document_text import document
from runs import run

from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

SCENARIO = document("""\
Scenario {{name: paths}}
  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 40Mbit}}
  transport: {{kind: {kind}}}
  workloads:
    - {{name: main, kind: write-bw, from: h0, to: h1, size: 20KiB, iterations: 50}}
  expect: [wrong_bytes == 0, {expected}]
""")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mrc", "lowest_plane_share > 40%"),
        ("spray-gbn", "lowest_plane_share > 40%"),
        ("rocev2", "highest_plane_share > 90%"),
        ("infiniband", "highest_plane_share > 90%"),
    ],
)
def test_a_qp_takes_the_planes_of_its_transport(kind, expected, tmp_path):
    file = tmp_path / "paths.yaml"
    file.write_text(SCENARIO.format(kind=kind, expected=expected))
    result = run(resolve(load_scenario(file)), tmp_path).result
    assert result.verdict.status is Status.PASSED, [each.reason for each in result.verdict.outcomes]
