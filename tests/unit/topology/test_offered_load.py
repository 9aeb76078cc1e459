"""The frames a fabric has to move."""

import pytest

from testbed.topology.clos import Clos
from testbed.topology.offered_load import all_hosts_at_once, frame_hops_per_s
from testbed.topology.spec import TopologySpec
from testbed.topology.timing import full_frame_bytes

RATE_BPS = 100_000_000


def clos(**fields: int) -> Clos:
    return Clos(TopologySpec(port_rate=RATE_BPS, **fields))


def nic_packets_per_s(fabric: Clos) -> float:
    return fabric.spec.planes * RATE_BPS / (8 * full_frame_bytes(fabric))


def test_a_packet_across_a_t1_is_eight_frames() -> None:
    fabric = clos(t1=4)
    assert frame_hops_per_s(fabric, [(0, 5)]) == pytest.approx(8 * nic_packets_per_s(fabric))


def test_a_packet_below_one_t0_is_four() -> None:
    fabric = clos()
    assert frame_hops_per_s(fabric, [(0, 1)]) == pytest.approx(4 * nic_packets_per_s(fabric))


def test_flows_share_the_ports_of_a_nic() -> None:
    fabric = clos()
    one = frame_hops_per_s(fabric, [(1, 0)])
    assert frame_hops_per_s(fabric, [(1, 0), (2, 0), (3, 0)]) == pytest.approx(one)
    assert frame_hops_per_s(fabric, [(0, 1), (0, 2)]) == pytest.approx(one)


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
    assert all_hosts_at_once(fabric) == [(0, 1), (1, 2), (2, 0)]
