"""A QP in the place of another, whose packets are still in the fabric's queues."""

from contextlib import ExitStack

import pytest
from raw_verbs import connect_pair
from waiting import DEADLINE_NS

from mrc_agents.nic.client import AgentClient
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

LENGTH = 1 << 17
TRIES = 10
LAB_SPEC = TopologySpec(planes=1, t0=2, t1=1, hosts_per_t0=1, port_rate=20_000_000)
"""128 KiB are on their way for 50 ms."""


@pytest.mark.parametrize("is_region_kept", [True, False])
def test_a_new_qp_takes_no_packet_of_the_one_before_it(live: Lab, is_region_kept: bool) -> None:
    evs = [list(build_ev_set(live.clos, host, 1 - host, 8)) for host in (0, 1)]
    with ExitStack() as opened:
        near, far = (
            opened.enter_context(AgentClient(live.paths.agent_socket(f"h{host}"))) for host in (0, 1)
        )
        source, target = near.register_memory(LENGTH), far.register_memory(LENGTH)

        def write(seed: int) -> tuple[int, int]:
            qpns = near.create_qp(1, evs[0], window_packets=64), far.create_qp(0, evs[1], window_packets=64)
            connect_pair(near, qpns[0], far, qpns[1])
            near.fill(source["offset"], LENGTH, seed)
            near.post_write(
                qpns[0], length=LENGTH, local_offset=source["offset"], remote_offset=0, r_key=target["r_key"]
            )
            return qpns

        for attempt in range(TRIES):
            near_qpn, far_qpn = write(2 * attempt)
            await_packets(far)
            near.destroy_qp(near_qpn)
            far.destroy_qp(far_qpn)
            if not is_region_kept:
                far.deregister_memory(target["r_key"])
                target = far.register_memory(LENGTH)
            near_qpn, far_qpn = write(2 * attempt + 1)
            completions = near.wait(near_qpn, DEADLINE_NS)
            assert [done["status"] for done in completions] == ["success"]
            assert far.verify(target["offset"], LENGTH, 2 * attempt + 1) == 0
            near.destroy_qp(near_qpn)
            far.destroy_qp(far_qpn)


def await_packets(far: AgentClient) -> None:
    """Returns when the first packets have come; most of them are still on their way then."""
    before = far.counters()["rx_data"]
    while far.counters()["rx_data"] < before + 4:
        pass
