"""Kinds of fault of an unshaped lab: what each does, that it does no more, and that it is gone afterwards."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fault_traffic import send
from killed_runner import kill_a_runner_with
from shared_lab import agent_of, await_ports_down, ports_down, unhealthy_ports
from waiting import poll_until

from mrc_testbed.agents.abi import IcrcMode, NicControl, NicCounter, NicCounters, PortCounter
from mrc_testbed.agents.bpf.libbpf import open_pinned
from mrc_testbed.agents.bpf.maps import MappedArray, PerCpuArray
from mrc_testbed.agents.nic.client import AgentClient
from mrc_testbed.errors import FabricError, FaultError, UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import read_account
from mrc_testbed.fabric.process import ProcessIdentity, is_alive
from mrc_testbed.fabric.routes import write_routes
from mrc_testbed.faults.event import FaultEvent
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.topology.clos import Clos

pytestmark = pytest.mark.root

OpenFaults = Callable[[], LabFaults]


def add(faults: LabFaults, kind: str, where: str, **fields: str | float) -> None:
    chosen = {"id": "f1", "until": "cleared", **fields}
    faults.add(parse_fault(kind, where, chosen, ()), seed=1)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = open_pinned(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def icrc_modes(live: Lab) -> set[int]:
    modes = set()
    for host in live.clos.hosts():
        with opened(live.paths.node_pins(host.name) / "nic_control") as descriptor:
            modes.add(MappedArray(descriptor, NicControl)[0].icrc_mode)
    return modes


def nic_counter(live: Lab, host: str, which: NicCounter) -> int:
    with opened(live.paths.node_pins(host) / "nic_counters") as descriptor:
        return int(PerCpuArray(descriptor, NicCounters).sum(0)[which])


def dropped(live: Lab, which: PortCounter) -> dict[str, int]:
    return {port.name: live.port_counters.sum(port.id)[which] for port in live.clos.ports()}


def more(after: dict[str, int], before: dict[str, int]) -> set[str]:
    return {name for name, count in after.items() if count > before[name]}


def is_stopped(process: ProcessIdentity) -> bool:
    return "\nState:\tT" in Path(f"/proc/{process.pid}/status").read_text()


def _planes_carry(live: Lab) -> bool:
    """Return True if every plane carries a packet; a path that lost one is out until a probe is back."""
    try:
        live.prove_planes()
    except FabricError:
        return False
    return True


def hit(event: FaultEvent) -> dict[int, int]:
    return {account.port_id: account.count for account in event.accounts if account.count}


def test_only_packets_of_the_ev_that_is_named_are_lost(live: Lab, faults: OpenFaults) -> None:
    """A write goes by all EVs of a plane and path; of two paths of plane 0 one alone loses packets."""
    faults_now = faults()
    add(faults_now, "ev-loss", "h0:0", ev="0x00010000", copies="all", direction="a-to-b")
    outcome = send(live, 0.5)
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    event = faults_now.clear("f1")
    [account] = event.accounts
    assert account.met == account.count > 0
    sent = live.port_counters.sum(account.port_id)[PortCounter.TX_PACKETS]
    assert sent > account.count


def test_damaged_packets_are_refused_by_the_nic_and_every_byte_arrives(live: Lab, faults: OpenFaults) -> None:
    assert icrc_modes(live) == {IcrcMode.OFF}
    before = nic_counter(live, "h2", NicCounter.DROP_ICRC)
    faults_now = faults()
    add(faults_now, "corrupt", "h0:*", ratio="5%", bits=3, direction="a-to-b")
    assert icrc_modes(live) == {IcrcMode.ON}
    outcome = send(live, 0.5)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    event = faults_now.clear("f1")
    assert icrc_modes(live) == {IcrcMode.OFF}
    damaged = sum(hit(event).values())
    # a packet that comes after the check has ended is not counted
    assert 0 < nic_counter(live, "h2", NicCounter.DROP_ICRC) - before <= damaged


def test_the_icrc_is_checked_until_the_last_corrupting_fault_is_gone(live: Lab, faults: OpenFaults) -> None:
    faults_now = faults()
    add(faults_now, "corrupt", "h0:0", id="a", ratio="5%")
    add(faults_now, "corrupt", "h0:1", id="b", ratio="5%")
    faults_now.clear("a")
    assert icrc_modes(live) == {IcrcMode.ON}
    faults_now.clear("b")
    assert icrc_modes(live) == {IcrcMode.OFF}


def test_a_blackhole_loses_what_the_switch_would_forward_and_its_links_stay_up(
    live: Lab, faults: OpenFaults
) -> None:
    before = dropped(live, PortCounter.DROP_LOSS)
    faults_now = faults()
    add(faults_now, "blackhole", "p0-t1-0")
    assert set(unhealthy_ports(live)) == {f"p0-t1-0:{index}" for index in range(2)}
    assert ports_down(live) == set()
    outcome = send(live, 0.5)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    assert more(dropped(live, PortCounter.DROP_LOSS), before) <= {"p0-t1-0:0", "p0-t1-0:1"}
    assert sum(hit(faults_now.clear("f1")).values()) > 0
    assert unhealthy_ports(live) == []


def test_a_switch_that_is_off_takes_its_links_and_the_carriers_of_its_nics(
    live: Lab, faults: OpenFaults
) -> None:
    faults_now = faults()
    add(faults_now, "switch-down", "p1-t0-0")
    switch = live.clos.node("p1-t0-0")
    own = {port.name for port in live.clos.ports_of(switch)}
    far = {live.clos.peer(port).name for port in live.clos.ports_of(switch)}
    assert set(unhealthy_ports(live)) == own | far
    await_ports_down(live, own | far)
    assert live.agent("h0").port_status() == [True, False]
    assert live.agent("h2").port_status() == [True, True]
    outcome = send(live, 0.3)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    faults_now.clear("f1")
    await_ports_down(live, set())
    poll_until(lambda: _planes_carry(live), what="every plane carries packets")


def test_a_switch_without_its_table_forwards_nothing_until_it_has_it_again(live: Lab) -> None:
    before = dropped(live, PortCounter.DROP_NO_ROUTE)
    switch = live.clos.node("p0-t0-0")
    write_routes(live.paths, live.clos, switch, is_present=False)
    try:
        outcome = send(live, 0.3)
    finally:
        write_routes(live.paths, live.clos, switch, is_present=True)
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    ingress = more(dropped(live, PortCounter.DROP_NO_ROUTE), before)
    assert ingress
    assert ingress <= {port.name for port in live.clos.ports_of(switch)}
    poll_until(lambda: _planes_carry(live), what="every plane carries packets")


def test_a_switch_that_reboots_is_dark_and_has_its_routes_back_at_the_end(
    live: Lab, faults: OpenFaults
) -> None:
    faults_now = faults()
    add(faults_now, "switch-reboot", "p0-t0-0")
    poll_until(lambda: live.agent("h0").port_status() == [False, True], what="h0 notices")
    outcome = send(live, 0.3)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    faults_now.clear("f1")
    poll_until(lambda: _planes_carry(live), what="every plane carries packets")


def test_a_plane_that_is_down_is_down_everywhere_and_the_other_one_is_not(
    live: Lab, faults: OpenFaults
) -> None:
    faults_now = faults()
    add(faults_now, "plane-down", "1")
    await_ports_down(live, {port.name for port in live.clos.ports() if port.plane == 1})
    assert [live.agent(f"h{host}").port_status() for host in range(4)] == [[True, False]] * 4
    outcome = send(live, 0.3)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    faults_now.clear("f1")
    poll_until(lambda: _planes_carry(live), what="every plane carries packets")


def test_hosts_keep_off_a_link_that_is_drained_until_no_drain_is_left(live: Lab, faults: OpenFaults) -> None:
    def denied() -> list[list[dict[str, int | None]]]:
        return [live.agent(host.name).call("denied_paths") for host in live.clos.hosts()]

    link = live.clos.link("h0:1")
    faults_now = faults()
    add(faults_now, "drain", "h0:1", id="narrow")
    add(faults_now, "drain", "{links: {plane: 1}}", id="plane")
    before = live.clos.numbering.host_count
    outcome = send(live, 0.3)
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    faults_now.clear("plane")
    everywhere = denied()
    assert everywhere[0] == [{"plane": link.plane, "uplink": None, "peer_host": None}]
    assert everywhere[1:] == [[{"plane": link.plane, "uplink": None, "peer_host": 0}]] * (before - 1)
    faults_now.clear("narrow")
    assert denied() == [[]] * before


def test_a_host_that_is_paused_stands_still_and_its_nic_goes_on(live: Lab, faults: OpenFaults) -> None:
    """Packets to it arrive and are acknowledged; its NIC does not take its agent for dead."""
    agent = agent_of(live, "h2")
    faults_now = faults()
    seen = []

    def pause() -> None:
        add(faults_now, "host-pause", "h2")
        seen.append(poll_until(lambda: is_stopped(agent), what="the stop of the agent"))
        with opened(live.paths.node_pins("h2") / "nic_control") as descriptor:
            seen.append(MappedArray(descriptor, NicControl)[0].heartbeat_limit_ns == 0)
        before = nic_counter(live, "h2", NicCounter.RX_DATA)
        while nic_counter(live, "h2", NicCounter.RX_DATA) < before + 100:
            pass
        faults_now.clear("f1")

    outcome = send(live, 0.3, meanwhile=pause)
    assert seen == [True, True]
    assert not is_stopped(agent)
    with opened(live.paths.node_pins("h2") / "nic_control") as descriptor:
        assert MappedArray(descriptor, NicControl)[0].heartbeat_limit_ns > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    assert outcome.messages > 0


def test_an_agent_that_is_killed_is_restarted(live: Lab, faults: OpenFaults) -> None:
    old = agent_of(live, "h3")
    faults_now = faults()
    add(faults_now, "nic-agent-kill", "h3")
    assert not is_alive(old)
    faults_now.clear("f1")
    assert is_alive(agent_of(live, "h3"))
    with AgentClient(live.paths.agent_socket("h3")) as client:
        assert client.hello()["host"] == "h3"


@pytest.mark.parametrize("kind", ["delay", "reorder", "duplicate", "slow-link"])
def test_what_needs_a_queue_is_refused_where_there_is_none(live: Lab, faults: OpenFaults, kind: str) -> None:
    fields = {"delay": {"by": "1ms"}, "reorder": {"by": "1ms", "ratio": "5%"}, "duplicate": {"ratio": "5%"}}
    with pytest.raises(UsageError, match="give the topology a port_rate"):
        add(faults(), kind, "h0:0", **fields.get(kind, {"to": "50%"}))
    assert faults().entries() == []
    assert unhealthy_ports(live) == []


def test_the_same_fault_twice_is_refused_and_changes_nothing(live: Lab, faults: OpenFaults) -> None:
    faults_now = faults()
    add(faults_now, "loss", "h0:0", id="a", ratio="50%", direction="a-to-b")
    with pytest.raises(FaultError, match="'b' would have the same effect as 'a'"):
        add(faults_now, "loss", "h0:0", id="b", ratio="50%", direction="a-to-b")
    port_id = Clos(live.spec).link("h0:0").lower.id
    assert [rule.action != 0 for rule in live.port_fault[port_id].rule].count(True) == 1
    assert read_account(live, port_id, 0).matched_frames >= 0


@pytest.mark.parametrize(
    ("kind", "where", "fields"),
    [
        ("link-down", "p0-t0-0:2~p0-t1-0:0", {}),
        ("switch-reboot", "p0-t0-0", {}),
        ("host-pause", "h2", {}),
        ("nic-agent-kill", "h3", {}),
        ("corrupt", "h0:0", {"ratio": "5%"}),
        ("drain", "h0:0", {}),
    ],
)
def test_whatever_a_killed_runner_broke_works_again(
    live: Lab, lab_name: str, kind: str, where: str, fields: dict[str, str]
) -> None:
    kill_a_runner_with(lab_name, kind, where, fields)
    assert unhealthy_ports(live) == []
    assert icrc_modes(live) == {IcrcMode.OFF}
    assert not any(is_stopped(agent_of(live, host.name)) for host in live.clos.hosts())
    assert not any(live.agent(host.name).call("denied_paths") for host in live.clos.hosts())
    poll_until(lambda: _planes_carry(live), what="every plane carries packets")
