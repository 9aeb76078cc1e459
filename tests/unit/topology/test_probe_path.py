"""Probe paths come back to their sender, over the links they say, and together reach every link."""

import pytest
from clos_strategies import small_closes, three_tier_closes
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from switch_simulation import SwitchSimulation

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import probe_paths
from mrc_testbed.topology.probing_spec import ProbingSpec
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TierSpec, TopologySpec


@settings(max_examples=examples(80))
@given(small_closes() | three_tier_closes(), st.data())
def test_a_probe_crosses_its_links_there_and_back_and_ends_where_it_began(
    clos: Clos, data: st.DataObject
) -> None:
    host = data.draw(st.integers(0, clos.numbering.host_count - 1))
    switches = SwitchSimulation(clos)
    for path in probe_paths(clos, host):
        delivery = switches.send(host, path.plane, int(path.carrier))
        assert delivery.host == path.host == host
        assert delivery.link_ids == [*path.links, *reversed(path.links)]


@settings(max_examples=examples(80))
@given(small_closes() | three_tier_closes(), st.sampled_from([0.1, 0.25, 0.34, 0.5, 1.0]))
def test_hosts_together_probe_every_link_or_the_spec_is_refused(clos: Clos, share: float) -> None:
    values = clos.spec.model_dump() | {"probing": ProbingSpec(t1_share=share)}
    reached = {
        link
        for host in clos.hosts()
        for path in probe_paths(clos, host.index, ProbingSpec(t1_share=share))
        for link in path.links
    }
    is_whole = reached == {link.id for link in clos.links()}
    if is_whole:
        TopologySpec(**values)
        return
    with pytest.raises(ValidationError) as caught:
        TopologySpec(**values)
    assert [problem["loc"] for problem in caught.value.errors()] == [("probing", "t1_share")]


def test_hosts_of_a_t0_share_its_uplinks_out() -> None:
    clos = Clos(TopologySpec(planes=1, t1=8, probing=ProbingSpec(t1_share=0.25)))
    uplinks = [[path.uplink for path in probe_paths(clos, host)] for host in range(4)]
    assert uplinks == [[None, 0, 1], [None, 2, 3], [None, 4, 5], [None, 6, 7]]


def test_hosts_of_a_pod_share_the_uplinks_of_its_t1s_out() -> None:
    tiers = [TierSpec(joins=2), TierSpec(joins=2, switches=2), TierSpec(joins=2, switches=4)]
    clos = Clos(TopologySpec(planes=1, tiers=tiers, probing=ProbingSpec(t1_share=0.5)))
    ways = [[path.uplink for path in probe_paths(clos, host) if len(path.links) == 3] for host in range(4)]
    assert ways == [[0, 1], [4, 5], [2, 3], [6, 7]]


def test_without_source_routes_there_are_no_probes() -> None:
    assert probe_paths(Clos(TopologySpec(forwarding="ecmp")), 0) == ()
    with pytest.raises(ValidationError, match="they need srv6, not stev"):
        TopologySpec(forwarding="stev", probing=ProbingSpec())


def test_time_out_below_the_round_trip_of_the_idle_fabric_is_refused() -> None:
    slow = {"port_rate": "1Mbit", "probing": {}}
    with pytest.raises(ValidationError, match=r"a time-out of 60ms, but a round trip .* takes up to"):
        resolve_topology(TopologySpec.model_validate(slow))
    enough = TopologySpec.model_validate(slow | {"probing": {"timeout": "1s"}})
    assert resolve_topology(enough).spec.probing is not None


def test_time_out_is_counted_in_rounds() -> None:
    assert ProbingSpec(interval=20_000_000, timeout=60_000_000).lag_rounds == 3
    assert ProbingSpec(interval=20_000_000, timeout=60_000_001).lag_rounds == 4
    assert ProbingSpec(interval=20_000_000, timeout=1).lag_rounds == 1
    with pytest.raises(ValidationError, match="64 intervals: answers are remembered for 63"):
        ProbingSpec(interval=1_000_000, timeout=64_000_000)
