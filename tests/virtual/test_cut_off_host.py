"""A host without a link: QPs to it fail after their retries, and the workload names them."""

import json

import pytest
from document_text import document
from runs import run

from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

SCENARIO = document("""\
Scenario {{name: cut-off}}
  topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 40Mbit}}
  workloads: [{{name: main, {workload}, size: 4KiB, duration: 60s}}]
  faults: [{{id: cut, kind: link-down, select: {{links: {{node: h2}}}}, at: 10ms, until: cleared}}]
  expect: [qp_errors > 0]
""")


@pytest.mark.parametrize("workload", ["kind: write-bw, from: h0, to: h2", "kind: all-reduce"])
def test_a_host_that_is_cut_off_fails_the_workload_and_says_so(workload, tmp_path):
    file = tmp_path / "cut-off.yaml"
    file.write_text(SCENARIO.format(workload=workload))
    done = run(resolve(load_scenario(file)), tmp_path)
    [main] = json.loads((done.folder / "manifest.json").read_text())["workloads"]
    assert main["errors"]
    assert all("failed: retry_exceeded" in error for error in main["errors"])
    assert main["wrong_bytes"] == 0
    assert done.result.verdict.status is Status.PASSED, done.result.verdict.reason
