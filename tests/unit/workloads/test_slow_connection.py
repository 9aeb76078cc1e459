"""A collective whose messages one NIC sends slowly: they wait here, not in the NIC's work ring."""

import pytest
from fake_nic import FakeNic, fake_transport

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.workloads.connectors import MrcConnector
from mrc_testbed.workloads.load import build_loads
from mrc_testbed.workloads.running_collective import UNDER_WAY_MAX, RunningCollective
from mrc_testbed.workloads.spec import CollectiveSpec

HOSTS = 40
CLOS = Clos(TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=HOSTS))


@pytest.fixture
def nics():
    made: list[FakeNic] = []
    made += [FakeNic(f"h{host}", made, is_instant=host != 0) for host in range(HOSTS)]
    yield made
    for nic in made:
        nic.close()


def test_no_more_messages_are_posted_than_a_work_ring_holds(nics):
    spec = CollectiveSpec(name="ring", kind="all-reduce", size=80_000, iterations=1)
    [load] = build_loads(spec, CLOS)
    assert load.collective is not None
    transport = fake_transport(nics, MrcConnector(CLOS))
    transport.open(load.hosts)
    ring = RunningCollective(load, load.collective, transport, 1)
    ring.prepare()
    [slow_qpn] = [qpn for qpn, qp in nics[0].qps.items() if qp.peer is nics[1]]
    slow = nics[0].qps[slow_qpn]
    ring.start()
    most = 0
    while not ring.is_over:
        while events := transport.events():
            for event in events:
                ring.take(event)
        most = max(most, len(slow.posted))
        if slow.posted:
            nics[0].carry_out(slow_qpn)
    outcomes = ring.outcomes()
    assert most == UNDER_WAY_MAX
    assert [(each.error, each.wrong_bytes) for each in outcomes] == [(None, 0)] * HOSTS
    assert all(each.compared_bytes for each in outcomes)
    ring.close()
    transport.close()
