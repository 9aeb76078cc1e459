from collections import Counter

import pytest
from clos_strategies import Route, routes
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.spec import TopologySpec


@settings(max_examples=examples(100))
@given(routes(), st.integers(1, 40), st.integers(0, 2**64))
def test_ev_set_is_balanced_over_planes_and_paths(route: Route, per_plane: int, seed: int) -> None:
    clos = route.clos
    planes = clos.spec.planes
    evs = build_ev_set(clos, route.source, route.destination, per_plane * planes, seed)

    assert len(set(evs)) == len(evs) == per_plane * planes
    assert [decode_ev(ev).plane for ev in evs] == [plane for plane in range(planes) for _ in range(per_plane)]
    for plane in range(planes):
        per_path = Counter(decode_ev(ev).uplink for ev in evs if decode_ev(ev).plane == plane)
        paths = clos.numbering.way_count(clos.distance(route.source, route.destination))
        assert len(per_path) == min(per_plane, paths)
        assert max(per_path.values()) - min(per_path.values()) <= 1


@settings(max_examples=examples(50))
@given(routes())
def test_every_ev_of_a_set_names_a_path(route: Route) -> None:
    for entropy in build_ev_set(route.clos, route.source, route.destination, route.clos.spec.planes):
        path = explain_ev(route.clos, entropy, route.source, route.destination)
        ev = decode_ev(entropy)
        assert (path.plane, path.uplink) == (ev.plane, ev.uplink)


def test_equal_seeds_give_equal_sets_and_others_do_not() -> None:
    clos = Clos(TopologySpec(t1=64, hosts_per_t0=8))
    assert build_ev_set(clos, 0, 9, seed=7) == build_ev_set(clos, 0, 9, seed=7)
    sets = {build_ev_set(clos, source, 9, seed=seed) for source in (0, 1) for seed in (1, 2)}
    assert len(sets) == 4


def test_a_set_of_a_seed_never_changes() -> None:
    """A stored run is replayed by its seed, so the order is part of the interface."""
    clos = Clos(TopologySpec(planes=2, t1=4))
    evs = [decode_ev(entropy) for entropy in build_ev_set(clos, 0, 5, 12, seed=42)]
    assert [ev.uplink for ev in evs] == [2, 3, 0, 1, 2, 3, 1, 3, 0, 2, 1, 3]


def test_evs_within_one_t0_differ_by_copy_alone() -> None:
    evs = [decode_ev(entropy) for entropy in build_ev_set(Clos(TopologySpec()), 0, 1, 8)]
    assert [(ev.plane, ev.uplink, ev.copy) for ev in evs] == [(p, 0, c) for p in range(4) for c in range(2)]


@pytest.mark.parametrize("count", [0, 3, 6, -4])
def test_a_count_that_planes_cannot_share_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"^{count} EVs cannot be shared equally by 4 planes$"):
        build_ev_set(Clos(TopologySpec()), 0, 5, count)
