"""The phrases for a fault while it acts."""

import pytest

from mrc_testbed.faults.spec import KINDS, describe_condition
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=10_000_000))
UPLINK = "p0-t0-0:1~p0-t1-0:0"


def links_of(node: str) -> list[str]:
    return [CLOS.link(port.link_id).name for port in CLOS.ports_of(CLOS.node(node))]


@pytest.mark.parametrize(
    ("kind", "links", "nodes", "text"),
    [
        ("link-flap", [UPLINK], [], f"link {UPLINK} flapped"),
        ("drain", links_of("p0-t1-0"), [], "2 links of p0-t1-0 were drained"),
        ("link-down", ["h0:0~p0-t0-0:0", "h1:1~p1-t0-1:0"], [], "2 links were down"),
        ("switch-reboot", links_of("p0-t1-0"), ["p0-t1-0"], "p0-t1-0 was away"),
        ("host-pause", [], ["h0", "h1"], "2 nodes stood still"),
        ("plane-down", [link.name for link in CLOS.links() if link.plane == 1], [], "plane 1 was down"),
        ("drain", [link.name for link in CLOS.links() if link.plane == 1], [], "plane 1 was drained"),
        ("plane-down", [link.name for link in CLOS.links()], [], "2 planes were down"),
    ],
)
def test_place_and_condition(kind: str, links: list[str], nodes: list[str], text: str) -> None:
    assert describe_condition(kind, links, nodes, CLOS) == text


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_condition(kind: str) -> None:
    assert describe_condition(kind, [UPLINK], [], CLOS).endswith(f" {KINDS[kind].condition}")
