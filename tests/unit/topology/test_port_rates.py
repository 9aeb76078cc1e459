"""Rates by tier and by link, and what follows; worked out by hand: a full frame is 2190 bytes, a SACK 154."""

import pytest

from mrc_testbed.cli import inspect_tables
from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.scenario.spec.demand import OfferedFlow, frame_hops_per_s
from mrc_testbed.topology import port_queue, timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import IdleFabric
from mrc_testbed.transport.congestion import fabric_profile, nic_rate_bps
from mrc_testbed.transport.reliable_connection import choose_rc_congestion

MBIT = 10**6
FRAME_BYTES = 2190
DATA_NS, SACK_NS = 175_200, 12_320
"""Time that a frame occupies a port of 100 Mbit/s."""

SLOW_T1: Tree = {"at": "t1", "rate": "25Mbit"}
SLOW_LINK: Tree = {"select": {"links": "h0:2"}, "rate": "10Mbit"}
SLOW_UPLINK: Tree = {"select": {"links": "p0-t0-0:4"}, "at": "t0", "rate": "10Mbit"}


def clos(*overrides: Tree, **values: Tree) -> Clos:
    queue: Tree = {"overrides": list(overrides)}
    return Clos(validate_values({"port_rate": "100Mbit", "queue": queue, **values}, TopologySpec, "lab.yaml"))


