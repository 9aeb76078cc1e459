"""A script in Mininet's own API brings a lab up, works in its nodes, breaks a link and removes the lab."""

from pathlib import Path

import pytest
from mininet.topo import Topo
from own_lab import assert_nothing_left, own_state_dir

from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.port_state import observe_ports
from mrc_testbed.mininet_net import ClosTopo, MrcNet
from mrc_testbed.topology.spec import TopologySpec

_SPEC = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1)


def test_a_script_builds_uses_and_removes_a_lab() -> None:
    with own_state_dir():
        with MrcNet(ClosTopo(_SPEC), lab="mn", runtime="netns") as net:
            assert sorted(net.keys()) == sorted(node.name for node in net.topo.clos.nodes())
            assert "down0" in net["p0-t0-0"].cmd("ls /proc/sys/net/ipv6/conf").split()
            net.configLinkStatus("h0", "p0-t0-0", "down")
            port = net.topo.clos.port("h0:0")
            (observed,) = observe_ports("mn", "h0", [port])
            assert observed is not None
            assert not observed.has_carrier
            assert lab.status("mn").spec == _SPEC
        assert_nothing_left("mn")


def test_the_network_of_a_lab_that_is_up_leaves_it_up(small_lab: str) -> None:
    with lab.attach(small_lab) as live:
        network = MrcNet.of_lab(live)
        network.stop()
    with lab.attach(small_lab) as live:
        assert live.node("h0").cmd("echo here") == "here\r\n"


def test_topo_describes_every_link_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(
        "apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {name: small}\n"
        "spec: {planes: 2, t0: 2, t1: 1, hosts_per_t0: 1}\n"
    )
    topo = ClosTopo(file)
    assert isinstance(topo, Topo)
    assert topo.hosts() == ["h0", "h1"]
    assert len(topo.switches()) == 6
    assert sorted(topo.links()) == sorted(
        (link.lower.node.name, link.upper.node.name) for link in topo.clos.links()
    )


def test_nodes_and_links_come_from_the_topology_alone() -> None:
    net = MrcNet(ClosTopo(_SPEC))
    with pytest.raises(UsageError, match="h9 cannot be added: the topology describes all nodes"):
        net.addHost("h9")
    with pytest.raises(UsageError, match="h0~h1 cannot be added"):
        net.addLink("h0", "h1")
