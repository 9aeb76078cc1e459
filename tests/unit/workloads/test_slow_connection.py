"""A collective whose messages one NIC sends slowly: they wait here, not in the NIC's work ring."""

from typing import Any

import pytest
from virtual_nics import fabric, in_ms, virtual_nics

from mrc_testbed.virtual.world import VirtualTarget
from mrc_testbed.workloads.load import build_loads
from mrc_testbed.workloads.messages import IN_FLIGHT_MAX
from mrc_testbed.workloads.spec import CollectiveSpec

HOSTS = 40
CLOS = fabric(planes=1, t0=1, hosts_per_t0=HOSTS)


@pytest.mark.parametrize("posts", [False, True])
def test_no_more_messages_are_posted_than_a_work_ring_holds(posts):
    spec = CollectiveSpec(name="ring", kind="all-reduce", size=80_000, iterations=1)
    with virtual_nics(CLOS) as nics, nics.engine(posts=posts) as engine:
        [port] = CLOS.ports_of(CLOS.node("h0"))
        VirtualTarget(nics.lab).set_rate(port.id, 0.05)
        engine.prepare(build_loads(spec, CLOS), 1)
        ring: Any = engine._workloads["ring"]
        engine.start("ring")
        most = 0
        while not engine.wait(in_ms(1)):
            most = max(most, *(each.in_flight for each in ring._messages._connections))
        outcomes = engine.collect(in_ms(0))
    assert most == IN_FLIGHT_MAX
    assert [(each.error, each.wrong_bytes) for each in outcomes] == [(None, 0)] * HOSTS
    assert all(each.compared_bytes for each in outcomes)
