"""The same scenario in every forwarding mode: real packets on the links that the model names."""

from collections import Counter
from pathlib import Path

import pytest
from kernel_srv6 import replace_switch_by_kernel_srv6
from live_scenario import run_live
from raw_verbs import connect_pair

from agents.abi import EvState, PortCounter
from agents.nic.client import AgentClient
from testbed.errors import UsageError
from testbed.fabric.data_plane import FabricMaps
from testbed.fabric.live import Lab
from testbed.scenario.measure.event import EvTransition
from testbed.topology.ev_set import build_ev_set
from testbed.topology.path import explain_ev

pytestmark = pytest.mark.root

SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: modes}
spec:
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, uplinks_per_pair: 2, forwarding: %s}
  transport: {evs: 64}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, warmup: 100ms, duration: 900ms}
  faults:
    - {id: cut, at: 200ms, for: 400ms, kind: link-down, select: {links: "p0-t0-0:1~p0-t1-0:0"}}
  expect:
    - fault_drops during cut > 0
    - assumed_bad during cut > 0
    - goodput(main) during cut > 1Mbit
    - wrong_bytes == 0
    - qp_errors == 0
"""
CUT = "p0-t0-0:1~p0-t1-0:0"
MESSAGE_BYTES = 64 * 2048


def sent_by_port(live: Lab) -> dict[str, int]:
    """Frames that left each port so far."""
    maps = FabricMaps(live.paths)
    try:
        return {
            port.name: maps.port_counters.sum(port.id)[PortCounter.TX_PACKETS] for port in live.clos.ports()
        }
    finally:
        maps.close()


def test_the_same_scenario_passes_in_every_mode(live: Lab, lab_name: str, tmp_path: Path) -> None:
    result = run_live(lab_name, SCENARIO % live.spec.forwarding, tmp_path).result
    assert [outcome.reason for outcome in result.verdict.outcomes if not outcome.has_passed] == []
    assert all(outcome.error is None and outcome.compared_bytes > 0 for outcome in result.recording.outcomes)
    left = [
        event
        for event in result.recording.nic_events
        if isinstance(event, EvTransition) and event.after is EvState.ASSUMED_BAD and event.host == "h0"
    ]
    crossing = [
        CUT in {link.name for link in explain_ev(live.clos, event.entropy, 0, 1).links} for event in left
    ]
    assert sum(crossing) > len(left) / 2, "most EVs that left are those of the cut link"
    assert result.recoveries[0].left_evs > 0


def test_packets_cross_exactly_the_links_that_are_explained(live: Lab) -> None:
    clos = live.clos
    evs = list(build_ev_set(clos, 0, 1, 64))
    with (
        AgentClient(live.paths.agent_socket("h0")) as source,
        AgentClient(live.paths.agent_socket("h1")) as target,
    ):
        local, remote = source.register_memory(MESSAGE_BYTES), target.register_memory(MESSAGE_BYTES)
        near = source.create_qp(1, evs)
        far = target.create_qp(0, list(build_ev_set(clos, 1, 0, 64)))
        connect_pair(source, near, target, far)
        before = sent_by_port(live)
        source.fill(local["offset"], MESSAGE_BYTES, 3)
        source.post_write(
            near, length=MESSAGE_BYTES, local_offset=local["offset"], remote_offset=0, r_key=remote["r_key"]
        )
        (completion,) = source.wait(near, 30_000_000_000)
        assert completion["status"] == "success"
        assert target.verify(remote["offset"], MESSAGE_BYTES, 3) == 0
        rows = source.ev_list(near)
        sent = sent_by_port(live)
        source.destroy_qp(near)
        target.destroy_qp(far)
        source.deregister_memory(local["r_key"])
        target.deregister_memory(remote["r_key"])
    expected: Counter[str] = Counter()
    for row in rows:
        if row["tx_packets"]:
            for hop in explain_ev(clos, row["entropy"], 0, 1).hops[:-1]:
                assert hop.egress is not None
                expected[hop.egress.name] += row["tx_packets"]
    assert sum(row["tx_packets"] for row in rows) == MESSAGE_BYTES // 2048
    # what h0 and the uplinks of its T0 send are data packets alone: answers leave elsewhere
    ways_there = [port.name for port in clos.ports_of(clos.host(0))]
    for plane in range(live.spec.planes):
        uplinks = range(live.clos.numbering.uplink_count)
        ways_there += [clos.fabric_link(plane, 0, uplink).lower.name for uplink in uplinks]
    assert {name: sent[name] - before[name] for name in ways_there} == {
        name: expected[name] for name in ways_there
    }


def test_only_a_source_routed_lab_has_a_kernel_switch(live: Lab) -> None:
    if live.spec.forwarding != "srv6":
        with pytest.raises(UsageError, match=f"forwards by {live.spec.forwarding}"):
            replace_switch_by_kernel_srv6(live, "p0-t0-0")
