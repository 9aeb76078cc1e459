"""The overload of a machine, by a fabric and by a scenario."""

import pytest

from mrc_testbed.metrics.capacity import Capacity, this_machine
from mrc_testbed.scenario.spec.demand import Overload, bench_overload, plan_overload, topology_overload
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.spec import TopologySpec

KNOWN = Capacity(this_machine(), "2026-11-21T19:00:00+00:00", 500_000.0, 800_000.0, 300_000.0)


def fabric(text: str) -> TopologySpec:
    return load_scenario(_scenario(text)).topology


def scenario_overload(topology: str, workload: str) -> Overload | None:
    return plan_overload(resolve(load_scenario(_scenario(topology, workload))), KNOWN)


def overload_of_bench(topology: str, workload: str, *, has_direct_links: bool = False) -> Overload | None:
    scenario = load_scenario(_scenario(topology, workload))
    (planned,) = resolve(scenario).workloads
    return bench_overload(
        scenario.topology, planned.load, "bench ring", KNOWN, has_direct_links=has_direct_links
    )


def _scenario(topology: str, workload: str = "kind: sendrecv, shift: 4, size: 64KiB") -> str:
    return (
        "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"
        f"  topology: {{{topology}}}\n  workloads: [{{name: main, {workload}, duration: 1s}}]\n"
    )


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("", None),
        ("port_rate: 25Mbit", None),
        ("port_rate: 100Mbit", False),  # all hosts: 731 k; two neighbours: 91 k
        ("port_rate: 800Mbit", False),  # two neighbours: 731 k
        ("port_rate: 1Gbit", True),  # two neighbours: 913 k
        ("port_rate: 1Gbit, queue: {links: direct}", False),
        ("port_rate: 1Gbit, queue: {drainers: 2}", False),
        ("port_rate: 1Gbit, queue: {overrides: [{at: t1, links: direct}]}", False),
        ("port_rate: 450Mbit, hosts_per_t0: 1, t0: 3", True),  # no neighbours: each pair crosses a T1, 822 k
    ],
)
def test_a_fabric_is_hopeless_when_no_two_hosts_can_have_their_rate(
    topology: str, expected: bool | None
) -> None:
    overload = topology_overload(fabric(topology), KNOWN)
    assert (None if overload is None else overload.is_hopeless) is expected


@pytest.mark.parametrize(
    ("topology", "workload", "expected"),
    [
        ("port_rate: 500Mbit", "kind: write-lat, from: h0, to: h5, size: 64B", None),
        ("port_rate: 50Mbit", "kind: sendrecv, shift: 4, size: 64KiB", None),
        ("port_rate: 100Mbit", "kind: sendrecv, shift: 4, size: 64KiB", False),
        ("port_rate: 200Mbit", "kind: sendrecv, shift: 4, size: 64KiB", True),
        ("port_rate: 200Mbit", "kind: write-bw, from: h0, to: h5, size: 64KiB", None),
        ("port_rate: 500Mbit", "kind: write-bw, from: h0, to: h5, size: 64KiB", True),
        ("port_rate: 1Gbit", "kind: all-reduce, size: 64KiB", True),
        ("", "kind: sendrecv, shift: 4, size: 64KiB", None),
    ],
)
def test_a_scenario_is_weighed_by_what_its_workloads_can_need(
    topology: str, workload: str, expected: bool | None
) -> None:
    overload = scenario_overload(topology, workload)
    assert (None if overload is None else overload.is_hopeless) is expected


@pytest.mark.parametrize(
    ("topology", "workload"),
    [
        ("port_rate: 50Mbit", "kind: sendrecv, shift: 4, size: 64KiB"),
        ("port_rate: 500Mbit", "kind: write-lat, from: h0, to: h5, size: 64B"),
        ("", "kind: sendrecv, shift: 4, size: 64KiB"),
    ],
)
def test_a_bench_that_the_machine_carries_is_let_be(topology: str, workload: str) -> None:
    assert overload_of_bench(topology, workload) is None


def test_a_bench_that_is_carried_late_is_warned_of_in_its_own_words() -> None:
    overload = overload_of_bench("port_rate: 100Mbit", "kind: sendrecv, shift: 4, size: 64KiB")
    assert overload is not None
    assert not overload.is_hopeless
    assert overload.text == (
        "bench ring can need 731 k frame hops/s; this machine carries about 500 k (measured 2026-11-21)."
        " Beyond 68% of that load frames leave late and what is measured is this machine, not the fabric:"
        " lower port_rate, or use fewer hosts"
    )


@pytest.mark.parametrize("written", ["veth", "direct"])
def test_a_bench_is_weighed_by_the_links_that_the_lab_has_now(written: str) -> None:
    topology = f"port_rate: 200Mbit, queue: {{links: {written}}}"  # 1.46 M
    ring = "kind: sendrecv, shift: 4, size: 64KiB"
    for has_direct_links in (False, True):
        overload = overload_of_bench(topology, ring, has_direct_links=has_direct_links)
        assert overload is not None
        assert overload.is_hopeless is not has_direct_links


def test_the_rate_that_is_advised_is_carried_in_time() -> None:
    overload = scenario_overload("port_rate: 200Mbit", "kind: sendrecv, shift: 4, size: 64KiB")
    assert overload is not None
    assert overload.remedies == ("lower port_rate to 68Mbit", "use fewer hosts")
    assert scenario_overload("port_rate: 68Mbit", "kind: sendrecv, shift: 4, size: 64KiB") is None
    hopeless = topology_overload(TopologySpec(port_rate=10**11), KNOWN)
    assert hopeless is not None
    assert hopeless.remedies == ("lower port_rate to 68Mbit",)
    assert topology_overload(TopologySpec(port_rate=68_000_000), KNOWN) is None