def test_ports_have_rates_by_tier_and_by_link() -> None:
    fabric = clos(
        {"at": "t1", "rate": "80Mbit"},
        {"select": {"links": "p0-t1-0:1"}, "at": "t1", "rate": "20Mbit"},
        {"select": {"links": "h0:2"}, "rate": "50Mbit"},
    )
    rates = dict(zip((port.name for port in fabric.ports()), port_rates_bps(fabric), strict=True))
    named = ("p1-t1-0:0", "p0-t1-0:1", "p0-t1-0:0", "h0:2", "p2-t0-0:0", "h0:1", "p0-t0-0:4")
    assert [rates[name] // MBIT for name in named] == [80, 20, 80, 50, 50, 100, 100]


@pytest.mark.parametrize(
    ("overrides", "across_ns", "local_ns"),
    [
        ((SLOW_T1,), (3 + 4) * (DATA_NS + SACK_NS), 2 * (DATA_NS + SACK_NS)),
        ((SLOW_LINK,), (3 + 10) * (DATA_NS + SACK_NS), (1 + 10) * (DATA_NS + SACK_NS)),
        ((SLOW_UPLINK,), 13 * DATA_NS + 4 * SACK_NS, 2 * (DATA_NS + SACK_NS)),
    ],
)
def test_theory_counts_the_rate_of_each_port_on_the_slowest_path(
    overrides: tuple[Tree, ...], across_ns: int, local_ns: int
) -> None:
    fabric = clos(*overrides)
    assert IdleFabric(fabric).rtt_ns(0, 5) == across_ns
    assert IdleFabric(fabric).rtt_ns(0, 1) == local_ns


def test_a_slow_uplink_is_slow_for_the_sacks_of_the_other_direction() -> None:
    assert IdleFabric(clos(SLOW_UPLINK)).rtt_ns(5, 0) == 4 * DATA_NS + 13 * SACK_NS
    assert IdleFabric(clos(SLOW_UPLINK)).rtt_ns(4, 5) == 2 * (DATA_NS + SACK_NS)


def test_the_longest_path_takes_the_slowest_link_of_each_tier() -> None:
    assert timing.base_rtt_ns(clos(SLOW_T1)) == 7 * DATA_NS + 7 * SACK_NS
    assert timing.base_rtt_ns(clos(SLOW_LINK)) == (10 + 10 + 2) * (DATA_NS + SACK_NS)
    assert timing.base_rtt_ns(clos(SLOW_UPLINK)) == 13 * DATA_NS + 13 * SACK_NS


def test_thresholds_and_buffers_of_a_port_go_by_its_own_rate() -> None:
    fabric = clos(SLOW_T1, link_delay="10ms")
    queues = {
        port.name: queue for port, queue in zip(fabric.ports(), port_queue.port_queues(fabric), strict=True)
    }
    rtt_ns = 80_000_000 + 7 * (DATA_NS + SACK_NS)
    fast, slow = queues["p0-t0-0:4"], queues["p0-t1-0:0"]
    assert fast.trim_bytes == 100 * MBIT * rtt_ns // (8 * 10**9)
    assert slow.trim_bytes == 25 * MBIT * rtt_ns // (8 * 10**9)
    assert (fast.data_buffer_bytes, slow.data_buffer_bytes) == (5 * fast.trim_bytes, 5 * slow.trim_bytes)


def test_ports_that_are_set_alike_are_reckoned_once() -> None:
    """Each asks for the idle RTT, which looks at all ports."""
    large = clos(SLOW_T1, SLOW_LINK, planes=8, t0=8, t1=8)
    queues = port_queue.port_queues(large)
    assert len(queues) == 1536
    assert len(set(map(id, queues))) == 6  # of four kinds, and both ends of the slow link
    assert port_rates_bps(large) is port_rates_bps(large)


def test_the_longest_wait_is_at_the_slowest_port() -> None:
    assert port_queue.longest_wait_ns(clos()) == 64 * DATA_NS
    assert port_queue.longest_wait_ns(clos(SLOW_LINK)) == 64 * DATA_NS * 10


def test_lossless_buffers_hold_what_their_link_carries() -> None:
    fabric = clos({"at": "t1", "rate": "25Mbit"}, flow_control="credits", link_delay="1ms")
    rooms = {
        port.name: buffer.room_bytes
        for port, buffer in zip(fabric.ports(), port_queue.link_buffers(fabric), strict=True)
    }
    assert rooms["p0-t0-0:4"] == 25_000 + 8 * FRAME_BYTES
    assert rooms["p0-t1-0:0"] == 6_250 + 8 * FRAME_BYTES


def test_a_nic_is_as_fast_as_its_ports() -> None:
    fabric = clos({"select": {"links": "h0:*"}, "at": "host", "rate": "25Mbit"})
    assert [nic_rate_bps(fabric, host) // MBIT for host in (0, 1)] == [100, 400]
    assert nic_rate_bps(fabric) == 400 * MBIT
    slow_hosts = clos({"at": "host", "rate": "25Mbit"})
    assert nic_rate_bps(slow_hosts) == 100 * MBIT
    window, usual_window = (fabric_profile(each).max_cwnd_bytes for each in (slow_hosts, clos()))
    assert window == pytest.approx(usual_window * (7 / 4) / 4, rel=0.01)  # of the RTT, and of the rate
    assert choose_rc_congestion(slow_hosts, "rocev2").parameters.line_kbps == 25_000
    assert choose_rc_congestion(slow_hosts, "spray-gbn").parameters.line_kbps == 100_000


def test_a_connection_that_fills_the_slowest_port_does_not_time_out() -> None:
    congestion = choose_rc_congestion(clos(SLOW_UPLINK), "rocev2")
    assert congestion.parameters.line_kbps == 100_000
    assert congestion.rto_ns > 64 * DATA_NS * 10


def test_a_machine_is_asked_for_what_slow_ports_let_through() -> None:
    packets_per_s = 4 * 100 * MBIT / (8 * FRAME_BYTES)
    assert frame_hops_per_s(clos({"at": "host", "rate": "25Mbit"}), [OfferedFlow(0, 5)]) == pytest.approx(
        8 * packets_per_s / 4
    )
    assert frame_hops_per_s(clos(SLOW_T1), [OfferedFlow(0, 5)]) == pytest.approx(8 * packets_per_s / 2)
    assert frame_hops_per_s(clos(SLOW_T1), [OfferedFlow(0, 1)]) == pytest.approx(4 * packets_per_s)
    one_of_four: Tree = {"select": {"links": "h5:3"}, "at": "t0", "rate": "20Mbit"}
    assert frame_hops_per_s(clos(one_of_four), [OfferedFlow(0, 5)]) == pytest.approx(
        8 * packets_per_s * 3.2 / 4
    )


def test_inspect_shows_the_rate_of_each_port() -> None:
    fabric = clos(SLOW_T1, SLOW_LINK)
    rows = {row["property"]: row["value"] for row in inspect_tables.summary_rows(fabric)}
    assert rows["port rate"] == "100 Mbit/s, but 10 Mbit/s to 25 Mbit/s at 18 ports"
    ports = inspect_tables.port_rows(fabric, fabric.node("h0"))
    assert [port["rate_bps"] for port in ports] == [100 * MBIT, 100 * MBIT, 10 * MBIT, 100 * MBIT]
    unshaped = Clos(TopologySpec())
    ports = inspect_tables.port_rows(unshaped, unshaped.node("h0"))
    assert {port["rate_bps"] for port in ports} == {None}
