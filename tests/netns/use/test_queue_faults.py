"""Kinds of fault that a shaped lab alone can have."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fault_traffic import send
from killed_runner import kill_a_runner_with
from shared_lab import unhealthy_ports

from mrc_testbed.agents.abi import PortCounter
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import ProcessIdentity, find_marked
from mrc_testbed.faults.interactive import LabFaults, parse_fault, plan_fault
from mrc_testbed.faults.session import FaultSession
from mrc_testbed.topology.spec import TopologySpec

pytestmark = pytest.mark.root

LAB_SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2, port_rate=50_000_000)
MS = 10**6

OpenFaults = Callable[[], LabFaults]


def add(faults: LabFaults, kind: str, where: str, **fields: str) -> None:
    chosen = {"id": "f1", "until": "cleared", **fields}
    faults.add(parse_fault(kind, where, chosen, ()), seed=1)


def test_a_link_that_is_slow_has_the_share_of_its_rate_and_then_all_of_it(
    live: Lab, faults: OpenFaults
) -> None:
    port = live.port_table[live.clos.link("h0:0").lower.id]
    faults_now = faults()
    add(faults_now, "slow-link", "h0:0", id="a", to="50%")
    add(faults_now, "slow-link", "h0:0", id="b", to="10%", direction="a-to-b")
    assert port.rate_bps == 2_500_000
    assert live.port_table[live.clos.link("h0:0").upper.id].rate_bps == 25_000_000
    faults_now.clear("a")
    assert port.rate_bps == 5_000_000
    outcome = send(live, 0.5)
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    faults_now.clear("b")
    assert {entry.rate_bps for entry in live.port_table} == {50_000_000}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("duplicate", {"ratio": "20%"}), ("reorder", {"ratio": "20%", "by": "3ms"}), ("delay", {"by": "3ms"})],
)
def test_what_comes_twice_or_late_is_placed_once(
    live: Lab, faults: OpenFaults, kind: str, fields: dict[str, str]
) -> None:
    faults_now = faults()
    add(faults_now, kind, "h0:*", **fields)
    outcome = send(live, 0.5)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    event = faults_now.clear("f1")
    assert sum(account.count for account in event.accounts) > 0
    assert not event.is_losing
    assert unhealthy_ports(live) == []


def load_processes(lab_name: str) -> list[ProcessIdentity]:
    return [
        process
        for process in find_marked(lab_name)
        if b"mrc_testbed.faults.raw_load" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    ]


def test_congestion_loads_its_port_alone_and_ends_with_its_process(
    live: Lab, faults: OpenFaults, lab_name: str
) -> None:
    port = live.clos.link("h2:0").upper
    before = {
        each.name: live.port_counters.sum(each.id)[PortCounter.TX_PACKETS] for each in live.clos.ports()
    }
    faults_now = faults()
    add(faults_now, "congestion", "h2:0", rate="20Mbit", direction="b-to-a")
    assert len(load_processes(lab_name)) == 1
    while live.port_counters.sum(port.id)[PortCounter.TX_PACKETS] < before[port.name] + 50:
        pass
    event = faults_now.clear("f1")
    assert load_processes(lab_name) == []
    [account] = event.accounts
    assert (account.port_id, event.is_losing) == (port.id, False)
    assert account.count >= 50
    after = {each.name: live.port_counters.sum(each.id)[PortCounter.TX_PACKETS] for each in live.clos.ports()}
    assert {name for name in after if after[name] != before[name]} == {port.name}


def test_congestion_from_host_to_host_loads_the_links_between_them(live: Lab, faults: OpenFaults) -> None:
    """A host that is written to over the same links gets all its bytes, and slower ones."""
    faults_now = faults()
    add(faults_now, "congestion", "h1:*", rate="40Mbit", direction="a-to-b", towards="h2")
    outcome = send(live, 0.5)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
    event = faults_now.clear("f1")
    assert {account.port_id for account in event.accounts} == {
        port.id for port in live.clos.ports_of(live.clos.node("h1"))
    }
    assert all(account.count for account in event.accounts)


@pytest.mark.parametrize(
    ("where", "fields", "message"),
    [
        ("p0-t1-0:0", {"rate": "1Mbit", "towards": "h2"}, "does not lead to h2"),
        ("h2:0", {"rate": "1Mbit", "towards": "h2"}, "does not lead to h2"),
        ("h2:0", {"rate": "1Mbit", "towards": "h77"}, "there is no node 'h77'"),
    ],
)
def test_a_load_that_cannot_be_is_refused(
    faults: OpenFaults, where: str, fields: dict[str, str], message: str
) -> None:
    faults_now = faults()
    with pytest.raises(UsageError, match=message):
        add(faults_now, "congestion", where, direction="a-to-b", **fields)
    assert faults_now.entries() == []


@pytest.mark.parametrize(
    ("kind", "where", "fields"),
    [
        ("slow-link", "h0:0", {"to": "10%"}),
        ("delay", "h0:0", {"by": "1ms"}),
        ("congestion", "h2:0", {"rate": "5Mbit"}),
    ],
)
def test_whatever_a_killed_runner_broke_works_again(
    live: Lab, lab_name: str, kind: str, where: str, fields: dict[str, str]
) -> None:
    kill_a_runner_with(lab_name, kind, where, fields)
    assert unhealthy_ports(live) == []
    assert {entry.rate_bps for entry in live.port_table} == {50_000_000}
    assert load_processes(lab_name) == []


def test_traffic_made_ready_flows_when_its_fault_begins_and_ends_with_the_session(
    live: Lab, lab_name: str
) -> None:
    fields = {"id": "f1", "until": "cleared", "rate": "20Mbit", "direction": "b-to-a"}
    action = plan_fault(parse_fault("congestion", "h2:0", fields, ()), live.clos, 1)
    with FaultSession(lab_name) as session:
        session.make_ready([action])
        [waiting] = load_processes(lab_name)
        session.apply(action)
        assert load_processes(lab_name) == [waiting]
        session.clear("f1")
        session.make_ready([action])
        assert len(load_processes(lab_name)) == 1
    assert load_processes(lab_name) == []
    assert list((live.paths.faults / "loads").iterdir()) == []
