"""Nodes and links of a live lab as Mininet sees them, from a process that did not make them."""

import time

import pytest
from waiting import DEADLINE_NS

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.netns_runtime import delete_namespaces
from mrc_testbed.fabric.port_state import PortObservation, observe_ports
from mrc_testbed.fabric.process import find_marked
from mrc_testbed.mininet_net import FabricShell, MrcNet
from mrc_testbed.topology.element import Port


def _observe(lab_name: str, port: Port) -> PortObservation:
    (observed,) = observe_ports(lab_name, port.node.name, [port])
    assert observed
    return observed


def test_commands_run_inside_the_node_in_shells_that_end_with_the_lab(small_lab: str) -> None:
    before = find_marked(small_lab)
    with lab.attach(small_lab) as live:
        node = live.node("p1-t0-0")
        assert node.cmd("ls /proc/sys/net/ipv6/conf").split() == ["all", "default", "down0", "lo", "up0"]
        process = node.popen("cat", "/proc/self/ns/net", "/proc/self/comm")
        output, _ = process.communicate()
        assert output == b"cat\n"
        assert node.pexec("sh", "-c", "echo wrong >&2; exit 3") == ("", "wrong\n", 3)
        assert len(find_marked(small_lab)) == len(before) + 1
    assert find_marked(small_lab) == before
    with lab.attach(small_lab) as live:  # a node that is gone is an error and no endless wait
        delete_namespaces(small_lab, ["h0"])
        with pytest.raises(FabricError, match=r"h0 cannot be entered: .*No such file"):
            live.node("h0").cmd("true")


def test_the_nic_notices_that_its_carrier_is_gone_and_that_it_is_back(small_lab: str) -> None:
    with lab.attach(small_lab) as live:
        agent = live.agent("h0")
        agent.subscribe()
        nic_port, switch_port = live.clos.link("h0:1").ports
        for is_up in (False, True):
            before_ns = time.monotonic_ns()
            live.set_port_up(switch_port.id, is_up=is_up)
            event = agent.next_event(DEADLINE_NS)
            assert (event["event"], event["plane"], event["is_up"]) == ("port_state", 1, is_up)
            assert event["time_ns"] > before_ns
            assert _observe(small_lab, nic_port)[:3] == (True, is_up, 3000)
            assert agent.port_status() == [True, is_up]
        assert f"fe80::{switch_port.id + 1:x}/64" in live.node("p1-t0-0").cmd("ip -6 address show down0")


def test_the_shell_shows_links_and_changes_them(
    small_lab: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with lab.attach(small_lab) as live:
        network = MrcNet.of_lab(live)
        assert [host.name for host in network.hosts] == ["h0", "h1"]
        assert len(network.switches) == 6
        shell = FabricShell.__new__(FabricShell)
        shell.mn = network
        shell.onecmd("link h0 p0-t0-0 down")
        port = live.clos.port("p0-t0-0:0")
        assert _observe(small_lab, port)[:3] == (False, False, 3000)
        shell.onecmd("link h0 p0-t0-0 up")
        assert _observe(small_lab, port)[:3] == (True, True, 3000)
