"""A fabric of 128 switches: up, with every uplink of a host's paths in use, and gone without a trace."""

import pytest

from mrc_agents.abi import PortCounter, PortKind
from mrc_testbed.fabric import lab
from mrc_testbed.topology.spec import TopologySpec

pytestmark = [pytest.mark.root, pytest.mark.slow("a lab of 128 switches"), pytest.mark.ci]

SPEC = TopologySpec(planes=8, t0=8, t1=8, hosts_per_t0=1)


def test_a_lab_of_128_switches_carries_packets_over_every_plane(lab_name: str) -> None:
    status = lab.up(SPEC, name=lab_name, runtime="netns")
    assert (status.is_healthy, status.problems) == (True, ())
    assert SPEC.numbering.switch_count == 128
    with lab.attach(lab_name) as live:
        # up itself has proved it: each host has sent to the next by an uplink of its own number
        for port in live.clos.ports():
            is_crossed = port.kind is PortKind.NIC or (
                port.kind is PortKind.T0_UP and port.index - SPEC.hosts_per_t0 == port.node.index
            )
            if is_crossed:
                assert live.port_counters.sum(port.id)[PortCounter.TX_PACKETS] > 0, port.name
    assert lab.down(lab_name)
