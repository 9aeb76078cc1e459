"""Planned fabrics beside what was published, a cabling counted link by link, and the lab's own Clos."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.forwarding import fib_entries
from mrc_testbed.topology.numbering import Numbering
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.sizing import LAB_HOSTS_MAX, Fabric, Parts, plan_fabric, scaled
from mrc_testbed.topology.spec import TierSpec, TopologySpec
from mrc_testbed.topology.usid import PLANE_SHIFT, Role, usid_counts

GBPS = 10**9
Node = tuple[str, int, int]
Cable = tuple[Node, Node]


def published(planes: int) -> Parts:
    return Parts(planes, 800 * GBPS, 51_200 * GBPS)


def full(planes: int, tiers: int) -> Fabric:
    parts = published(planes)
    return plan_fabric(parts, tiers, parts.largest_nics(tiers))


def loss_of_link(planes: int) -> float:
    [loss] = [loss for loss in full(planes, 2).losses() if loss.part == "T0-T1 link"]
    return loss.of_plane


def test_eight_planes_reach_the_published_nics_in_two_tiers() -> None:
    fabric = full(8, 2)
    assert (fabric.parts.switch_ports, fabric.nics) == (512, 131_072)
    assert (fabric.numbering.switches, fabric.numbering.hosts_per_t0) == ((512, 256), 256)


def test_a_single_plane_of_three_tiers_reaches_half_of_them() -> None:
    assert full(1, 3).nics == 65_536


@pytest.mark.parametrize("planes", [1, 8])
def test_two_tiers_need_the_published_shares_of_optics_and_switches(planes: int) -> None:
    two, three = full(8, 2), full(planes, 3)
    assert 3 * two.optics * three.nics == 2 * three.optics * two.nics
    assert 5 * two.numbering.switch_count * three.nics == 3 * three.numbering.switch_count * two.nics


def test_a_link_takes_the_published_shares() -> None:
    assert f"{loss_of_link(1):.0%}" == "3%"
    assert f"{loss_of_link(8):.1%}" == "0.4%"


def cables(fabric: Fabric) -> Iterator[Cable]:
    """Every cable of a plan, one by one: ends are (tier, plane, index)."""
    number = fabric.numbering
    for plane in range(fabric.parts.planes):
        for nic in range(fabric.nics):
            yield ("nic", 0, nic), ("t0", plane, nic % number.switches[0])
        for level, tier in enumerate(number.tiers[1:]):
            below, above = number.group_sizes[level : level + 2]
            for group, child, place in product(
                range(number.groups[level + 1]), range(tier.joins), range(below)
            ):
                for up, _ in product(range(tier.switches), range(tier.lanes)):
                    lower = (group * tier.joins + child) * below + place
                    upper = group * above + place * tier.switches + up
                    yield (f"t{level}", plane, lower), (f"t{level + 1}", plane, upper)


@st.composite
def plans(draw: st.DrawFn) -> Fabric:
    planes, half = draw(st.sampled_from([1, 2, 4, 8])), draw(st.integers(1, 6))
    parts = Parts(planes, planes * 100 * GBPS, 2 * half * 100 * GBPS)
    tiers = draw(st.sampled_from([2, 3]))
    return plan_fabric(parts, tiers, draw(st.integers(2, max(2, parts.largest_nics(tiers)))))


@given(plans())
def test_a_cabling_has_as_many_parts_and_fits_the_ports(fabric: Fabric) -> None:
    parts, cabled = fabric.parts, list(cables(fabric))
    up, down = Counter(lower for lower, _ in cabled), Counter(upper for _, upper in cabled)
    switches = {node for cable in cabled for node in cable if node[0] != "nic"}
    optics = sum(ceil(count / parts.planes) for side in (up, down) for count in side.values())
    assert (fabric.links, fabric.optics) == (len(cabled), optics)
    assert fabric.numbering.switch_count == len(switches)
    assert max((up + down)[node] for node in switches) <= parts.switch_ports
    below_a_tier = {"t0", "t1"} if fabric.switches(2) else {"t0"} if fabric.switches(1) else set()
    assert {up[node] for node in switches if node[0] in below_a_tier} <= {parts.half}
    assert {up[node] for node in switches if node[0] not in below_a_tier} == {0}


@given(plans())
def test_a_loss_counts_the_nics_and_ways_of_the_cabling(fabric: Fabric) -> None:
    cabled, planes = list(cables(fabric)), fabric.parts.planes
    losses = {loss.part: loss for loss in fabric.losses()}
    links = Counter((lower[0], upper[0]) for lower, upper in cabled)
    switches = Counter(tier for tier, _, _ in {node for cable in cabled for node in cable})
    t0_of = {lower: upper for lower, upper in cabled if lower[0] == "nic" and upper[1] == 0}
    row = Counter(t0_of.values())
    assert losses["T0"].nics == losses.get("T0-T1 link", losses["T0"]).nics == max(row.values())
    for part, tier in (("T0", "t0"), ("T1", "t1"), ("T2", "t2")):
        assert (losses[part].count if part in losses else 0) == switches[tier]
    for part, ends in (("host link", ("nic", "t0")), ("T0-T1 link", ("t0", "t1"))):
        assert (losses[part].count if part in losses else 0) == links[ends]
    modules = {t0: ceil(hosts / planes) for t0, hosts in row.items()}
    at_hosts = losses["T0 optic to hosts"]
    assert (at_hosts.count, at_hosts.of_plane) == (planes * sum(modules.values()), 1)
    assert at_hosts.nics == max(min(planes, hosts) for hosts in row.values())
    of_nic = losses["NIC optic"]
    assert (of_nic.count, of_nic.nics, of_nic.planes, of_nic.of_nic) == (fabric.nics, 1, planes, 1)
    if fabric.switches(1):
        first = [upper for lower, upper in cabled if lower == ("t0", 0, 0)]
        assert losses["T0-T1 link"].of_plane == 1 / len(first)
        assert losses["T0 optic to T1s"].of_plane == len(first[:planes]) / len(first)
        assert losses["T0 optic to T1s"].count == switches["t0"] * ceil(len(first) / planes)
        assert losses["T1"].of_plane == pytest.approx(first.count(("t1", 0, 0)) / len(first))
        below = {lower for lower, upper in cabled if upper == ("t1", 0, 0)}
        behind = sum(row[t0] for t0 in below)
        assert behind <= losses["T1"].nics <= behind + len(below)
    if fabric.switches(2):
        ways = Counter(
            top
            for lower, middle in cabled
            if lower == ("t0", 0, 0)
            for below_top, top in cabled
            if below_top == middle
        )
        assert fabric.paths == planes * ways.total()
        assert losses["T2"].of_plane == pytest.approx(ways[("t2", 0, 0)] / ways.total())
        assert losses["T1-T2 link"].count == links[("t1", "t2")]
    assert losses["plane"].of_fabric == pytest.approx(1 / planes)
    for loss in losses.values():
        assert loss.of_fabric * fabric.nics == pytest.approx(loss.nics * loss.of_nic)


def lab_of(number: Numbering) -> TopologySpec:
    tiers = [TierSpec(joins=each.joins, switches=each.switches, links=each.lanes) for each in number.tiers]
    return TopologySpec(planes=number.planes, tiers=tiers)


@pytest.mark.parametrize(("tiers", "nics"), [(2, 8), (2, 16), (2, 24), (2, 32), (3, 8), (3, 64), (3, 128)])
def test_the_labs_clos_has_the_same_counts(tiers: int, nics: int) -> None:
    fabric = plan_fabric(Parts(4, 400 * GBPS, 800 * GBPS), tiers, nics)
    clos = Clos(lab_of(fabric.numbering))
    usids = {key for switch in clos.switches() if switch.plane == 0 for key, _ in fib_entries(clos, switch)}
    path = explain_ev(clos, clos.ev(0, 0), 0, nics - 1)
    assert len(list(clos.hosts())) == nics
    assert len(path.usids) == fabric.usids_of_packet
    assert len(list(clos.links())) == fabric.links
    counts = usid_counts(fabric.numbering)
    roles = Counter(Role(key >> PLANE_SHIFT) for key in usids)
    assert roles.pop(Role.DOWNLINK) == max(counts.pop(Role.DOWNLINK), counts.pop(Role.T2, 0))
    assert roles == counts


@given(plans())
def test_a_scaled_lab_has_the_ratios_of_the_plan(fabric: Fabric) -> None:
    plan, lab = fabric.numbering, scaled(fabric.numbering)
    assert 2 <= lab.host_count <= min(LAB_HOSTS_MAX, plan.host_count)
    assert (lab.planes, len(lab.tiers)) == (plan.planes, len(plan.tiers))
    for small, large, up, planned_up in zip(
        lab.downlinks, plan.downlinks, lab.uplinks[:-1], plan.uplinks[:-1], strict=False
    ):
        assert planned_up % up == 0
        assert small / up == pytest.approx(large / planned_up, abs=1 / up)
    if plan.tiers[1:]:
        assert resolve_topology(lab_of(lab)).numbering == lab
    if plan.host_count <= LAB_HOSTS_MAX:
        assert lab == plan


@pytest.mark.parametrize(("paths", "planes", "bits"), [(2048, 8, 11), (32, 1, 5), (256, 2, 7)])
def test_ev_bits_name_each_path(paths: int, planes: int, bits: int) -> None:
    fabric = full(planes, 2)
    assert fabric.ev_bits == bits
    assert 2 ** (bits - 1) < fabric.paths <= 2**bits


@pytest.mark.parametrize(
    ("planes", "nic_gbps", "switch_gbps", "message"),
    [
        (3, 800, 51_200, "a NIC of 800 Gbit/s has no equal ports for 3 planes"),
        (1, 0, 51_200, "a NIC of 0 has no equal ports"),
        (1, 800, 0, "a switch of 0 has no even number of ports of 800 Gbit/s"),
        (1, 800, 1_200, "no even number of ports"),
        (1, 800, 2_400, "no even number of ports"),
        (1, 1, 100_000, "a switch has 100,000 ports: this is for at most 65,536"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    planes: int, nic_gbps: int, switch_gbps: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Parts(planes, nic_gbps * GBPS, switch_gbps * GBPS)


@pytest.mark.parametrize(("tiers", "reach"), [(2, "2,048"), (3, "65,536")])
def test_more_nics_than_a_fabric_reaches_are_refused_with_their_number(tiers: int, reach: str) -> None:
    with pytest.raises(UsageError, match=f"131,072 NICs do not fit.* reach {reach} in {tiers} tiers"):
        plan_fabric(published(1), tiers, 131_072)
