"""Labs come up as asked for, stay as they are, and go without a trace."""

import os
from pathlib import Path

import pytest
from lab_leftovers import SMALL

from mrc_agents.abi import DrainerMode, Limit, NicPaths, PortCounter
from mrc_agents.bpf.libbpf import open_pinned
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.build import BuildProgress
from mrc_testbed.fabric.known_labs import names
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import find_marked
from mrc_testbed.fabric.queue_engine import QueueEngine
from mrc_testbed.fabric.state import Phase, RuntimeName, read_state
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.queue_spec import QueueSpec
from mrc_testbed.topology.spec import NicSpec, TopologySpec
from mrc_testbed.topology.timing import full_frame_bytes


def test_a_lab_comes_up_and_carries_packets_through_every_plane(small_lab: str) -> None:
    status = lab.status(small_lab)
    assert (status.phase, status.runtime, status.spec) == (Phase.UP, RuntimeName.NETNS, SMALL)
    assert status.problems == ()
    with lab.attach(small_lab) as live:
        uplinks = [port.id for port in live.clos.ports() if port.name.startswith("p") and port.kind == 2]
        before = [live.port_counters.sum(port)[PortCounter.TX_PACKETS] for port in uplinks]
        live.prove_planes()
        after = [live.port_counters.sum(port)[PortCounter.TX_PACKETS] for port in uplinks]
        # Two hosts, one packet and one SACK each per plane, over the single uplink of each T0; one that
        # comes late on a busy machine is sent again.
        assert min(now - then for now, then in zip(after, before, strict=True)) >= 2
        assert live.agent("h1").hello()["host_index"] == 1
        with pytest.raises(UsageError, match="p0-t0-0 is a switch"):
            live.agent("p0-t0-0")
        shown = live.node("h1").cmd("ip -o link show plane1; ip -o -6 address show plane1")
        port = live.clos.port("h1:1")
        assert shown.startswith(f"{1000 + port.id}: plane1@if{1000 + port.peer_id}:")
        assert "mtu 3000" in shown
        assert port.mac in shown
        assert f"inet6 fe80::{port.id + 1:x}/64" in shown


def test_a_path_that_lost_a_packet_is_proved_all_the_same(small_lab: str) -> None:
    """QPs avoid such a path for two seconds: no use to a proof that wants it to carry a packet."""
    with lab.attach(small_lab) as live:
        descriptor = open_pinned(live.paths.node_pins("h1") / "nic_paths")
        try:
            paths = MappedArray(descriptor, NicPaths)[0].path
        finally:
            os.close(descriptor)
        paths[0].suspected_ns = monotonic_ns()
        live.prove_planes()


def test_a_lab_of_small_packets_sends_one_through_every_plane_too(lab_name: str) -> None:
    small = TopologySpec(planes=4, t0=2, t1=1, hosts_per_t0=1, nic=NicSpec(path_mtu=256))
    assert lab.up(small, name=lab_name, runtime="netns").is_healthy
    lab.down(lab_name)


def test_up_reports_every_step_to_its_end_and_down_is_idempotent(lab_name: str) -> None:
    received: list[BuildProgress] = []
    lab.up(SMALL, name=lab_name, runtime="netns", progress=received.append)
    assert lab.down(lab_name) is True
    assert lab.down(lab_name) is False
    last = {progress.what: progress for progress in received}
    assert list(last) == [
        "a place for pinned maps",
        "switches and hosts",
        "links",
        "switch data plane",
        "NIC data planes",
        "ports",
        "NIC agents",
        "a packet through every plane",
    ]
    assert all(progress.done_count == progress.total_count for progress in last.values())


