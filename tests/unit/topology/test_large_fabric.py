"""The fabric of the paper is computed, not built: bounds on calls and memory instead of a clock."""

import tracemalloc
from collections import Counter
from collections.abc import Iterator

import pytest

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node, Port
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.forwarding import fib_entries
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.select import select_links
from mrc_testbed.topology.selector_spec import parse_link_selector
from mrc_testbed.topology.spec import NicSpec, TopologySpec

PAPER = TopologySpec(planes=8, t0=512, t1=256, hosts_per_t0=256, nic=NicSpec(evs=256))
LAST_HOST = 512 * 256 - 1


class CountingClos(Clos):
    """Counts the elements it makes."""

    def __init__(self, spec: TopologySpec) -> None:
        super().__init__(spec)
        self.made: Counter[str] = Counter()

    def port(self, ref: str | int) -> Port:
        self.made["port"] += 1
        return super().port(ref)

    def host(self, index: int) -> Node:
        self.made["node"] += 1
        return super().host(index)

    def switch(self, tier: Tier, plane: int, index: int) -> Node:
        self.made["node"] += 1
        return super().switch(tier, plane, index)


@pytest.fixture
def traced_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_it_has_the_size_of_the_paper() -> None:
    number = Clos(PAPER).numbering
    assert number.host_count == 131_072
    assert number.planes * number.switches[0] == 4_096
    assert number.link_count == 2 * 8 * 512 * 256


@pytest.mark.usefixtures("traced_memory")
def test_questions_about_a_path_make_a_few_elements_only() -> None:
    clos = CountingClos(PAPER)
    assert clos.made.total() == 0

    path = explain_ev(clos, clos.ev(7, 255), 0, LAST_HOST)

    assert [hop.node.name for hop in path.hops] == ["h0", "p7-t0-0", "p7-t1-255", "p7-t0-511", "h131071"]
    assert str(path.carrier) == "fcbb:0:5c00:9cff:5dff:dcff::"
    assert clos.made.total() < 100
    assert len(build_ev_set(clos, 0, LAST_HOST)) == 256
    assert clos.made.total() < 100
    assert tracemalloc.get_traced_memory()[1] < 1 << 20


@pytest.mark.usefixtures("traced_memory")
def test_a_forwarding_table_is_made_for_one_switch_alone() -> None:
    clos = CountingClos(PAPER)
    entries = list(fib_entries(clos, clos.t0(7, 511)))
    assert len(entries) == 1 + 256 + 256
    assert clos.made.total() == 1
    assert tracemalloc.get_traced_memory()[1] < 1 << 20


def test_picking_links_of_a_plane_makes_the_picked_links_only() -> None:
    clos = CountingClos(PAPER)
    selector = parse_link_selector("{links: {plane: 3, between: [t0, t1]}, pick: random, count: 2}")
    links = select_links(clos, selector, seed=1)
    assert [link.plane for link in links] == [3, 3]
    assert clos.made["port"] == 4
