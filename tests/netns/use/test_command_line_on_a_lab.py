"""The commands a user types, on a lab that is up: shapes of JSON, tables, statuses, interruption."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from shared_lab import SPEC, unhealthy_ports
from typed_command import Command
from waiting import DEADLINE_S, poll_until

from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import find_marked

LAB_SPEC = SPEC  # a lab of its own, which the last test removes

LINK = "p0-t0-0:2~p0-t1-0:0"


def test_up_again_is_no_change_and_another_topology_needs_reconfigure(
    command: Command, tmp_path: Path, live: Lab
) -> None:
    same = tmp_path / "same.yaml"
    spec = json.dumps(SPEC.model_dump(mode="json", exclude_none=True, exclude={"queue"}))
    head = "apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {name: t}\nspec: "
    same.write_text(f"{head}{spec}\n")
    before = live.state.processes
    assert command.json("up", "-t", str(same), "--runtime", "netns")["healthy"]
    assert command.json("status")["name"] == live.name
    assert live.state.processes == before
    other = tmp_path / "other.yaml"
    other.write_text(f"{head}{{planes: 1, t0: 2, t1: 2, hosts_per_t0: 2}}\n")
    command("up", "-t", str(other), status=2)
    assert "planes: 2 -> 1" in command.stderr
    assert "--reconfigure" in command.stderr


def test_status_of_a_lab_has_its_promised_values(command: Command) -> None:
    found = command.json("status")
    assert (found["phase"], found["runtime"], found["healthy"]) == ("up", "netns", True)
    assert (found["switches"], found["hosts"], found["links"]) == (8, 4, 16)


def test_a_fault_is_added_listed_shown_and_cleared(
    command: Command, faults: Callable[[], object], live: Lab
) -> None:
    added = command.json("fault", "add", "loss", "--link", LINK, "--ratio", "5%", "--until", "cleared")
    assert added["id"] == "loss-1"
    assert added["links"] == [LINK]
    assert added["applied_ns"] <= monotonic_ns()
    assert "loss-1 is active already" not in command.stderr
    [listed] = command.json("fault", "list")["faults"]
    assert (listed["id"], listed["acting"], listed["detail"]) == ("loss-1", True, "5%")
    assert command.json("status")["faults"] == ["loss-1"]
    hops = command.json("ev", "explain", "h0", "h2", "0:0")["hops"]
    assert [hop["faults"] for hop in hops if hop["link"] == LINK] == [["loss-1 (loss)"]]
    command(
        "fault", "add", "loss", "--id", "loss-1", "--link", LINK, "--ratio", "5%", "--for", "1s", status=1
    )
    assert "'loss-1' is active already" in command.stderr
    [cleared] = command.json("fault", "clear", "loss-1")["faults"]
    assert (cleared["id"], cleared["lost_packets"]) == ("loss-1", 0)
    assert unhealthy_ports(live) == []
    assert command("fault", "clear", "--all") == "no fault was active\n"


def test_a_dry_run_of_a_fault_changes_nothing(command: Command, live: Lab) -> None:
    found = command.json("fault", "add", "link-down", "--link", "h0:*", "--for", "1s", "--dry-run")
    assert not found["applied"]
    assert len(found["links"]) == 2
    assert unhealthy_ports(live) == []
    assert command.json("fault", "list")["faults"] == []


def test_write_bw_has_the_columns_of_perftest(command: Command) -> None:
    text = command("bench", "write-bw", "h0", "h2", "--size", "4KiB", "--iterations", "200")
    heading, row, *_ = text.splitlines()
    columns = "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps] #wrong"
    assert heading.split() == columns.split()
    assert row.split()[:2] == ["4096", "200"]
    assert row.split()[-1] == "0"
    assert "verified, no mismatch" in text


def test_write_bw_as_json(command: Command) -> None:
    found = command.json("bench", "write-bw", "h0", "h2", "--iterations", "100", "--qps", "2")
    assert found["kind"] == "Bench"
    assert found["passed"]
    assert found["messages"] == 200
    assert found["wrong_bytes"] == 0
    assert found["average_bps"] > 0
    assert [flow["messages"] for flow in found["flows"]] == [100, 100]
    assert found["completion_ns"]["count"] == 200


@pytest.mark.parametrize("transport", ["rocev2", "infiniband", "spray-gbn"])
def test_every_transport_carries_a_bench(command: Command, transport: str) -> None:
    found = command.json("bench", "write-bw", "h0", "h2", "-i", "50", "--qps", "2", "--transport", transport)
    assert (found["transport"], found["messages"], found["wrong_bytes"]) == (transport, 100, 0)
    assert found["completion_ns"]["count"] == 100
    ring = command.json("bench", "all-reduce", "-b", "16KiB", "-i", "3", "--transport", transport)
    assert (ring["transport"], ring["passed"]) == (transport, True)
    assert ring["sizes"][0]["compared_bytes"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "write-bw", "h0", "h1", "-t", "lab.yaml"), "-t: it is for --virtual"),
        (("fault", "add", "link-down", "--link", "h0:9", "--for", "1s"), "h0"),
        (("exec", "p0-t5-0", "--", "true"), "there is no node"),
        (("logs", "h22"), "there is no log of 'h22'"),
    ],
)
def test_bad_input_is_refused_before_anything_happens(
    command: Command, live: Lab, arguments: tuple[str, ...], message: str
) -> None:
    command(*arguments, status=2)
    assert message in command.stderr


def test_exec_runs_inside_the_node_and_passes_the_status_on(lab_name: str) -> None:
    program = [sys.executable, "-m", "mrc_testbed.cli", "-n", lab_name, "exec", "h0", "--"]
    inside = subprocess.run(
        [*program, "ip", "-br", "link"], capture_output=True, text=True, check=True, timeout=DEADLINE_S
    )
    names = [line.split()[0].split("@")[0] for line in inside.stdout.splitlines()]
    assert [name for name in names if name.startswith("plane")] == ["plane0", "plane1"]
    assert "management" in names
    assert subprocess.run([*program, "sh", "-c", "exit 3"], check=False, timeout=DEADLINE_S).returncode == 3


def test_exec_finds_names_and_addresses_of_the_hosts_in_the_command(lab_name: str) -> None:
    testbed = [sys.executable, "-m", "mrc_testbed.cli", "-n", lab_name]
    connects = "import socket; socket.create_connection(('h1', 9))"
    for host in ("h0", "h2"):
        line = [*testbed, "exec", host, "--", sys.executable, "-c", connects, "h1"]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        assert "ConnectionRefusedError" in done.stderr


def test_inspect_counts_what_crossed_a_port(command: Command) -> None:
    command("bench", "write-bw", "h0", "h1", "--iterations", "10")
    tables = command.json("inspect", "h0")["tables"]
    counters = {row["port"]: row for row in tables[-1]["rows"]}
    assert tables[-1]["title"] == "counters"
    assert all(counters[port]["tx_packets"] > 0 for port in ("h0:0", "h0:1"))


def start_bench(lab_name: str, live: Lab) -> "subprocess.Popen[str]":
    """A bench that sends, as a process."""
    command = [sys.executable, *f"-m mrc_testbed.cli -n {lab_name} bench write-bw h0 h2 -d 1h".split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    sent = live.agent("h0").counters()["messages"]
    poll_until(lambda: process.poll() is not None or live.agent("h0").counters()["messages"] > sent)
    assert process.poll() is None
    return process


def listed_with_rtt(command: Command) -> list[dict[str, Any]]:
    """EVs of plane 1; none while the first packet of one that is good is under way."""
    evs: list[dict[str, Any]] = command.json("ev", "list", "h0", "h2", "--plane", "1")["evs"]
    return evs if all(ev["rtt_ns"] > 0 for ev in evs if ev["tx_packets"] and ev["state"] == "GOOD") else []


def test_ev_list_shows_the_evs_of_a_live_qp(command: Command, lab_name: str, live: Lab) -> None:
    process = start_bench(lab_name, live)
    try:
        evs = poll_until(lambda: listed_with_rtt(command), what="the RTT of every EV that is good")
        text = command("ev", "list", "h0", "h2")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE_S)
    assert {ev["plane"] for ev in evs} == {1}
    # an unshaped lab on a busy machine drops a frame now and then
    assert any(ev["state"] == "GOOD" for ev in evs)
    assert [ev for ev in evs if ev["state"] != "GOOD" and not ev["bad_count"]] == []
    assert sum(ev["tx_packets"] for ev in evs) > 0
    assert "GOOD" in text


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_an_interrupted_bench_gives_its_qps_back(
    lab_name: str, live: Lab, number: signal.Signals, status: int
) -> None:
    process = start_bench(lab_name, live)
    process.send_signal(number)
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == status
    assert out == ""
    poll_until(
        lambda: not (live.agent("h0").list_qps() or live.agent("h2").list_qps()), what="the end of the QPs"
    )


def test_a_command_out_of_time_names_what_it_was_at(command: Command, live: Lab) -> None:
    sent = live.agent("h0").counters()["messages"]

    def ring_while_it_sends() -> None:
        poll_until(lambda: live.agent("h0").counters()["messages"] > sent)
        os.kill(os.getpid(), signal.SIGALRM)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(ring_while_it_sends)
        command("bench", "write-bw", "h0", "h2", "-d", "1h", "--timeout", "100s", status=1)
    assert "not done after 100s (--timeout); it was at: bench: sending" in command.stderr


def test_metrics_are_served_until_interrupted(lab_name: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "mrc_testbed.cli", "-n", lab_name, "observe", "metrics", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        page = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())",
                url,
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=DEADLINE_S,
        ).stdout
        server.send_signal(signal.SIGINT)
        assert server.wait(DEADLINE_S) == 130
    assert f'mrc_testbed_lab_up{{lab="{lab_name}"}} 1' in page


def test_down_takes_faults_and_their_reaper_along(command: Command, lab_name: str) -> None:
    """The last test of the module."""
    command("fault", "add", "nic-port-down", "--link", "h0:1", "--for", "1h")
    assert command("down", "--dry-run") == f"lab {lab_name} would be removed\n"
    assert command("down") == f"lab {lab_name} is removed\n"
    assert not [name for name in namespace_names() if name.startswith(f"mrc-{lab_name}-")]
    assert not find_marked(lab_name)
    assert not lab_paths(lab_name).folder.exists()
    assert command("down") == f"there was no lab {lab_name}\n"
    command("status", status=2)
