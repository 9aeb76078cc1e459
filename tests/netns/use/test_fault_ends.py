"""Every fault ends on time, whichever process of ours is dead, and the lab says when nobody sees to it."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest
from document_text import document
from fault_traffic import send
from shared_lab import agent_of, await_ports_down, unhealthy_ports
from typed_command import Command
from waiting import DEADLINE_S, poll_until

from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.folder_watch import FolderWatch
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import (
    ProcessIdentity,
    find_marked,
    freeze,
    is_alive,
    is_stopped,
    kill_processes,
)
from mrc_testbed.fabric.state import read_state
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.faults.reaper import reaper_process
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.spec import TopologySpec

OpenFaults = Callable[[], LabFaults]

LAB_SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2, port_rate=20_000_000, flow_control="pfc")
LAB_FILE = document("""\
Topology {name: again}
{planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 20Mbit, flow_control: pfc}
""")

WAITS = pytest.mark.slow("each waits until a fault of 2.5 s is over")
LINK = "p0-t0-0:2~p0-t1-0:0"
LENGTH = "2500ms"  # many times what it takes to kill the reaper first

KINDS: list[tuple[str, str, dict[str, str]]] = [("link-down", LINK, {}), ("host-pause", "h2", {})]
"""One that the kernel ends by itself, and one that a process has to end."""
OTHER_KINDS = [
    ("link-flap", LINK, {"every": "200ms", "down": "100ms"}),
    ("delay", LINK, {"by": "1ms"}),
    ("nic-port-down", "h0:0", {}),
    ("slow-link", LINK, {"to": "50%"}),
    ("pause-storm", LINK, {}),
    ("congestion", LINK, {"rate": "1Mbit", "direction": "a-to-b"}),
    ("switch-reboot", "p0-t0-0", {}),
    ("nic-agent-kill", "h3", {}),
    ("drain", "h0:0", {}),
]


def add(faults: LabFaults, kind: str, where: str, **fields: str) -> None:
    faults.add(parse_fault(kind, where, {"id": "f1", **fields}, ()), seed=1)


def processes(lab_name: str, module: str) -> list[ProcessIdentity]:
    def arguments(process: ProcessIdentity) -> bytes:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes()

    return [process for process in find_marked(lab_name) if module.encode() in arguments(process)]


def await_no_entry(lab_name: str) -> None:
    ledger = Ledger(lab_paths(lab_name).faults)
    poll_until(lambda: not ledger.entries(), what="the end of every fault")


def kill(process: ProcessIdentity) -> None:
    kill_processes([process])  # returns when it is gone: one that dies still holds its lock for a moment


def assert_healthy(live: Lab) -> None:
    assert unhealthy_ports(live) == []
    assert [port.rate_bps for port in live.port_table] == list(port_rates_bps(live.clos))
    await_ports_down(live, set())
    for host in live.clos.hosts():
        assert not is_stopped(agent_of(live, host.name))
        assert live.agent(host.name).call("denied_paths") == []
    live.close()  # one of the agents may be another process by now
    assert processes(live.name, "raw_load") == []


@pytest.mark.parametrize(
    ("kind", "where", "fields"),
    [
        *(pytest.param(*each, id=each[0]) for each in KINDS),
        *(pytest.param(*each, id=each[0], marks=WAITS) for each in OTHER_KINDS),
    ],
)
def test_a_fault_ends_though_its_reaper_was_killed_by_the_one_that_the_next_command_starts(
    live: Lab,
    faults: OpenFaults,
    lab_name: str,
    command: Command,
    kind: str,
    where: str,
    fields: dict[str, str],
) -> None:
    add(faults(), kind, where, **{"for": LENGTH, **fields})
    reaper = reaper_process(Ledger(lab_paths(lab_name).faults))
    assert reaper is not None
    kill(reaper)
    command("restart")
    await_no_entry(lab_name)
    assert_healthy(live)


def test_a_rule_ends_with_every_process_of_ours_dead_and_status_ends_what_is_left(
    live: Lab, faults: OpenFaults, lab_name: str, command: Command
) -> None:
    faults_now = faults()
    add(faults_now, "link-down", LINK, **{"for": LENGTH})
    add(faults_now, "host-pause", "h3", **{"for": LENGTH, "id": "f2"})
    ledger = Ledger(lab_paths(lab_name).faults)
    for each in processes(lab_name, "mrc_testbed.faults.reaper"):
        kill(each)
    [entry, _] = faults_now.entries()
    end_ns = entry.schedule.end_ns
    assert end_ns is not None
    with closing(open_reader(lab_name)) as reader, FolderWatch([ledger.folder]) as watch:
        assert not all(reader.ports_up()) or monotonic_ns() >= end_ns
        while monotonic_ns() < end_ns + 300_000_000:
            watch.wait([], end_ns + 300_000_000)
        assert set(ledger.entries()) == {"f1", "f2"}
        assert all(reader.ports_up())
    before = faults_dropped(live)
    assert send(live, 0.3).error is None
    assert faults_dropped(live) == before
    assert is_stopped(agent_of(live, "h3"))
    reported = command("status", status=1)
    assert "nobody ends faults on time (f1, f2): the fault reaper is dead" in reported
    assert "fault f1 was overdue by" in reported
    assert not is_stopped(agent_of(live, "h3"))
    assert ledger.entries() == {}
    assert "healthy" in command("status")


def test_without_reaper_a_scrape_of_the_metrics_starts_one_which_ends_what_is_overdue(
    live: Lab, faults: OpenFaults, lab_name: str
) -> None:
    add(faults(), "host-pause", "h3", **{"for": "1s"})
    for each in processes(lab_name, "mrc_testbed.faults.reaper"):
        kill(each)
    ledger = Ledger(lab_paths(lab_name).faults)
    poll_until(lambda: reaper_process(ledger) is None, what="the death of the reaper")
    with subprocess.Popen(
        [sys.executable, "-m", "mrc_testbed.cli", "-n", lab_name, "observe", "metrics", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as exporter:
        assert exporter.stdout is not None
        with urlopen(exporter.stdout.readline().strip(), timeout=DEADLINE_S) as answer:  # noqa: S310 - our own
            assert b"mrc_testbed_lab_up" in answer.read()
        exporter.kill()
    await_no_entry(lab_name)
    assert_healthy(live)


def faults_dropped(live: Lab) -> int:
    port_id = live.clos.link(LINK).lower.id
    return int(live.fault_accounts[port_id].rule[0].hit_frames)


def test_a_drain_of_a_paused_host_holds_nobody_up_and_is_done_when_the_host_runs_again(
    live: Lab, faults: OpenFaults, lab_name: str
) -> None:
    """The pause ends on time, though the drain has to ask the host that stands still."""
    faults_now = faults()
    add(faults_now, "host-pause", "h2", **{"for": "500ms"})
    add(faults_now, "drain", "{links: {plane: 1}}", id="drained", until="cleared")
    ledger = Ledger(lab_paths(lab_name).faults)
    poll_until(lambda: not ledger.entries()["drained"].unreached, what="the drain of every host")
    assert not is_stopped(agent_of(live, "h2"))
    poll_until(lambda: "f1" not in ledger.entries(), what="the end of the pause")
    assert all(live.agent(host.name).call("denied_paths") for host in live.clos.hosts())
    faults_now.clear("drained")
    assert_healthy(live)


def test_without_reaper_up_and_restart_start_one(
    live: Lab, faults: OpenFaults, lab_name: str, command: Command
) -> None:
    add(faults(), "nic-port-down", "h0:1", **{"for": "1h"})
    ledger = Ledger(lab_paths(lab_name).faults)
    for how in ("restart", "up"):
        for each in processes(lab_name, "mrc_testbed.faults.reaper"):
            kill(each)
        poll_until(lambda: reaper_process(ledger) is None, what="the death of the reaper")
        assert "the fault reaper is dead" in command("status", status=1)
        if how == "up":
            file = live.state_dir / "again.yaml"
            file.write_text(LAB_FILE)
            command("up", "-t", str(file))
            assert "the fault reaper is started" in command.stderr
        else:
            assert "the fault reaper is started" in command("restart")
        assert "healthy" in command("status")
    reaper = reaper_process(ledger)
    assert reaper is not None
    freeze(reaper)
    assert f"the fault reaper (pid {reaper.pid}) is stopped" in command("status", status=1)
    assert "replaced" in command("restart")
    assert reaper_process(ledger) not in {reaper, None}


def test_an_agent_that_a_signal_stopped_is_no_healthy_one_and_restart_resumes_it(
    live: Lab, command: Command
) -> None:
    agent = agent_of(live, "h1")
    freeze(agent)
    assert f"the agent of h1 (pid {agent.pid}) is stopped by a signal" in command("status", status=1)
    assert command("restart") == "agents resumed: h1\n"
    assert agent_of(live, "h1") == agent
    assert not is_stopped(agent)
    assert "healthy" in command("status")


def test_a_host_that_a_fault_has_paused_is_healthy_and_left_to_the_fault(
    live: Lab, faults: OpenFaults, command: Command
) -> None:
    faults_now = faults()
    add(faults_now, "host-pause", "h1", until="cleared")
    assert "healthy" in command("status")
    assert command("restart") == "every process and port of the lab works\n"
    assert is_stopped(agent_of(live, "h1"))
    faults_now.clear("f1")


def test_a_dead_drainer_is_started_again_and_frames_go_on(live: Lab, command: Command) -> None:
    state = read_state(live.paths)
    assert state is not None
    [drainer] = [process for process in state.processes if process.node is None]
    kill(drainer.identity)
    while is_alive(drainer.identity):
        os.sched_yield()
    assert f"the queue drainer (pid {drainer.pid}) is dead" in command("status", status=1)
    assert command("restart") == "queue drainers started again: 1\n"
    assert "healthy" in command("status")
    outcome = send(live, 0.3)
    assert outcome.messages > 0
    assert (outcome.wrong_bytes, outcome.error) == (0, None)
