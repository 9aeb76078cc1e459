"""The judgement of a health check: planted faults are named, and nothing else."""

from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.check.figures import AllReduceFigures, CheckFigures, PairFigures, PathFigures
from mrc_testbed.check.judgement import judge
from mrc_testbed.probing.localisation import Diagnosis
from mrc_testbed.topology.ev_set import one_ev_per_path
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

CLOS = resolve_topology(TopologySpec(planes=2, t0=3, t1=2, hosts_per_t0=2))
HOSTS = [host.name for host in CLOS.hosts()]
RTT_NS = {2: 10_000, 4: 20_000}
LINKS = [link.name for link in CLOS.links()]
NODES = [node.name for node in CLOS.nodes()]


def way(source, target, ev):
    path = explain_ev(CLOS, ev, source.index, target.index)
    return PathFigures(
        source=source.name,
        target=target.name,
        plane=path.plane,
        over=(path.t1 or CLOS.t0_of(source.index, path.plane)).name,
        uplink=None,
        links=tuple(link.name for link in path.links),
        nodes=tuple(hop.node.name for hop in path.hops),
        sent=3,
        answered=3,
        rtt_ns=RTT_NS[len(path.links)],
    )


@cache
def healthy():
    pairs = list(permutations(CLOS.hosts(), 2))
    paths = [way(a, b, ev) for a, b in pairs for ev in one_ev_per_path(CLOS, a.index, b.index)]
    return CheckFigures(
        hosts=HOSTS,
        silent={},
        pairs=[
            PairFigures(a.name, b.name, CLOS.distance(a.index, b.index), 100e9, 5_000.0) for a, b in pairs
        ],
        pair_count=len(pairs),
        paths=paths,
        path_count=len(paths),
        link_probes=[],
        diagnosis=Diagnosis({}, ()),
        names_paths=True,
        all_reduce=AllReduceFigures(len(HOSTS), 1 << 20, 5, 1e6, 1e9, None),
        barrier_ns=dict.fromkeys(HOSTS, 10_000.0),
        rtt_noise_ns=0,
        barrier_noise_ns=0,
    )


def broken(part):
    """Paths across a link or node are dead."""
    return replace(
        healthy(),
        paths=[
            replace(each, answered=0, rtt_ns=None) if part in (*each.links, *each.nodes) else each
            for each in healthy().paths
        ],
    )


def slowed(share):
    """Bandwidth of each pair, times what *share* says of it."""
    return replace(
        healthy(),
        pairs=[
            replace(pair, bandwidth_bps=100e9 * share(pair.source, pair.target)) for pair in healthy().pairs
        ],
    )


def named(measured):
    return {(each.kind, each.subject, each.names) for each in judge(measured) if each.subject != "path"}


def texts(measured):
    return [f"{each.kind}: {each.text}" for each in judge(measured)]


def test_nothing_is_named_where_all_is_well():
    assert judge(healthy()) == []


@given(st.sampled_from(LINKS))
def test_a_dead_link_is_named(link):
    assert named(broken(link)) == {("suspect", "link", (link,))}


@given(st.sampled_from([name for name in NODES if not name.startswith("h")]))
def test_a_dead_switch_is_named(switch):
    assert named(broken(switch)) == {("suspect", "switch", (switch,))}


@given(st.sampled_from(LINKS))
def test_a_link_with_a_long_delay_is_named(link):
    paths = [
        replace(each, rtt_ns=each.rtt_ns * 3) if link in each.links else each for each in healthy().paths
    ]
    measured = replace(healthy(), paths=paths)
    assert named(measured) == {("suspect", "link", (link,))}
    assert judge(replace(measured, rtt_noise_ns=40_000)) == []


def test_a_path_between_slow_and_fast_speaks_for_nothing():
    link = "p0-t0-0:2~p0-t1-0:0"
    paths = [
        replace(each, rtt_ns=each.rtt_ns * (1.8 if each.source == "h0" else 3))
        if link in each.links
        else each
        for each in healthy().paths
    ]
    assert named(replace(healthy(), paths=paths)) == {("suspect", "link", (link,))}


def test_a_suspicion_has_its_reason():
    text = texts(broken("p1-t0-0:2~p1-t1-0:0"))[0]
    assert text == (
        "suspect: link p1-t0-0:2~p1-t1-0:0 (16 of 16 dead paths cross it, no path that works does)"
    )
    assert texts(broken("p1-t1-0"))[1] == "dead: path h0 > h2 over p1-t1-0"


