import pytest
from clos_strategies import small_closes
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.select import select_links, select_nodes
from mrc_testbed.topology.selector_spec import (
    LinkFilter,
    LinkSelector,
    parse_link_selector,
    parse_node_selector,
)
from mrc_testbed.topology.spec import TopologySpec

LAB = Clos(TopologySpec())


def link_names(text: str, seed: int = 1) -> list[str]:
    return [link.name for link in select_links(LAB, parse_link_selector(text), seed)]


def node_names(text: str, seed: int = 1) -> list[str]:
    return [node.name for node in select_nodes(LAB, parse_node_selector(text), seed)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h0:2", ["h0:2~p2-t0-0:0"]),
        ("h0:2~p2-t0-0:0", ["h0:2~p2-t0-0:0"]),
        ("p2-t0-0:0~h0:2", ["h0:2~p2-t0-0:0"]),
        ("h0:1, h5:0", ["h0:1~p1-t0-0:0", "h5:0~p0-t0-1:1"]),
        ("h0:1,h0:1,p1-t0-0:0", ["h0:1~p1-t0-0:0"]),
        ("p0-t1-1:*", ["p0-t0-0:5~p0-t1-1:0", "p0-t0-1:5~p0-t1-1:1"]),
        ("p0-t0-*~p0-t1-1", ["p0-t0-0:5~p0-t1-1:0", "p0-t0-1:5~p0-t1-1:1"]),
        ("p0-t0-0~p0-t1-1", ["p0-t0-0:5~p0-t1-1:0"]),
        ("p0-t1-1~p0-t0-*:5", ["p0-t0-0:5~p0-t1-1:0", "p0-t0-1:5~p0-t1-1:1"]),
        ("h[01]:3", ["h0:3~p3-t0-0:0", "h1:3~p3-t0-0:1"]),
        ("links: [h0:0, h1:0]", ["h0:0~p0-t0-0:0", "h1:0~p0-t0-0:1"]),
        ("{links: {node: h3}, pick: first}", ["h3:0~p0-t0-0:3"]),
        ("{links: {plane: 1, node: h3}}", ["h3:1~p1-t0-0:3"]),
        ("{links: {node: p0-t0-1, between: [t0, t1]}}", ["p0-t0-1:4~p0-t1-0:1", "p0-t0-1:5~p0-t1-1:1"]),
        ("{links: {plane: [0, 3], node: h1}, pick: first, count: 2}", ["h1:0~p0-t0-0:1", "h1:3~p3-t0-0:1"]),
        (
            "{links: {plane: 0, between: [t0, t1]}}",
            ["p0-t0-0:4~p0-t1-0:0", "p0-t0-0:5~p0-t1-1:0", "p0-t0-1:4~p0-t1-0:1", "p0-t0-1:5~p0-t1-1:1"],
        ),
    ],
)
def test_links_are_selected_by_name_glob_and_property(text: str, names: list[str]) -> None:
    assert link_names(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h3", ["h3"]),
        ("h1,h0", ["h0", "h1"]),
        ("p*-t1-0", ["p0-t1-0", "p1-t1-0", "p2-t1-0", "p3-t1-0"]),
        ("{nodes: {plane: 2, tier: t1}}", ["p2-t1-0", "p2-t1-1"]),
        ("{nodes: {plane: 2}}", ["p2-t0-0", "p2-t0-1", "p2-t1-0", "p2-t1-1"]),
        ("{nodes: {tier: host}, pick: first, count: 2}", ["h0", "h1"]),
        ("{nodes: [p3-t0-0, h7]}", ["p3-t0-0", "h7"]),
    ],
)
def test_nodes_are_selected_by_name_glob_and_property(text: str, names: list[str]) -> None:
    assert node_names(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h0", "h0 is a node, not a link; h0:* selects all its links"),
        ("h0:9", "h0 has no port 9: its ports are 0 to 3"),
        ("uplink", "'uplink' names neither a port nor a link"),
        ("h0:1,p9-*:*", "no link of this fabric matches p9-*:*"),
        ("h0:*~h0:*", "no link of this fabric matches h0:*~h0:*"),
        ("h0~h1", "no link of this fabric matches h0~h1"),
        ("host3:2", "there is no node 'host3'; did you mean h3"),
        ("{links: {plane: 4}}", "plane 4 does not exist: planes are numbered 0 to 3"),
        ("{links: {plan: 0}}", "links.plan: unknown key; did you mean 'plane'?"),
        ("{links: {}}", "an empty filter selects nothing; give plane, between, pod or node"),
        ("{links: {between: [t1, t0]}}", "use [host, t0], [t0, t1] or [t1, t2], lower tier first"),
        ("{links: {between: [host, t1]}}", "no link is written [host, t1]"),
        (
            "{links: {node: p0-t1-0, between: [host, t0]}}",
            "no link of this fabric matches {between: [host, t0], node: p0-t1-0}",
        ),
        ("{links: {plane: 0}, count: 2}", "count: 2 needs pick: first or pick: random"),
        (
            "{links: {plane: 0}, pick: first, count: 13}",
            "13 links are to be taken, but only 12 match {plane: 0}",
        ),
        ("{nodes: h0}", "links"),
        ("links: 'h0:0", "not valid YAML"),
        ("h0:1,", "links[1]"),
    ],
)
def test_a_selector_of_nothing_or_nonsense_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        link_names(text)
    assert message in refusal.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("h8", "there is no node 'h8'"),
        ("x*", "no node of this fabric matches x*"),
        ("{nodes: {tier: host, plane: 0}}", "a host is in all planes"),
        ("{nodes: {tier: spine}}", "nodes.tier"),
        ("{nodes: {}}", "an empty filter selects nothing; give plane, tier or pod"),
        ("{nodes: {plane: 7}}", "plane 7 does not exist"),
        (
            "{nodes: {tier: t1}, pick: random, count: 9}",
            "9 nodes are to be taken, but only 8 match {tier: t1}",
        ),
    ],
)
def test_a_node_selector_of_nothing_or_nonsense_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        node_names(text)
    assert message in refusal.value.message


