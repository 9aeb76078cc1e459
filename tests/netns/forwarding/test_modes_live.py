"""The same packets in every forwarding mode, on the links that the model names."""

from collections import Counter

import pytest
from kernel_srv6 import replace_switch_by_kernel_srv6
from raw_verbs import connect_pair
from waiting import DEADLINE_NS

from mrc_agents.abi import PortCounter
from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.data_plane import FabricMaps
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import explain_ev

MESSAGE_BYTES = 64 * 2048
TRIALS = 50


def sent_by_port(live: Lab) -> Counter[str]:
    """Frames that left each port so far."""
    maps = FabricMaps(live.paths)
    try:
        ports = live.clos.ports()
        return Counter({port.name: maps.port_counters.sum(port.id)[PortCounter.TX_PACKETS] for port in ports})
    finally:
        maps.close()


def sent_once(live: Lab) -> tuple[dict[int, int], Counter[str]]:
    """Packets by entropy, and by port, of a message of which none was sent again.

    On a busy machine a packet may come so late that the NIC repeats it, and probes its path: try again.
    """
    clos = live.clos
    with (
        AgentClient(live.paths.agent_socket("h0")) as source,
        AgentClient(live.paths.agent_socket("h1")) as target,
    ):
        local, remote = source.register_memory(MESSAGE_BYTES), target.register_memory(MESSAGE_BYTES)
        source.fill(local["offset"], MESSAGE_BYTES, 3)
        place = {"local_offset": local["offset"], "remote_offset": 0, "r_key": remote["r_key"]}
        for _ in range(TRIALS):
            near = source.create_qp(1, list(build_ev_set(clos, 0, 1, 64)), shares_paths=0)
            far = target.create_qp(0, list(build_ev_set(clos, 1, 0, 64)), shares_paths=0)
            connect_pair(source, near, target, far)
            before = sent_by_port(live)
            source.post_write(near, length=MESSAGE_BYTES, **place)
            (completion,) = source.wait(near, DEADLINE_NS)
            assert completion["status"] == "success"
            assert target.verify(remote["offset"], MESSAGE_BYTES, 3) == 0
            packets = {row["entropy"]: row["tx_packets"] for row in source.ev_list(near)}
            sent = sent_by_port(live) - before
            source.destroy_qp(near)
            target.destroy_qp(far)
            if sum(packets.values()) == MESSAGE_BYTES // 2048:
                return packets, sent
    pytest.fail(f"a packet was sent again in each of {TRIALS} messages")


def test_packets_cross_exactly_the_links_that_are_explained(live: Lab) -> None:
    clos = live.clos
    packets, sent = sent_once(live)
    expected: Counter[str] = Counter()
    for entropy, count in packets.items():
        for hop in explain_ev(clos, entropy, 0, 1).hops[:-1]:
            assert hop.egress is not None
            expected[hop.egress.name] += count
    # what h0 and the uplinks of its T0 and pod send are data packets alone: answers leave elsewhere
    ways_there = [port.name for port in clos.ports_of(clos.host(0))]
    for plane in range(live.spec.planes):
        for way in range(clos.numbering.way_count(clos.distance(0, 1))):
            links = clos.numbering.links_of_way(plane, 0, 1, way)
            ways_there += [clos.link(link).lower.name for link in links[: len(links) // 2]]
    assert {name: sent[name] for name in ways_there} == {name: expected[name] for name in ways_there}


def test_only_a_source_routed_lab_has_a_kernel_switch(live: Lab) -> None:
    if live.spec.forwarding != "srv6":
        with pytest.raises(UsageError, match=f"forwards by {live.spec.forwarding}"):
            replace_switch_by_kernel_srv6(live, "p0-t0-0")
