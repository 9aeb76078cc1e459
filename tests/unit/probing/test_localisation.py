"""Links are found by what the probes lose, and only those."""

from itertools import permutations

import pytest
from exploring import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from probe_fabric import all_paths, fabric, outcomes

from mrc_agents.nic.denylist import DeniedPath
from mrc_testbed.probing.avoidance import paths_around
from mrc_testbed.probing.localisation import localise
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.probe_path import PathOutcome, since

TALL = [{"joins": 2}, {"joins": 2, "switches": 2}, {"joins": 2, "switches": 2}]


def names(clos: Clos, links: frozenset[int]) -> set[str]:
    return {clos.link(link).name for link in links}


def test_sound_fabric_has_no_suspect() -> None:
    clos = fabric()
    diagnosis = localise(clos, outcomes(clos, {}))
    assert (diagnosis.suspects, diagnosis.nodes) == (frozenset(), ())
    assert diagnosis.health.keys() == {link.id for link in clos.links()}
    assert all(health.loss == 0 and health.probes for health in diagnosis.health.values())


@pytest.mark.parametrize("loss", [1.0, 0.5, 0.2, 0.05])
@pytest.mark.parametrize("shape", [{}, {"tiers": TALL}], ids=["two tiers", "three tiers"])
def test_every_link_is_found_alone(loss: float, shape: dict[str, object]) -> None:
    clos = fabric(**shape)
    for link in clos.links():
        diagnosis = localise(clos, outcomes(clos, {link.id: loss}))
        assert names(clos, diagnosis.suspects) == {link.name}
        assert diagnosis.nodes == ()
        estimate = diagnosis.health[link.id].loss
        assert estimate == pytest.approx(1 - (1 - loss) ** 2, abs=0.01)


def test_uplink_behind_a_lossy_host_link_is_judged_by_the_other_host() -> None:
    clos = fabric(hosts_per_t0=3, probing={"t1_share": 1.0})
    lossy, broken = clos.host_link(0, 1).id, clos.fabric_link(1, 0, 1).id
    diagnosis = localise(clos, outcomes(clos, {lossy: 0.4, broken: 0.3}))
    assert diagnosis.suspects == {lossy, broken}
    assert diagnosis.health[broken].loss == pytest.approx(0.51, abs=0.01)


def test_links_that_many_probes_cross_together_are_both_found() -> None:
    clos = fabric(tiers=[{"joins": 2}, {"joins": 2}, {"joins": 2}])
    lossy, broken = clos.host_link(1, 0).id, clos.fabric_link(0, 0, 0).id
    assert localise(clos, outcomes(clos, {lossy: 0.2, broken: 0.2}, probes=400)).suspects == {lossy, broken}


def test_broken_t2_is_named() -> None:
    clos = fabric(tiers=TALL)
    links = {port.link_id for port in clos.ports_of(clos.node("p1-t2-3"))}
    diagnosis = localise(clos, outcomes(clos, dict.fromkeys(links, 0.3)))
    assert diagnosis.nodes == ("p1-t2-3",)
    assert diagnosis.suspects == links


def test_lossy_host_link_alone_puts_no_blame_on_the_uplinks_behind_it() -> None:
    clos = fabric(hosts_per_t0=1, t0=3)
    link = clos.host_link(0, 0).id
    for seed in range(20):
        diagnosis = localise(clos, outcomes(clos, {link: 0.2}, seed=seed))
        assert diagnosis.suspects == {link}


def test_nothing_is_known_behind_a_dead_link() -> None:
    clos = fabric(hosts_per_t0=1, t0=3)
    diagnosis = localise(clos, outcomes(clos, {clos.host_link(0, 0).id: 1.0}))
    behind = diagnosis.health[clos.fabric_link(0, 0, 0).id]
    assert (behind.probes, behind.loss) == (0, None)


@pytest.mark.parametrize("name", ["p0-t1-1", "p1-t0-0", "h2"])
def test_node_is_named_when_all_its_links_are_dead(name: str) -> None:
    clos = fabric()
    links = {port.link_id for port in clos.ports_of(clos.node(name))}
    diagnosis = localise(clos, outcomes(clos, dict.fromkeys(links, 1.0)))
    assert diagnosis.nodes == (name,)
    assert diagnosis.suspects == links


@pytest.mark.parametrize("name", ["p0-t1-1", "p1-t0-0", "h2"])
def test_node_is_named_when_all_its_links_lose_the_same_little(name: str) -> None:
    clos = fabric()
    links = {port.link_id for port in clos.ports_of(clos.node(name))}
    diagnosis = localise(clos, outcomes(clos, dict.fromkeys(links, 0.01), probes=1600, seed=1))
    assert diagnosis.nodes == (name,)
    assert diagnosis.suspects == links


def test_links_of_a_node_that_lose_differently_are_named_one_by_one() -> None:
    clos = fabric()
    one, other = (port.link_id for port in clos.ports_of(clos.node("p0-t1-1")))
    diagnosis = localise(clos, outcomes(clos, {one: 0.2, other: 0.02}, probes=1600))
    assert diagnosis.nodes == ()
    assert diagnosis.suspects == {one, other}
    assert diagnosis.describe(diagnosis.parts[0]) == "it loses 36 % of probes, no other loses any"


