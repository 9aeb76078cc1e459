"""A run whose work the NIC refuses: it fails, and everything that reads its results says so."""

import dataclasses
import json

from runs import plan_of, run

from mrc_testbed.campaign.run_figures import run_figures
from mrc_testbed.scenario.measure.verdict import Status

TOO_DEEP = 64


def test_a_run_that_sent_nothing_fails_and_says_why(tmp_path):
    """A plan that is replayed may be of a version that did not know the NIC's limits."""
    plan = plan_of("t0-t1-flap.yaml")
    workloads = tuple(dataclasses.replace(each, depth=TOO_DEEP) for each in plan.workloads)
    done = run(dataclasses.replace(plan, workloads=workloads, expect=("wrong_bytes == 0",)), tmp_path)
    assert done.result.verdict.status is Status.FAILED
    manifest = json.loads((done.folder / "manifest.json").read_text())
    assert [each["text"] for each in manifest["unwritten"]] == [f"{each.name} sends" for each in workloads]
    assert all("depth: 64" in each["reason"] for each in manifest["unwritten"])
    assert run_figures(manifest)
    for name in ("junit.xml", "report.html", "summary.md"):
        assert "depth: 64" in (done.folder / name).read_text()
