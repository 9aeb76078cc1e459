"""Snapshots from two observations: rates, states, changes."""

import dataclasses
from typing import Any

import pytest
from histograms import histogram_of
from host_tables import host_table

from mrc_agents.abi import EvReason, EvState
from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.faults.effects import Effect, Rule
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.ledger import Entry, FaultPhase
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.schedule import Flap, Schedule
from mrc_testbed.live.snapshot import Observation, build_snapshot
from mrc_testbed.metrics.cpu_use import CpuReading, CpuTimes
from mrc_testbed.metrics.fault_record import ActiveFault
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.series import Details, HostCounts, Reading
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1, port_rate=10_000_000))
LINK = CLOS.link("p0-t0-0:1~p0-t1-0:0")
PORTS = len(list(CLOS.ports()))


def observation(time_ns: int, **changes: Any) -> Observation:
    details = Details((True,) * PORTS, (0,) * PORTS, (0,) * PORTS, (0,) * PORTS)
    reading = Reading(
        time_ns=time_ns,
        hosts=host_table({"h0": HostCounts(), "h1": HostCounts()}),
        packet_rtt=(Histogram(), Histogram()),
        message_completion=Histogram(),
        ev_states={},
        plane_tx_bytes=(0, 0),
        port_drops={"loss": 0},
        cpus=CpuReading(time_ns, (CpuTimes("0", 0, 0, 0, 0),)),
        details=changed(details, changes),
    )
    return dataclasses.replace(Observation(changed(reading, changes), ()), **changes)


def changed(made: Any, changes: dict[str, Any]) -> Any:
    known = {field.name for field in dataclasses.fields(made)} & changes.keys()
    return dataclasses.replace(made, **{key: changes.pop(key) for key in known})


def with_port(port_id: int, value: int, rest: int = 0) -> tuple[int, ...]:
    return tuple(value if index == port_id else rest for index in range(PORTS))


def entry(fault_id: str, links: tuple[str, ...], **changes: object) -> Entry:
    fault = ScheduledFault(fault_id=fault_id, kind="loss", seed=1, detail="5%", links=links)
    return dataclasses.replace(Entry(fault, Schedule(0)), **changes)  # type: ignore[arg-type]


EARLY = observation(1_000_000_000)


def test_rates_are_of_the_interval() -> None:
    late = observation(
        1_500_000_000,
        hosts=host_table(
            {
                "h0": HostCounts(acknowledged_bytes=1000, retransmits_sack=2),
                "h1": HostCounts(goodput_bytes=1000),
            }
        ),
        plane_tx_bytes=(2000, 0),
        packet_rtt=(histogram_of([5000] * 3), Histogram()),
        port_drops={"loss": 4},
        ev_states={(0, EvState.GOOD): 3, (1, EvState.ASSUMED_BAD): 1},
        profiles={"h0": frozenset({(4, 0), (4, 3)})},
    )
    seen = build_snapshot(CLOS, EARLY, late)
    assert seen.interval_ns == 500_000_000
    assert seen.goodput_bps == 16_000
    shown = [dataclasses.astuple(host) for host in seen.hosts]
    assert shown == [("h0", 0, 16_000, 2, ("profile 3", "CC profile 2")), ("h1", 16_000, 0, 0, ())]
    assert [plane.tx_bps for plane in seen.planes] == [32_000, 0]
    assert seen.planes[0].ev_states == {"GOOD": 3, "SKIP": 0, "ASSUMED_BAD": 0, "DENIED": 0}
    assert seen.planes[0].rtt is not None
    assert seen.planes[0].rtt.count == 3
    assert seen.planes[1].rtt is None
    assert seen.dropped == {"loss": 4}
    assert seen.retransmits == 2


def test_the_load_of_a_link_is_that_of_its_busier_direction() -> None:
    late = observation(
        2_000_000_000, tx_bytes=with_port(LINK.upper.id, 625_000), dropped=with_port(LINK.lower.id, 7)
    )
    [view] = [link for link in build_snapshot(CLOS, EARLY, late).links if link.name == LINK.name]
    assert (view.up_bps, view.down_bps, view.load_ratio) == (0, 5_000_000, 0.5)
    assert view.dropped == 7


def test_a_link_is_held_for_the_share_of_the_time_that_its_data_was() -> None:
    early = observation(1_000_000_000, held_ns=with_port(LINK.upper.id, 5_000_000_000))
    late = observation(2_000_000_000, held_ns=with_port(LINK.upper.id, 5_250_000_000))
    held = {link.name: link.held_ratio for link in build_snapshot(CLOS, early, late).links}
    assert held.pop(LINK.name) == 0.25
    assert set(held.values()) == {0.0}
    assert {link.held_ratio for link in build_snapshot(CLOS, EARLY, late).links} == {0.0}


def test_without_rates_the_busiest_link_is_the_measure() -> None:
    clos = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1))
    late = observation(2_000_000_000, tx_bytes=with_port(LINK.lower.id, 100, rest=25), queue_bytes=())
    loads = {link.name: link.load_ratio for link in build_snapshot(clos, EARLY, late).links}
    assert loads.pop(LINK.name) == 1.0
    assert set(loads.values()) == {0.25}


def test_an_idle_lab_without_rates_has_no_load() -> None:
    clos = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1))
    seen = build_snapshot(clos, EARLY, observation(2_000_000_000))
    assert {link.load_ratio for link in seen.links} == {0.0}