def test_parts_that_explain_losses_equally_well_are_named_together() -> None:
    """A dead link looks like a dead T0 where the T0 has one host only."""
    clos = fabric(hosts_per_t0=1, t0=3)
    link = clos.host_link(0, 0)
    [part] = localise(clos, outcomes(clos, {link.id: 1.0})).parts
    assert part.names == (link.name, "p0-t0-0")
    assert part.links.keys() == {link.id}


def test_plane_that_is_down_is_its_switches() -> None:
    clos = fabric()
    links = {link.id for link in clos.links() if link.plane == 1}
    diagnosis = localise(clos, outcomes(clos, dict.fromkeys(links, 1.0)))
    assert diagnosis.nodes == ("p1-t0-0", "p1-t0-1")
    assert diagnosis.suspects == links


def test_few_losses_prove_nothing() -> None:
    clos = fabric()
    paths = all_paths(clos)
    assert localise(clos, [PathOutcome(path, 98, 2) for path in paths]).suspects == frozenset()
    assert localise(clos, [PathOutcome(path, 10_000, 3) for path in paths]).suspects == frozenset()


def test_probes_that_came_late_were_not_lost() -> None:
    clos = fabric()
    slow = [PathOutcome(path, 10, 90, late=90) for path in all_paths(clos)]
    assert localise(clos, slow).suspects == frozenset()


def test_host_that_sends_no_probes_says_nothing() -> None:
    clos = fabric()
    silent = [o for o in outcomes(clos, {}) if o.path.host != 0]
    silent += [PathOutcome(path, 0, 0) for path in all_paths(clos) if path.host == 0]
    diagnosis = localise(clos, silent)
    assert diagnosis.suspects == frozenset()
    assert diagnosis.health[clos.host_link(0, 0).id].loss is None


@st.composite
def broken_fabrics(draw: st.DrawFn) -> tuple[Clos, dict[int, float]]:
    """Fabrics with some links that lose a fifth or all, where some host sees each link by sound ones."""
    small, planes = st.integers(1, 2), draw(st.integers(1, 3))
    probing = {"t1_share": draw(st.sampled_from([0.5, 0.75, 1.0]))}
    tiers = [
        {"joins": draw(st.integers(2, 4))},
        {"joins": draw(st.integers(1, 3)), "switches": draw(st.integers(1, 3)), "links": draw(small)},
    ]
    if draw(st.booleans()):
        tiers.append({"joins": draw(small), "switches": draw(small), "links": draw(small)})
    clos = fabric(planes=planes, tiers=tiers, probing=probing)
    links = st.integers(0, clos.numbering.link_count - 1)
    losses = draw(st.dictionaries(links, st.sampled_from([0.2, 0.5, 1.0]), max_size=6))
    watchers: dict[int, list[tuple[int, ...]]] = {}
    for path in all_paths(clos):
        watchers.setdefault(path.links[-1], []).append(path.links[:-1])
    assume(all(any(map(losses.keys().isdisjoint, before)) for before in watchers.values()))
    for plane in range(planes):
        for row in range(clos.numbering.switches[0]):
            per_row = range(clos.numbering.hosts_per_t0)
            row_links = [clos.host_link(row * len(per_row) + i, plane).id for i in per_row]
            assume(any(link not in losses for link in row_links))
    return clos, losses


@settings(max_examples=examples(150))
@given(broken_fabrics(), st.integers(0, 2**32))
def test_exactly_the_broken_links_are_suspected(broken: tuple[Clos, dict[int, float]], seed: int) -> None:
    clos, losses = broken
    diagnosis = localise(clos, outcomes(clos, losses, probes=400, seed=seed))
    assert diagnosis.suspects == losses.keys()
    assert diagnosis.health.keys() == {link.id for link in clos.links()}


# -- what is made of it --------------------------------------------------------------------------------------


def test_counts_of_an_interval_are_the_difference() -> None:
    (path, *_) = all_paths(fabric())
    before, after = PathOutcome(path, 10, 2, 1, 1000), PathOutcome(path, 25, 6, 4, 4000)
    (between,) = since([after], [before])
    assert between == PathOutcome(path, 15, 4, 3, 3000)
    assert (between.returned, between.lost) == (18, 1)


def test_denied_paths_are_those_that_cross_the_link() -> None:
    clos = fabric()
    uplink = clos.fabric_link(1, 0, 1)
    denied = paths_around(clos, [uplink.id])
    assert denied[0] == denied[1] == (DeniedPath(1, 1, None),)
    assert denied[2] == denied[3] == (DeniedPath(1, 1, 0), DeniedPath(1, 1, 1))
    assert paths_around(clos, []) == {}


@settings(max_examples=examples(20))
@given(broken_fabrics())
def test_a_path_is_denied_just_when_it_crosses_one_of_the_links(
    broken: tuple[Clos, dict[int, float]],
) -> None:
    clos, losses = broken
    denied = paths_around(clos, losses)
    for source, target in permutations(range(clos.numbering.host_count), 2):
        distance = clos.distance(source, target)
        ways = clos.numbering.way_count(distance)
        for ev in build_ev_set(clos, source, target, clos.spec.planes * ways):
            crosses = any(link.id in losses for link in explain_ev(clos, ev, source, target).links)
            is_denied = any(path.covers(ev, target) for path in denied.get(source, ()))
            if distance:
                assert is_denied == crosses
            else:  # its EVs say uplink 0, which they do not cross
                assert is_denied or not crosses
