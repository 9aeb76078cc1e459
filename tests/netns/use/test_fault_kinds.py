"""Every kind of fault on a lab: it reaches maps, carriers or processes, acts on frames, and is gone.

Its meaning in full is tested in virtual time (tests/unit/faults, tests/virtual).
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fault_traffic import send
from killed_runner import kill_a_runner_with
from shared_lab import agent_of, ports_down, unhealthy_ports
from waiting import DEADLINE_NS, poll_until

from mrc_agents.abi import IcrcMode, LosslessSettings, NicControl, NicCounter, NicCounters, PortCounter
from mrc_agents.bpf.libbpf import open_pinned
from mrc_agents.bpf.maps import MappedArray, PerCpuArray
from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import FabricError, FaultError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import find_marked, is_alive, is_stopped
from mrc_testbed.faults.interactive import FaultSession, LabFaults, parse_fault, plan_fault
from mrc_testbed.faults.map_target import write_routes
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.spec import TopologySpec

LAB_SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2, port_rate=20_000_000, flow_control="pfc")

CASES: dict[str, tuple[str, dict[str, str | int], set[str]]] = {
    "link-down": ("p0-t0-0:2~p0-t1-0:0", {}, {"rules", "carriers"}),
    "link-flap": ("h0:0", {"every": "100ms", "down": "50ms"}, {"rules"}),
    "nic-port-down": ("h0:0", {}, {"rules", "carriers"}),
    "loss": ("h0:0", {"ratio": "20%"}, {"rules"}),
    "burst-loss": ("h0:0", {"ratio": "50%", "burst": 2}, {"rules"}),
    "ev-loss": ("h0:0", {"ev": "0x00000000", "copies": "all"}, {"rules"}),
    "corrupt": ("h0:0", {"ratio": "20%", "bits": 3}, {"rules", "icrc"}),
    "duplicate": ("h0:0", {"ratio": "20%"}, {"rules"}),
    "delay": ("h0:0", {"by": "3ms"}, {"rules"}),
    "reorder": ("h0:0", {"ratio": "20%", "by": "3ms"}, {"rules"}),
    "slow-link": ("h0:0", {"to": "50%"}, {"rates"}),
    "pause-storm": ("h0:0", {}, {"holds"}),
    "drain": ("h0:0", {}, {"denied"}),
    "congestion": ("h2:0", {"rate": "5Mbit", "direction": "b-to-a"}, {"loads"}),
    "blackhole": ("p0-t1-0", {}, {"rules"}),
    "switch-down": ("p0-t0-0", {}, {"rules", "carriers"}),
    "switch-reboot": ("p0-t0-0", {}, {"rules", "carriers"}),
    "plane-down": ("0", {}, {"rules", "carriers"}),
    "host-pause": ("h3", {}, {"processes"}),
    "nic-agent-kill": ("h3", {}, {"processes"}),
}
"""Place, fields, and what of the lab it changes."""

ON_FRAMES = {
    *["loss", "burst-loss", "ev-loss", "corrupt", "duplicate", "delay", "reorder", "congestion", "blackhole"]
}
"""Kinds that surely meet frames: NICs keep off what is dark."""

OpenFaults = Callable[[], LabFaults]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = open_pinned(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def checks_icrc(live: Lab, host: str) -> bool:
    with opened(live.paths.node_pins(host) / "nic_control") as descriptor:
        return MappedArray(descriptor, NicControl)[0].icrc_mode != IcrcMode.OFF


def loads(live: Lab) -> list[int]:
    lines = {each.pid: Path(f"/proc/{each.pid}/cmdline").read_bytes() for each in find_marked(live.name)}
    return [pid for pid, line in lines.items() if b"mrc_testbed.faults.raw_load" in line]


def changed(live: Lab) -> set[str]:
    """Parts of the lab that are not as in one without faults."""
    hosts = [host.name for host in live.clos.hosts()]
    running = [
        host for host in hosts if is_alive(agent_of(live, host)) and not is_stopped(agent_of(live, host))
    ]
    with opened(live.paths.fabric_pins / "lossless_settings") as descriptor:
        held = any(port.is_forced for port in MappedArray(descriptor, LosslessSettings))
    found = {
        "rules": unhealthy_ports(live),
        "rates": [port.rate_bps for port in live.port_table] != list(port_rates_bps(live.clos)),
        "carriers": ports_down(live),
        "icrc": any(checks_icrc(live, host) for host in hosts),
        "denied": any(live.agent(host).call("denied_paths") for host in running),
        "loads": loads(live),
        "holds": held,
        "processes": running != hosts,
    }
    return {what for what, value in found.items() if value}


def is_whole(live: Lab) -> bool:
    """Return True if nothing is changed and every plane carries packets: lost paths are back by a probe."""
    try:
        live.prove_planes()
    except FabricError:
        return False
    return not changed(live)


def hit_frames(live: Lab) -> int:
    return sum(rule.hit_frames for port in live.fault_accounts for rule in port.rule)


def add(faults: LabFaults, kind: str, where: str, **fields: str | int) -> None:
    faults.add(parse_fault(kind, where, {"id": "f1", "until": "cleared", **fields}, ()), seed=1)


def test_every_kind_has_a_case() -> None:
    assert CASES.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", CASES)
def test_a_fault_reaches_the_lab_acts_on_frames_and_is_gone(live: Lab, faults: OpenFaults, kind: str) -> None:
    where, fields, expected = CASES[kind]
    faults_now = faults()
    add(faults_now, kind, where, **fields)
    poll_until(lambda: changed(live) == expected, what=f"{expected}: there is {changed(live)}")
    before = hit_frames(live)
    outcome = send(live, 0.3)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    if kind in ON_FRAMES - {"congestion"}:  # its paths may rest after the faults before
        poll_until(
            lambda: hit_frames(live) > before or not send(live, 0.3).messages, what="a frame that it meets"
        )
    event = faults_now.clear("f1")
    if kind in ON_FRAMES:
        assert any(account.count for account in event.accounts)
    live.close()  # an agent may be another process by now
    poll_until(lambda: is_whole(live), what=f"a whole lab: there is {changed(live)}")


@pytest.mark.parametrize(
    "kind", ["corrupt", "slow-link", "congestion", "drain", "switch-reboot", "host-pause", "nic-agent-kill"]
)
def test_whatever_a_killed_runner_broke_works_again(live: Lab, lab_name: str, kind: str) -> None:
    where, fields, _ = CASES[kind]
    kill_a_runner_with(lab_name, kind, where, fields)
    live.close()
    poll_until(lambda: is_whole(live), what=f"a whole lab: there is {changed(live)}")


def test_a_host_that_is_paused_stands_still_and_its_nic_goes_on(live: Lab, faults: OpenFaults) -> None:
    """Packets to it arrive and are acknowledged; its NIC does not take its agent for dead."""
    faults_now = faults()
    seen = []

    def pause() -> None:
        add(faults_now, "host-pause", "h2")
        seen.append(poll_until(lambda: is_stopped(agent_of(live, "h2")), what="the stop of the agent"))
        with opened(live.paths.node_pins("h2") / "nic_control") as descriptor:
            seen.append(MappedArray(descriptor, NicControl)[0].heartbeat_limit_ns == 0)
        with opened(live.paths.node_pins("h2") / "nic_counters") as descriptor:
            counters = PerCpuArray(descriptor, NicCounters)
            before = counters.sum(0)[NicCounter.RX_DATA]
            while counters.sum(0)[NicCounter.RX_DATA] < before + 100:
                pass
        faults_now.clear("f1")

    outcome = send(live, 0.3, meanwhile=pause)
    assert seen == [True, True]
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    assert outcome.messages > 0


def test_a_reboot_takes_the_routes_of_a_switch_too(live: Lab) -> None:
    def dropped() -> Counter[int]:
        count = live.port_counters.sum
        return Counter({each.id: count(each.id)[PortCounter.DROP_NO_ROUTE] for each in live.clos.ports()})

    before = dropped()
    switch = live.clos.node("p0-t0-0")
    write_routes(live.paths, live.clos, switch, is_present=False)
    try:
        outcome = send(live, 0.3)
    finally:
        write_routes(live.paths, live.clos, switch, is_present=True)
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    lost = (dropped() - before).keys()
    assert lost
    assert lost <= {port.id for port in live.clos.ports_of(switch)}
    poll_until(lambda: is_whole(live), what="every plane carries packets")


def test_traffic_made_ready_flows_when_its_fault_begins_and_ends_with_the_session(
    live: Lab, lab_name: str
) -> None:
    fields = {"id": "f1", "until": "cleared", "rate": "5Mbit", "direction": "b-to-a"}
    action = plan_fault(parse_fault("congestion", "h2:0", fields, ()), live.clos, 1)
    with FaultSession(lab_name) as session:
        session.make_ready([action])
        waiting = loads(live)
        session.apply(action)
        assert loads(live) == waiting
        session.clear("f1")
        session.make_ready([action])
        assert len(loads(live)) == len(waiting) == 1
    assert loads(live) == []
    assert list((live.paths.faults / "loads").iterdir()) == []


def test_the_same_fault_twice_is_refused_and_changes_nothing(live: Lab, faults: OpenFaults) -> None:
    faults_now = faults()
    add(faults_now, "loss", "h0:0", id="a", ratio="50%", direction="a-to-b")
    with pytest.raises(FaultError, match="'b' would have the same effect as 'a'"):
        add(faults_now, "loss", "h0:0", id="b", ratio="50%", direction="a-to-b")
    rules = live.port_fault[live.clos.link("h0:0").lower.id].rule
    assert [rule.action != 0 for rule in rules].count(True) == 1


def test_a_nic_port_that_is_down_is_noticed_by_its_nic_and_comes_back_with_its_address(
    live: Lab, faults: OpenFaults
) -> None:
    with AgentClient(live.paths.agent_socket("h0")) as listener:
        listener.subscribe()
        faults_now = faults()
        add(faults_now, "nic-port-down", "h0:1")
        down = listener.next_event(DEADLINE_NS)
        assert (down["event"], down["plane"], down["is_up"]) == ("port_state", 1, False)
        assert live.agent("h0").port_status() == [True, False]
        faults_now.clear("f1")
        while (event := listener.next_event(DEADLINE_NS))["event"] != "port_state":
            pass
        assert (event["plane"], event["is_up"]) == (1, True)
    switch_port = live.clos.peer(live.clos.port("h0:1"))
    shown = live.node(switch_port.node.name).cmd(f"ip -6 -o addr show dev {switch_port.interface}")
    assert f"fe80::{switch_port.id + 1:x}/64" in shown
