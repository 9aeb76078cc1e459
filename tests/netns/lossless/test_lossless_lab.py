"""Labs with PFC and with credits under incast and under a pause storm, beside one that drops."""

import json

import pytest
from waiting import poll_until

from mrc_agents.abi import PortCounter
from mrc_testbed.cli.app import run as command_line
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.lossless import LinkFlow, opened_lossless
from mrc_testbed.faults.interactive import LabFaults, parse_fault

DROPPING = pytest.param("none", marks=pytest.mark.slow("a third lab; loss is what the other two do without"))
CREDITS = pytest.param("credits", marks=[pytest.mark.slow("another lab; pfc does as much"), pytest.mark.ci])
EVERY_LAB = pytest.mark.parametrize("held_lab", [DROPPING, "pfc", CREDITS], indirect=True, scope="module")
DROPS = (PortCounter.DROP_QUEUE_FULL, PortCounter.DROP_CONTROL_FULL, PortCounter.DROP_POOL_EMPTY)
RAW_FRAMES = 300


def drops_at_switches(live: Lab) -> int:
    ports = [port.id for port in live.clos.ports() if port.node.is_switch]
    return sum(live.port_counters.sum(port_id)[drop] for port_id in ports for drop in DROPS)


def sent_by(live: Lab, port: str) -> int:
    return live.port_counters.sum(live.clos.port(port).id)[PortCounter.TX_PACKETS]


def flow_of(live: Lab) -> dict[str, LinkFlow]:
    """The counts of flow control at each port, by name."""
    with opened_lossless(live.clos, live.paths.fabric_pins) as lossless:
        return {port.name: flow for port, flow in zip(live.clos.ports(), lossless.links(), strict=True)}


@EVERY_LAB
def test_raw_traffic_of_four_hosts_into_one_port_loses_nothing_under_flow_control(held_lab: Lab) -> None:
    """No transport holds this back: 40 Mbit/s are offered to a port of 10."""
    dropped_before = drops_at_switches(held_lab)
    is_lossless = held_lab.spec.flow_control != "none"
    before = flow_of(held_lab) if is_lossless else {}
    nics = [f"h{host}:0" for host in range(4)]

    def has_gone_back_to_every_nic() -> bool:
        flows = flow_of(held_lab)
        return all(flows[nic].stalls > before[nic].stalls for nic in nics)

    faults = LabFaults(held_lab.name)
    try:
        fields = {"rate": "10Mbit", "towards": "h4", "direction": "a-to-b", "until": "cleared"}
        where = "{links: {between: [host, t0], node: p0-t0-0}}"
        faults.add(parse_fault("congestion", where, fields, ()), seed=1)
        if is_lossless:
            poll_until(has_gone_back_to_every_nic)
            arrived = sent_by(held_lab, "p0-t0-1:0")
            poll_until(lambda: sent_by(held_lab, "p0-t0-1:0") - arrived > RAW_FRAMES)
        else:
            poll_until(lambda: drops_at_switches(held_lab) - dropped_before > RAW_FRAMES)
    finally:
        faults.clear_all()
        faults.close()
    if is_lossless:
        assert drops_at_switches(held_lab) == dropped_before


@pytest.mark.parametrize("held_lab", ["pfc", CREDITS], indirect=True, scope="module")
def test_a_pause_storm_spreads_to_the_nics_and_ends(
    held_lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    poll_until(lambda: not any(flow.is_stalled for flow in flow_of(held_lab).values()))
    before = flow_of(held_lab)
    lost_before = drops_at_switches(held_lab)

    def has_spread() -> bool:
        flows = flow_of(held_lab)
        on_the_way = [name for name, flow in flows.items() if flow.is_stalled]
        return {"h0:0", downlink} < set(on_the_way) and any("-t1-" in name for name in on_the_way)

    faults = LabFaults(held_lab.name)
    downlink, load = "p0-t0-1:0", {"rate": "4Mbit", "direction": "a-to-b", "until": "cleared"}
    try:
        storm = {"id": "storm", "direction": "b-to-a", "until": "cleared"}
        faults.add(parse_fault("pause-storm", "h4:0", storm, ()), seed=1)
        faults.add(parse_fault("congestion", "h0:0", {**load, "id": "guilty", "towards": "h4"}, ()), seed=1)
        faults.add(parse_fault("congestion", "h0:0", {**load, "id": "victim", "towards": "h5"}, ()), seed=1)
        poll_until(has_spread)
        # what the victim would leave by is free, and still it stands, at the NIC already
        flows, standing = flow_of(held_lab), sent_by(held_lab, "p0-t0-1:1")
        assert not flows["p0-t0-1:1"].is_stalled
        assert not flows["h3:0"].is_stalled
        assert has_spread()
        assert sent_by(held_lab, "p0-t0-1:1") == standing
        assert command_line(["-n", held_lab.name, "-o", "json", "top", "--once", "-i", "100ms"]) == 0
        links = json.loads(capsys.readouterr().out)["snapshot"]["links"]
        held = {link["name"].partition("~")[0]: link["held_ratio"] for link in links}
        assert held["h0:0"] > 0
        assert held["h3:0"] == 0
        faults.clear("storm")
        poll_until(lambda: sent_by(held_lab, "p0-t0-1:1") > standing)
        poll_until(lambda: not flow_of(held_lab)[downlink].is_stalled)
    finally:
        faults.clear_all()
        faults.close()
    after = flow_of(held_lab)
    assert after[downlink].stalled_ns > before[downlink].stalled_ns
    if held_lab.spec.flow_control == "pfc":
        assert after[downlink].pauses > before[downlink].pauses
        assert after["h0:0"].paused_ns > before["h0:0"].paused_ns
    assert drops_at_switches(held_lab) == lost_before