def test_up_of_a_lab_that_is_up_changes_nothing(small_lab: str, other_lab_name: str) -> None:
    processes = find_marked(small_lab)
    state_file = lab_paths(small_lab).state_file
    written_ns = state_file.stat().st_mtime_ns
    assert lab.up(SMALL, name=small_lab).is_healthy
    assert find_marked(small_lab) == processes
    assert state_file.stat().st_mtime_ns == written_ns
    with pytest.raises(UsageError, match=f"there is no lab '{other_lab_name}'; there are: .*{small_lab}"):
        lab.attach(other_lab_name)
    wanted = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=50_000_000)
    with pytest.raises(UsageError) as caught:
        lab.up(wanted, name=small_lab, runtime="netns")
    assert caught.value.message == (
        f"lab '{small_lab}' is up with another configuration:\n  t1: 1 -> 2\n  port_rate: not given -> 50Mbit"
    )
    assert "--reconfigure" in (caught.value.hint or "")
    assert lab.status(small_lab).spec == SMALL


def test_reconfigure_replaces_the_lab(small_lab: str) -> None:
    wanted = TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2)
    lab.up(wanted, name=small_lab, runtime="netns", reconfigure=True)
    with lab.attach(small_lab) as live:
        assert live.spec == wanted
        assert len(live.port_table) == live.clos.numbering.port_count
        live.prove_planes()


def test_down_of_nothing_says_so(lab_name: str, state_dir: Path) -> None:
    assert lab.down(lab_name) is False
    assert not (state_dir / lab_name).exists()


def forwarding_counters(live: Lab, port: int) -> list[int]:
    """Without PASSED_TO_STACK: those frames are the kernel's own, such as a router solicitation."""
    found = list(live.port_counters.sum(port))
    del found[PortCounter.PASSED_TO_STACK]
    return found


def test_two_labs_do_not_disturb_each_other(small_lab: str, other_lab_name: str) -> None:
    lab.up(SMALL, name=other_lab_name, runtime="netns")
    assert {small_lab, other_lab_name} <= set(names())
    with lab.attach(small_lab) as first, lab.attach(other_lab_name) as second:
        port = first.clos.port("p0-t0-0:1").id
        idle = forwarding_counters(second, port)
        first.prove_planes()
        assert forwarding_counters(second, port) == idle
    lab.down(other_lab_name)
    with lab.attach(small_lab) as first:
        first.prove_planes()


def test_a_shaped_lab_runs_one_drainer(lab_name: str) -> None:
    lab.up(SMALL.model_copy(update={"port_rate": 100_000_000}), name=lab_name, runtime="netns")
    state = read_state(lab_paths(lab_name))
    assert state is not None
    assert sorted(process.node or "" for process in state.processes) == ["", "h0", "h1"]
    assert lab.status(lab_name).problems == ()
    lab.down(lab_name)


def test_a_shaped_lab_is_served_as_its_topology_says(lab_name: str) -> None:
    queue = QueueSpec(drainer="eco", drainers=2, links="direct")
    lab.up(
        SMALL.model_copy(update={"port_rate": 100_000_000, "queue": queue}), name=lab_name, runtime="netns"
    )
    assert lab.status(lab_name).problems == ()
    with QueueEngine(lab_paths(lab_name), is_shaped=True) as engine:
        state = engine.state()
        assert (state.drainer, state.drainer_count) == ("eco", 2)
        assert state.direct_port_count == state.port_count
        engine.set_drainer(DrainerMode.AUTO)
        engine.set_direct([0, 1], is_direct=False)
        changed = engine.state()
    assert (changed.drainer, changed.direct_port_count) == ("auto", state.port_count - 2)
    with lab.attach(lab_name) as live:
        live.prove_planes()
    lab.down(lab_name)


def test_a_port_that_lost_its_size_or_its_interface_is_reported(small_lab: str) -> None:
    with lab.attach(small_lab) as live:
        live.node("p0-t0-1").cmd("ip link set up0 mtu 1500")
        live.node("h0").cmd("ip link delete plane1")
    assert lab.status(small_lab).problems == (
        "port p0-t0-1:1 has an MTU of 1500 bytes, 3000 are needed: it drops full packets without a word",
        "port p1-t0-0:0 has no interface",
        "port h0:1 has no interface",
    )


def test_the_largest_packet_fits_the_interfaces() -> None:
    ethernet_header_bytes = 14
    largest = full_frame_bytes(Clos(TopologySpec(nic=NicSpec(path_mtu=int(Limit.PMTU_MAX)))))
    assert largest <= INTERFACE_MTU_BYTES + ethernet_header_bytes
