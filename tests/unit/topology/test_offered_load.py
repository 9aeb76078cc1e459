"""The frames a fabric has to move."""

from typing import Any

import pytest

from mrc_testbed.scenario.spec.demand import OfferedFlow, all_hosts_at_once, frame_hops_per_s
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import IdleFabric, full_frame_bytes

RATE_BPS = 100_000_000


def clos(**fields: Any) -> Clos:
    return Clos(TopologySpec(port_rate=RATE_BPS, **fields))


def nic_packets_per_s(fabric: Clos) -> float:
    return fabric.spec.planes * RATE_BPS / (8 * full_frame_bytes(fabric))


def test_a_packet_across_a_t1_is_eight_frames() -> None:
    fabric = clos(t1=4)
    assert frame_hops_per_s(fabric, [OfferedFlow(0, 5)]) == pytest.approx(8 * nic_packets_per_s(fabric))


def test_a_packet_below_one_t0_is_four() -> None:
    fabric = clos()
    assert frame_hops_per_s(fabric, [OfferedFlow(0, 1)]) == pytest.approx(4 * nic_packets_per_s(fabric))


def test_flows_share_the_ports_of_a_nic() -> None:
    fabric = clos()
    one = frame_hops_per_s(fabric, [OfferedFlow(1, 0)])
    to_one = [OfferedFlow(1, 0), OfferedFlow(2, 0), OfferedFlow(3, 0)]
    assert frame_hops_per_s(fabric, to_one) == pytest.approx(one)
    assert frame_hops_per_s(fabric, [OfferedFlow(0, 1), OfferedFlow(0, 2)]) == pytest.approx(one)


def test_a_flow_that_waits_for_answers_asks_for_no_more_than_its_depth_per_round_trip() -> None:
    fabric = clos()
    rtt_ns = IdleFabric(fabric, full_frame_bytes(fabric) - 2048 + 64).rtt_ns(0, 5)
    one_by_one = frame_hops_per_s(fabric, [OfferedFlow(0, 5, depth=1, size_bytes=64)])
    assert one_by_one == pytest.approx(8 * 1e9 / rtt_ns)
    # 5000 bytes are three packets, the first of them full
    rtt_ns = IdleFabric(fabric).rtt_ns(0, 5)
    packets = frame_hops_per_s(fabric, [OfferedFlow(0, 5, depth=2, size_bytes=5000)])
    assert packets == pytest.approx(8 * 6 * 1e9 / rtt_ns)


def test_a_deep_flow_fills_the_ports_and_no_more() -> None:
    fabric = clos()
    full = frame_hops_per_s(fabric, [OfferedFlow(0, 5)])
    assert frame_hops_per_s(fabric, [OfferedFlow(0, 5, depth=1000, size_bytes=65536)]) == full


def test_uplinks_bound_what_crosses_t1s() -> None:
    narrow, wide = clos(t1=2), clos(t1=4)
    assert frame_hops_per_s(wide, all_hosts_at_once(wide)) == pytest.approx(8 * 8 * nic_packets_per_s(wide))
    assert frame_hops_per_s(narrow, all_hosts_at_once(narrow)) == pytest.approx(
        frame_hops_per_s(wide, all_hosts_at_once(wide)) / 2
    )


def test_an_unshaped_fabric_has_no_rate_to_reckon_with() -> None:
    fabric = Clos(TopologySpec())
    assert frame_hops_per_s(fabric, all_hosts_at_once(fabric)) == 0


def test_with_a_single_t0_hosts_send_to_their_neighbours() -> None:
    fabric = clos(t0=1, t1=1, hosts_per_t0=3)
    assert [(flow.source, flow.target) for flow in all_hosts_at_once(fabric)] == [(0, 1), (1, 2), (2, 0)]
