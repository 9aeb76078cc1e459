"""A planned fabric costs in virtual time what its plan does, and the part that runs is not refused."""

from pathlib import Path

import pytest

from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.offered_load import all_hosts_at_once, frame_hops_per_s
from mrc_testbed.topology.sizing import Fabric, Parts, plan_fabric
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual import limits
from mrc_testbed.virtual.reach import Reach, cost, reach

GBPS = 10**9
SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: planned}
spec:
  topology: planned.yaml
  workloads: [{name: all, kind: permutation, size: 256KiB, depth: 4, duration: 1ms}]
"""
TOPOLOGY = "apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {name: planned}\nspec: "


def planned(nics: int, planes: int = 8, tiers: int = 2, nic_gbps: int = 800) -> Fabric:
    return plan_fabric(Parts(planes, nic_gbps * GBPS, 64 * nic_gbps * GBPS), tiers, nics)


def plan_of(found: Reach, tmp_path: Path) -> Plan:
    assert found.part is not None
    (tmp_path / "planned.yaml").write_text(TOPOLOGY + found.part.model_dump_json(exclude_unset=True))
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return resolve(load_scenario(tmp_path / "scenario.yaml"))


@pytest.mark.parametrize(("nics", "planes", "nic_gbps"), [(100, 8, 800), (512, 4, 400), (130, 1, 400)])
def test_a_fabric_costs_what_its_plan_does(nics: int, planes: int, nic_gbps: int, tmp_path: Path) -> None:
    found = reach(planned(nics, planes, nic_gbps=nic_gbps))
    plan = plan_of(found, tmp_path)
    clos = Clos(plan.topology)
    assert found.obstacle is None
    assert found.whole is not None
    assert found.whole == found.cost
    assert found.whole.memory_bytes == limits.memory_bytes(plan)
    hops_per_s = frame_hops_per_s(clos, all_hosts_at_once(clos))
    assert found.whole.hops_per_ms == pytest.approx(hops_per_s / 1000)
    rate = limits.assumed_hops_per_s(clos.numbering.host_count)
    assert found.whole.takes_ns == pytest.approx(hops_per_s * 10**6 / rate, abs=1)
    assert limits.problems_of(plan) == []


def too_much(part: TopologySpec) -> bool:
    """Return True if the full fabric of switches with two more ports does not fit."""
    larger = part.model_copy(
        update={"t0": part.t0 + 2, "t1": part.t1 + 1, "hosts_per_t0": part.hosts_per_t0 + 1}
    )
    needs = cost(larger.numbering, part.port_rate or 0)
    return needs.memory_bytes > limits.allowed_bytes() or needs.takes_ns > limits.LONG_RUN_NS


@pytest.mark.parametrize(
    ("available_bytes", "obstacle"),
    [(4 << 30, "of memory, and 4 GiB is available"), (1 << 50, "more than 3,600 s")],
)
def test_the_largest_part_that_fits_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, available_bytes: int, obstacle: str
) -> None:
    monkeypatch.setattr(limits, "allowed_bytes", lambda: available_bytes)
    found = reach(planned(131_072))
    assert obstacle in (found.obstacle or "")
    assert found.part is not None
    assert found.part.t0 == 2 * found.part.t1 == 2 * found.part.hosts_per_t0
    assert too_much(found.part)
    if available_bytes == 4 << 30:  # a plan of some hundred hosts takes no time to make
        assert limits.problems_of(plan_of(found, tmp_path)) == []


def test_three_tiers_are_not_for_the_lab() -> None:
    found = reach(planned(4096, planes=1, tiers=3))
    assert (found.whole, found.obstacle) == (None, "the lab has two tiers of switches, not three")
    assert found.part is not None


def test_ports_that_are_too_fast_are_refused_with_the_rate_that_is_not() -> None:
    found = reach(planned(64, planes=1, nic_gbps=1600))
    assert "up to 1,136 Gbit/s is exact" in (found.obstacle or "")
    assert found.part is None


def test_more_ports_than_addresses_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "allowed_bytes", lambda: 1 << 60)
    found = reach(plan_fabric(Parts(16, 800 * GBPS, 102_400 * GBPS), 2, 2_000_000))
    assert "a uSID has room for 1024" in (found.obstacle or "")


def test_nothing_runs_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "allowed_bytes", lambda: 1 << 20)
    assert reach(planned(64)).part is None
