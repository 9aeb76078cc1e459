"""Faults by hand: what a NIC notices, outages of a flap, the end of reapers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fault_traffic import send
from shared_lab import unhealthy_ports
from waiting import DEADLINE_NS, poll_until

from mrc_testbed.agents.abi import FaultRule
from mrc_testbed.agents.nic.client import AgentClient
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.port_fault import acts
from mrc_testbed.fabric.process import ProcessIdentity, find_marked, is_alive
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.faults.ledger import Ledger

pytestmark = pytest.mark.root

LINK = "p0-t0-0:2~p0-t1-0:0"

OpenFaults = Callable[[], LabFaults]


def add_for(faults: LabFaults, kind: str, links: str, length: str, **fields: str) -> None:
    faults.add(parse_fault(kind, links, {"id": "f1", "for": length, **fields}, ()), seed=1)


def await_no_entry(lab_name: str) -> None:
    """Returns when the ledger is empty, whoever emptied it."""
    ledger = Ledger(lab_paths(lab_name).faults)
    poll_until(lambda: not ledger.entries(), what="the end of every fault")


def reapers(lab_name: str) -> list[ProcessIdentity]:
    return [
        process
        for process in find_marked(lab_name)
        if b"mrc_testbed.faults.reaper" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    ]


def test_a_nic_port_that_is_down_is_noticed_by_its_nic_and_comes_back_with_its_address(
    live: Lab, faults: OpenFaults
) -> None:
    nic = live.agent("h0")
    with AgentClient(live.paths.agent_socket("h0")) as listener:
        listener.subscribe()
        faults_now = faults()
        add_for(faults_now, "nic-port-down", "h0:1", "1h")
        down = listener.next_event(DEADLINE_NS)
        assert (down["event"], down["plane"], down["is_up"]) == ("port_state", 1, False)
        assert nic.port_status() == [True, False]
        outcome = send(live, 0.3)
        assert outcome.messages > 0
        assert outcome.error is None
        faults_now.clear("f1")
        while (event := listener.next_event(DEADLINE_NS))["event"] != "port_state":
            pass
        assert (event["plane"], event["is_up"]) == (1, True)
    switch_port = live.clos.peer(live.clos.port("h0:1"))
    shown = live.node(switch_port.node.name).cmd(f"ip -6 -o addr show dev {switch_port.interface}")
    assert f"fe80::{switch_port.id + 1:x}/64" in shown


def test_a_flap_by_hand_goes_down_and_up_and_ends(live: Lab, faults: OpenFaults, lab_name: str) -> None:
    ledger = Ledger(lab_paths(lab_name).faults)
    begun = ledger.events_path.read_text().count("fault-applied") if ledger.events_path.exists() else 0
    add_for(faults(), "link-flap", LINK, "3s", every="300ms", down="100ms")
    [entry] = faults().entries()
    assert entry.schedule.flap is not None
    for port in live.clos.link(LINK).ports:
        rule = FaultRule.from_buffer_copy(live.port_fault[port.id].rule[entry.rule_index])
        for age_ms in range(1000):
            now_ns = entry.schedule.begin_ns + age_ms * 1_000_000
            assert acts(rule, now_ns) == entry.schedule.is_acting(now_ns) == (age_ms % 300 < 100)
    await_no_entry(lab_name)
    assert ledger.events_path.read_text().count("fault-applied") - begun == 1
    assert unhealthy_ports(live) == []


def test_the_reapers_end_with_the_last_fault(faults: OpenFaults, lab_name: str) -> None:
    add_for(faults(), "link-down", LINK, "1h")
    running = reapers(lab_name)
    assert running
    faults().clear("f1")
    poll_until(lambda: not any(map(is_alive, running)), what="the end of the reapers")
    assert reapers(lab_name) == []