def test_link_probes_tell_apart_what_paths_cannot():
    """With two T0s, each path across a T1 crosses both of its links."""
    paths = [
        each for each in broken("p0-t1-0").paths if {each.source, each.target} <= {"h0", "h1", "h2", "h3"}
    ]
    measured = replace(healthy(), paths=paths, pairs=[])
    links = ("p0-t0-0:2~p0-t1-0:0", "p0-t0-1:2~p0-t1-0:1")
    assert named(measured) == {("suspect", "link", (*links, "p0-t1-0"))}
    works = PathFigures(
        "h0", "h0", 0, "p0-t1-0", 0, ("h0:0~p0-t0-0:0", links[0]), ("h0", "p0-t0-0", "p0-t1-0"), 9, 9, 5e3
    )
    assert named(replace(measured, link_probes=[works])) == {("suspect", "link", (links[1],))}
    assert judge(replace(measured, names_paths=False)) == judge(measured)[1:]


def test_a_host_without_any_path_is_dead():
    measured = replace(
        broken("h2"), pairs=[each for each in healthy().pairs if "h2" not in (each.source, each.target)]
    )
    assert named(measured) == {("dead", "host", ("h2",)), ("suspect", "host", ("h2",))}


def test_an_agent_that_does_not_answer_is_a_dead_host():
    assert texts(replace(healthy(), silent={"h9": "no NIC agent answers"})) == [
        "dead: host h9: no NIC agent answers"
    ]


@given(st.sampled_from(HOSTS), st.floats(0.01, 0.5))
def test_a_host_that_sends_slowly_is_named_alone(host, share):
    measured = slowed(lambda source, _: share if source == host else 1)
    assert named(measured) == {("slow", "host", (host,))}
    assert texts(measured)[0].startswith(f"slow: {host} sends at ")


def test_a_host_that_receives_slowly_is_named():
    assert texts(slowed(lambda _, target: 0.38 if target == "h4" else 1)) == [
        "slow: h4 receives at 38 % of the median"
    ]


def test_a_single_slow_pair_is_named_as_such():
    assert texts(slowed(lambda a, b: 0.3 if (a, b) == ("h0", "h5") else 1)) == [
        "slow: h0 > h5 at 30 % of the median"
    ]


def test_a_pair_with_a_dead_path_is_not_blamed_for_its_bandwidth():
    slow = slowed(lambda a, b: 0.3 if {a, b} == {"h0", "h5"} else 1)
    assert {each.kind for each in judge(replace(broken("p1-t1-0"), pairs=slow.pairs))} == {"suspect", "dead"}


def test_a_pair_over_which_nothing_arrives_is_dead():
    pairs = [
        replace(each, bandwidth_bps=None) if (each.source, each.target) == ("h1", "h2") else each
        for each in healthy().pairs
    ]
    assert texts(replace(healthy(), pairs=pairs)) == ["dead: h1 > h2: nothing arrives"]


def test_changed_bytes_a_failed_all_reduce_and_a_late_host_are_named():
    pairs = [replace(healthy().pairs[0], wrong_bytes=7), *healthy().pairs[1:]]
    failed = replace(healthy().all_reduce, error="QP 3 of h1 failed: retry")
    measured = replace(
        healthy(), pairs=pairs, all_reduce=failed, barrier_ns=healthy().barrier_ns | {"h3": 30_000.0}
    )
    assert texts(measured) == [
        "late: h3 comes to barriers after 30 µs, the median host 10 µs",
        "wrong: h0 > h1: 7 bytes arrive changed",
        "dead: all-reduce does not complete: QP 3 of h1 failed: retry",
    ]
    assert len(texts(replace(measured, barrier_noise_ns=30_000))) == 2


@pytest.mark.parametrize(("answered", "kind"), [(2, None), (1, "lossy"), (0, "dead")])
def test_a_path_that_loses_most_probes_is_lossy(answered, kind):
    first, *others = healthy().paths
    rtt_ns = first.rtt_ns if answered else None
    paths = [replace(first, answered=answered, rtt_ns=rtt_ns), *others]
    assert [each.kind for each in judge(replace(healthy(), paths=paths))] == ([] if kind is None else [kind])
