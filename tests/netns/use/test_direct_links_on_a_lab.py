"""An unshaped lab whose links are direct: what crosses interfaces, what does not, and who sees it."""

import json
from collections.abc import Callable

from fault_traffic import send
from typed_command import Command

from mrc_agents.abi import PortCounter, PortKind
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.topology.queue_spec import QueueSpec
from mrc_testbed.topology.spec import TopologySpec

LAB_SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2, queue=QueueSpec(links="direct"))
LINK = "p0-t0-0:2~p0-t1-0:0"
HOST_PORTS = {"h0:0", "h0:1", "h2:0", "h2:1"}
KERNEL_FRAMES_MAX = 8  # of its own, as an interface comes up
TRANSFER = ("bench", "write-bw", "h0", "h2", "--size", "64KiB", "-i", "200")  # wrong bytes would be status 1


def arrivals(live: Lab) -> dict[str, int]:
    """Frames that each port's interface took in from its link, by the port's name."""
    found: dict[str, int] = {}
    for node in live.clos.nodes():
        names = {port.interface: port.name for port in live.clos.ports_of(node)}
        for interface in json.loads(live.node(node.name).cmd("ip -s -j link")):
            if interface["ifname"] in names:
                found[names[interface["ifname"]]] = interface["stats64"]["rx"]["packets"]
    return found


def crossed(live: Lab, command: Command) -> set[str]:
    """Names of ports that packets of a transfer crossed the interface of."""
    before = arrivals(live)
    command(*TRANSFER)
    now = arrivals(live)
    return {name for name, count in before.items() if now[name] - count > KERNEL_FRAMES_MAX}


def sent(live: Lab) -> dict[str, int]:
    return {port.name: live.port_counters.sum(port.id)[PortCounter.TX_PACKETS] for port in live.clos.ports()}


def test_frames_come_in_at_hosts_alone_and_every_port_on_their_way_counts_them(
    live: Lab, command: Command
) -> None:
    before = sent(live)
    assert crossed(live, command) == HOST_PORTS
    now = sent(live)
    for plane in range(2):
        uplinks = [
            port.name
            for port in live.clos.ports_of(live.clos.node(f"p{plane}-t0-0"))
            if port.kind is PortKind.T0_UP
        ]
        by_uplinks = sum(now[name] - before[name] for name in uplinks)
        assert now[f"h0:{plane}"] - before[f"h0:{plane}"] == by_uplinks > 100


def test_links_change_their_mode_under_traffic(live: Lab, command: Command) -> None:
    def change() -> None:
        for links in ("veth", "direct") * 6:
            shown = command.json("inspect", "--queues", "--links", links, "--link", LINK)
            assert shown["direct_port_count"] == (shown["port_count"] - 2 if links == "veth" else 2)
            command("inspect", "--queues", "--links", links)

    outcome = send(live, 0.2, meanwhile=change)
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    assert outcome.messages


def test_what_is_shown_of_a_lab_without_queues(command: Command) -> None:
    shown = command.json("inspect", "--queues")
    assert (shown["drainer"], shown["drainer_count"], shown["frame_limit"]) == (None, 0, 0)
    assert "none, ports have no rate; direct links" in command("inspect", "--queues")
    assert "none, ports have no rate; direct links" in command("status")
    command("inspect", "--queues", "--drainer", "eco", status=2)
    assert "has no queues: its ports have no rate" in command.stderr


def test_a_link_that_is_down_loses_frames_both_ways_and_is_direct_again_afterwards(
    live: Lab, command: Command, faults: Callable[[], LabFaults]
) -> None:
    faults_now = faults()
    faults_now.add(parse_fault("link-down", LINK, {"id": "f1", "until": "cleared"}, ()), seed=1)
    before = {port.name: live.port_counters.sum(port.id) for port in live.clos.ports()}
    command(*TRANSFER)
    lost = {
        port.name
        for port in live.clos.ports()
        if live.port_counters.sum(port.id)[PortCounter.DROP_LINK_DOWN]
        > before[port.name][PortCounter.DROP_LINK_DOWN]
    }
    assert lost
    assert lost <= set(LINK.split("~"))
    faults_now.clear("f1")
    assert crossed(live, command) == HOST_PORTS