@pytest.mark.parametrize("port_id", [LINK.lower.id, LINK.upper.id])
def test_a_link_that_is_cut_one_way_is_down(port_id: int) -> None:
    up = tuple(index != port_id for index in range(PORTS))
    cut = observation(2_000_000_000, ports_up=up, faults=(entry("cut", (LINK.name,)),))
    seen = build_snapshot(CLOS, EARLY, cut)
    states = {link.name: link.state for link in seen.links}
    assert states.pop(LINK.name) == "down"
    assert set(states.values()) == {"up"}
    assert seen.changes == (("link", f"link down: {LINK.name}"),)
    back = build_snapshot(CLOS, cut, observation(3_000_000_000))
    assert back.changes == (("link", f"link up: {LINK.name}"),)


def test_a_fault_marks_its_links_until_it_is_being_cleared() -> None:
    faults = (
        entry("a", (LINK.name,)),
        entry("b", (LINK.name,), phase=FaultPhase.CLEARING, lease=ProcessIdentity(1, 2)),
    )
    seen = build_snapshot(CLOS, EARLY, observation(2_000_000_000, faults=faults))
    [view] = [link for link in seen.links if link.state == "impaired"]
    assert (view.name, view.faults) == (LINK.name, ("a",))
    assert [(each.is_acting, each.is_interactive) for each in seen.faults] == [(True, True), (False, False)]


def test_a_flap_of_a_run_marks_its_link_between_its_outages() -> None:
    resting = {ActiveFault("flap1", "link-flap"): (LINK.name,)}
    seen = observation(2_000_000_000, resting=resting, outages={"flap1": 3})
    now = build_snapshot(CLOS, EARLY, seen)
    (shown,) = now.faults
    assert (shown.id, shown.kind, shown.places) == ("flap1", "link-flap", (LINK.name,))
    assert (shown.is_acting, shown.is_interactive, shown.outages) == (False, False, 3)
    [view] = [link for link in now.links if link.state != "up"]
    assert (view.name, view.state, view.faults, view.outages) == (LINK.name, "impaired", ("flap1",), 3)


def test_a_manual_flap_marks_its_link_and_counts_its_outages() -> None:
    flap = Schedule(0, 60_000_000_000, Flap(1_000_000_000, 300_000_000, 0.0, 1))
    for now_ns, is_acting, outages in ((2_100_000_000, True, 3), (2_700_000_000, False, 3)):
        seen = observation(now_ns, faults=(entry("flap", (LINK.name,), schedule=flap),))
        now = build_snapshot(CLOS, EARLY, seen)
        assert (now.faults[0].is_acting, now.faults[0].outages) == (is_acting, outages)
        [view] = [link for link in now.links if link.state == "impaired"]
        assert (view.name, view.outages) == (LINK.name, outages)


def test_a_broken_switch_is_marked_itself() -> None:
    def on_switch(fault_id: str, *effects: Effect) -> Entry:
        fault = ScheduledFault(
            fault_id=fault_id, kind="x", seed=1, links=(LINK.name,), nodes=("p0-t1-0",), effects=effects
        )
        return Entry(fault, Schedule(0))

    gray = on_switch("gray", Rule(LINK.upper.id, FrameRule(action="lose")))
    away = on_switch("away", Rule(LINK.upper.id, FrameRule(action="down")))
    for faults, state in (((gray,), "impaired"), ((gray, away), "down")):
        now = build_snapshot(CLOS, EARLY, observation(2_000_000_000, faults=faults))
        [node] = now.broken_nodes
        assert (node.name, node.state) == ("p0-t1-0", state)
        assert node.faults == tuple(each.fault.fault_id for each in faults)
    assert build_snapshot(CLOS, EARLY, observation(2_000_000_000)).broken_nodes == ()


def test_a_plane_is_marked_when_all_its_links_are() -> None:
    links = tuple(link.name for link in CLOS.links() if link.plane == 1)
    now = build_snapshot(CLOS, EARLY, observation(2_000_000_000, faults=(entry("drain", links),)))
    assert [plane.state for plane in now.planes] == ["up", "impaired"]


def test_the_time_a_fault_has_left_never_is_negative() -> None:
    faults = (
        entry("a", (), schedule=Schedule(0, 2_500_000_000)),
        entry("b", (), schedule=Schedule(0, 1)),
        entry("c", ()),
    )
    seen = build_snapshot(CLOS, EARLY, observation(2_000_000_000, faults=faults))
    assert [fault.left_ns for fault in seen.faults] == [500_000_000, 0, None]


def test_only_evs_that_leave_use_or_return_are_changes() -> None:
    bad = (EvState.GOOD, EvState.ASSUMED_BAD, EvReason.LOSS, 1)
    skipped = (EvState.GOOD, EvState.SKIP, EvReason.ECN, 0)
    early = observation(1_000_000_000, ev_changes={bad: 2, skipped: 0})
    late = observation(2_000_000_000, ev_changes={bad: 5, skipped: 900})
    assert build_snapshot(CLOS, early, late).changes == (("ev", "plane 1: 3 EVs GOOD to ASSUMED_BAD (loss)"),)


def test_times_whose_count_went_down_are_left_out_and_all_else_is_shown() -> None:
    early = observation(
        1_000_000_000,
        packet_rtt=(histogram_of([5000] * 3), histogram_of([5000])),
        message_completion=histogram_of([70_000] * 2),
    )
    late = observation(
        2_000_000_000,
        hosts=host_table({"h0": HostCounts(), "h1": HostCounts(goodput_bytes=1000)}),
        packet_rtt=(Histogram(), histogram_of([5000] * 5)),
        message_completion=histogram_of([70_000]),
    )
    seen = build_snapshot(CLOS, early, late)
    assert seen.goodput_bps == 8000
    assert [plane.rtt and plane.rtt.count for plane in seen.planes] == [None, 4]
    assert seen.completion is None
    assert [line.text.partition(":")[0] for line in seen.changes] == [
        "plane 0",
        "completion times of this interval are left out, the count of a host went down",
    ]
