"""Variants that leave a fault or a workload out."""

from pathlib import Path

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.load import Scenario, load_scenario, scenario_variants
from mrc_testbed.scenario.spec.resolve import resolve

TEXT = """apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {{name: s}}
spec:
  workloads:
    - {{name: main, kind: sendrecv, size: 1MiB, duration: 1s}}
    - {{name: other, kind: sendrecv, size: 1MiB, duration: 1s}}
  faults:
    - {{id: one, kind: link-down, select: {{links: p0-t0-0:4}}, at: 100ms, for: 100ms}}
    - {{id: two, kind: link-down, select: {{links: p0-t0-0:5}}, at: 100ms, for: 100ms}}
  variants: {{v: {{with: {{}}, without: {changes}}}}}
"""


def variants(folder: Path, changes: str) -> tuple[Scenario, ...]:
    path = folder / "scenario.yaml"
    path.write_text(TEXT.format(changes=changes))
    return scenario_variants(load_scenario(path))


def test_null_leaves_a_fault_out(tmp_path: Path) -> None:
    plans = [resolve(each) for each in variants(tmp_path, "{faults.one: null}")]
    assert [[fault.fault_id for fault in plan.faults] for plan in plans] == [["one", "two"], ["two"]]


def test_null_leaves_a_workload_out(tmp_path: Path) -> None:
    plans = [resolve(each) for each in variants(tmp_path, "{workloads.main: null}")]
    assert [[job.name for job in plan.workloads] for plan in plans] == [["main", "other"], ["other"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("{faults.three: null}", "has no fault 'three'"),
        ("{faults.one: 2}", "variant without: faults.one: only null may stand there"),
        ("{faults: null}", "faults: names no field"),
        ("{topology: null}", "topology: names no field"),
        ("{faults.one: null, faults.one.for: 1s}", "has no fault 'one'"),
    ],
)
def test_what_cannot_be_left_out_is_refused(tmp_path: Path, changes: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        variants(tmp_path, changes)
    assert message in caught.value.message
