"""A collective whose messages one NIC sends slowly: they wait here, not in the NIC's work ring."""

from virtual_nics import fabric, in_ms, virtual_nics

from mrc_testbed.virtual.target import VirtualTarget
from mrc_testbed.workloads.load import build_loads
from mrc_testbed.workloads.running_collective import UNDER_WAY_MAX, RunningCollective
from mrc_testbed.workloads.spec import CollectiveSpec

HOSTS = 40
CLOS = fabric(planes=1, t0=1, hosts_per_t0=HOSTS)


def test_no_more_messages_are_posted_than_a_work_ring_holds():
    spec = CollectiveSpec(name="ring", kind="all-reduce", size=80_000, iterations=1)
    [load] = build_loads(spec, CLOS)
    assert load.collective is not None
    with virtual_nics(CLOS) as nics:
        [port] = CLOS.ports_of(CLOS.node("h0"))
        VirtualTarget(nics.lab).set_rate(port.id, 0.05)
        transport = nics.transport()
        transport.open(load.hosts)
        ring = RunningCollective(load, load.collective, transport, 1)
        ring.prepare()
        ring.start()
        most = 0
        while not ring.is_over:
            nics.lab.run_until(in_ms(1000), lambda: transport.has_events)
            for event in transport.events():
                ring.take(event)
            most = max(most, *ring._under_way)
        outcomes = ring.outcomes()
    assert most == UNDER_WAY_MAX
    assert [(each.error, each.wrong_bytes) for each in outcomes] == [(None, 0)] * HOSTS
    assert all(each.compared_bytes for each in outcomes)
