"""The kernel's own SRv6 forwards what our NICs send: an independent uN node in the place of one of ours."""

import re
from collections.abc import Iterator

import pytest
from kernel_srv6 import replace_switch_by_kernel_srv6, restore_switch

from mrc_agents.abi import PortCounter
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.queue_spec import QueueSpec
from mrc_testbed.topology.spec import TopologySpec


@pytest.fixture(
    params=["veth", pytest.param("direct", marks=[pytest.mark.slow("two more labs"), pytest.mark.ci])]
)
def live_lab(request: pytest.FixtureRequest, lab_name: str) -> Iterator[Lab]:
    queue = QueueSpec(links=request.param)
    spec = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1, uplinks_per_pair=2, queue=queue)
    lab.up(spec, name=lab_name, runtime="netns")
    with lab.attach(lab_name) as live:
        yield live
    lab.down(lab_name)


def test_traffic_flows_unchanged_through_a_kernel_srv6_switch(live_lab: Lab) -> None:
    for switch in ("p0-t0-0", "p1-t1-0"):
        bpf_before, kernel_before = _sent_by_bpf(live_lab, switch), _forwarded_by_kernel(live_lab, switch)
        replace_switch_by_kernel_srv6(live_lab, switch)
        live_lab.prove_planes()
        assert _sent_by_bpf(live_lab, switch) == bpf_before
        # Two hosts write one packet each through the plane, and a SACK comes back for each; one that comes
        # late on a busy machine is sent again.
        assert _forwarded_by_kernel(live_lab, switch) >= kernel_before + 4

        restore_switch(live_lab, switch)
        live_lab.prove_planes()
        assert _sent_by_bpf(live_lab, switch) >= bpf_before + 4
        kernel_after = _forwarded_by_kernel(live_lab, switch)
        live_lab.prove_planes()
        assert _forwarded_by_kernel(live_lab, switch) == kernel_after


def test_restoring_leaves_no_route_and_no_neighbour(live_lab: Lab) -> None:
    shell = live_lab.node("p0-t0-0")
    before = shell.cmd("ip -6 route; ip -6 neighbour; sysctl -a 2>/dev/null | grep -E 'seg6|forwarding'")
    replace_switch_by_kernel_srv6(live_lab, "p0-t0-0")
    assert "seg6local action End flavors next-csid lblen 32 nflen 16" in shell.cmd("ip -6 route")
    restore_switch(live_lab, "p0-t0-0")
    after = shell.cmd("ip -6 route; ip -6 neighbour; sysctl -a 2>/dev/null | grep -E 'seg6|forwarding'")
    assert after == before


def test_only_a_switch_of_an_unshaped_lab_can_be_replaced(lab_name: str) -> None:
    lab.up(
        TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2, port_rate=100_000_000),
        name=lab_name,
        runtime="netns",
    )
    with lab.attach(lab_name) as live:
        for node, why in (("h0", "h0 is a host"), ("p0-t0-0", "is shaped")):
            with pytest.raises(UsageError, match=why):
                replace_switch_by_kernel_srv6(live, node)
    lab.down(lab_name)


def _sent_by_bpf(live: Lab, switch: str) -> int:
    ports = live.clos.ports_of(live.clos.node(switch))
    return sum(live.port_counters.sum(port.id)[PortCounter.TX_PACKETS] for port in ports)


def _forwarded_by_kernel(live: Lab, switch: str) -> int:
    counters = live.node(switch).cmd("cat /proc/net/snmp6")
    found = re.search(r"^Ip6OutForwDatagrams\s+(\d+)", counters, re.MULTILINE)
    assert found
    return int(found[1])
