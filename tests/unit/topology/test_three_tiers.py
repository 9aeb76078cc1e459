"""Three tiers in what is asked of a fabric: its file, selectors, times, EVs of near and far hosts."""

import pytest

from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.demand import OfferedFlow, frame_hops_per_s
from mrc_testbed.topology import timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.path import build_path, explain_ev
from mrc_testbed.topology.select import select_links, select_nodes
from mrc_testbed.topology.selector_spec import parse_link_selector, parse_node_selector
from mrc_testbed.topology.spec import TopologySpec

TIERS: list[Tree] = [{"joins": 2}, {"joins": 2, "switches": 2}, {"joins": 3, "switches": 2, "links": 2}]


def fabric(**changes: Tree) -> Clos:
    """Three pods of two T0s and two T1s, and four T2s, per plane; 12 hosts."""
    values: dict[str, Tree] = {"planes": 2, "tiers": TIERS, "port_rate": "100Gbit"}
    return Clos(validate_values(values | changes, TopologySpec, "lab"))


CLOS = fabric()


def test_two_tiers_of_the_list_are_those_of_the_short_form() -> None:
    short = TopologySpec(planes=3, t0=4, t1=2, hosts_per_t0=5, uplinks_per_pair=6)
    tiers = [{"joins": 5}, {"joins": 4, "switches": 2, "links": 6}]
    assert TopologySpec.model_validate({"planes": 3, "tiers": tiers}).numbering == short.numbering


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"t1": 3}, "t1: tiers says it already; leave t1 out"),
        ({"tiers": TIERS[:1]}, "tiers: "),
        ({"forwarding": "stev"}, "a structured EV names the links of two tiers; use srv6 or ecmp"),
        (
            {"tiers": [{"joins": 2, "switches": 2}, *TIERS[1:]]},
            "tiers[0].switches: a host has one link to a T0",
        ),
        ({"tiers": [*TIERS[:2], {"joins": 3, "switches": 2000}]}, "uplinks of a T1 is 2000"),
        ({"tiers": [TIERS[0], {"joins": 1}, {"joins": 600, "links": 2}]}, "and downlinks of a T2 is 1201"),
        (
            {"tiers": [TIERS[0], {"joins": 2, "switches": 70}, {"joins": 2, "switches": 70}]},
            "4900 paths between pods, but an EV",
        ),
    ],
)
def test_what_three_tiers_do_not_allow_is_refused(changes: dict[str, Tree], message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        fabric(**changes)
    assert message in refusal.value.message


def test_a_path_is_as_long_as_its_hosts_are_far_apart() -> None:
    one_ns = timing.IdleFabric(CLOS).there_and_back_ns(0)
    for host, distance, top in ((1, 0, Tier.T0), (2, 1, Tier.T1), (11, 2, Tier.T2)):
        path = build_path(CLOS, 0, host, 1, 0)
        assert (CLOS.distance(0, host), path.top.tier) == (distance, top)
        assert len(path.links) == len(path.usids) == 2 * (distance + 1)
        assert timing.IdleFabric(CLOS).rtt_ns(0, host) == len(path.links) * one_ns
        assert timing.byte_time_ps(CLOS, distance) == len(path.links) * 80
    assert timing.base_rtt_ns(CLOS) == 6 * one_ns


@pytest.mark.parametrize("joins", [(1, 2), (2, 1), (2, 2), (1, 1), (3, 2)])
def test_a_shift_leads_to_a_host_as_far_away_as_hosts_are(joins: tuple[int, int]) -> None:
    upper: list[Tree] = [{"joins": count, "switches": 2} for count in joins]
    number = fabric(tiers=[{"joins": 2}, *upper]).numbering
    for host in range(number.host_count):
        far = (host + number.far_shift) % number.host_count
        assert (far != host, number.distance(host, far)) == (True, number.diameter)


def test_an_ev_of_far_hosts_leads_near_ones_by_its_first_uplink() -> None:
    assert CLOS.numbering.way_count(2) == 8
    for way in range(8):
        ev = CLOS.ev(0, way)
        far, near = explain_ev(CLOS, ev, 0, 4), explain_ev(CLOS, ev, 0, 2)
        assert far.uplink == way
        assert near.uplink == way % 2
        assert near.links[1] == far.links[1]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("{links: {between: [t1, t2]}}", 2 * 6 * 4),
        ("{links: {between: [t1, t2], plane: 0, pod: 1}}", 2 * 4),
        ("{links: {between: [t0, t1], pod: [0, 2]}}", 2 * 2 * 4),
        ("{links: {pod: 1, plane: 1}}", 4 + 4 + 8),
        ("p0-t1-2~p0-t2-*", 4),
        ("p1-t2-3:*", 6),
    ],
)
def test_links_are_selected_by_tier_and_pod(text: str, count: int) -> None:
    assert len(select_links(CLOS, parse_link_selector(text), 0)) == count


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{nodes: {tier: t2, plane: 0}}", ["p0-t2-0", "p0-t2-1", "p0-t2-2", "p0-t2-3"]),
        ("{nodes: {tier: t1, pod: 1}}", ["p0-t1-2", "p0-t1-3", "p1-t1-2", "p1-t1-3"]),
        ("{nodes: {pod: 2, plane: 1}}", ["p1-t0-4", "p1-t0-5", "p1-t1-4", "p1-t1-5"]),
        ("{nodes: {tier: host, pod: 0}}", ["h0", "h1", "h2", "h3"]),
    ],
)
def test_nodes_are_selected_by_tier_and_pod(text: str, names: list[str]) -> None:
    assert [node.name for node in select_nodes(CLOS, parse_node_selector(text), 0)] == names


def test_a_pod_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="pod 3 does not exist: pods are numbered 0 to 2"):
        select_links(CLOS, parse_link_selector("{links: {pod: 3}}"), 0)


def test_a_pod_has_no_more_to_offer_than_its_uplinks_carry() -> None:
    narrow = fabric(tiers=[{"joins": 2}, {"joins": 2, "switches": 2}, {"joins": 3}])
    flows = [OfferedFlow(host, host + 4) for host in range(4)]
    whole, half = (frame_hops_per_s(clos, flows) for clos in (CLOS, narrow))
    assert half == pytest.approx(whole / 2)