def test_random_picks_depend_on_the_seed_alone() -> None:
    text = "{links: {between: [t0, t1]}, pick: random, count: 4}"
    assert link_names(text, seed=5) == link_names(text, seed=5)
    assert len({tuple(link_names(text, seed)) for seed in range(20)}) > 1
    assert sorted(link_names(text, seed=3), key=lambda name: LAB.link(name).id) == link_names(text, seed=3)


def test_a_random_pick_takes_one_when_no_count_is_given() -> None:
    assert len(link_names("{links: {plane: 0}, pick: random}")) == 1


@settings(max_examples=examples(60))
@given(small_closes(), st.data())
def test_a_filter_selects_exactly_the_links_with_its_properties(clos: Clos, data: st.DataObject) -> None:
    plane = data.draw(st.none() | st.integers(0, clos.spec.planes - 1))
    between = data.draw(st.none() | st.sampled_from([[Tier.HOST, Tier.T0], [Tier.T0, Tier.T1]]))
    node = data.draw(st.none() | st.sampled_from([node.name for node in clos.nodes()]))
    expected = [
        link
        for link in clos.links()
        if plane in {None, link.plane}
        and (between is None or [link.lower.node.tier, link.upper.node.tier] == between)
        and (node is None or node in {link.lower.node.name, link.upper.node.name})
    ]
    if plane is None and between is None and node is None:
        return
    selector = LinkSelector(links=LinkFilter(plane=plane, between=between, node=node))
    if expected:
        assert list(select_links(clos, selector, seed=0)) == expected
    else:
        with pytest.raises(UsageError, match="no link of this fabric matches"):
            select_links(clos, selector, seed=0)
