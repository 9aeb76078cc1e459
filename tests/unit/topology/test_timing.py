"""Figures worked out by hand: a full frame is 2190 bytes, a SACK 154."""

import pytest

from mrc_testbed.topology import timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_queue import control_buffer_bytes, data_buffer_bytes
from mrc_testbed.topology.spec import NicSpec, TopologySpec
from mrc_testbed.topology.timing import IdleFabric

MBIT = 10**6


@pytest.mark.parametrize(
    ("destination", "delay_ns", "rtt_ns"),
    [
        (5, 0, 4 * (175_200 + 12_320)),
        (1, 0, 2 * (175_200 + 12_320)),
        (5, 5_000, 4 * (175_200 + 12_320) + 8 * 5_000),
        (1, 5_000, 2 * (175_200 + 12_320) + 4 * 5_000),
    ],
)
def test_rtt_is_serialisation_and_propagation_of_every_link(
    destination: int, delay_ns: int, rtt_ns: int
) -> None:
    clos = Clos(TopologySpec(port_rate=100 * MBIT, link_delay=delay_ns))
    assert IdleFabric(clos).rtt_ns(0, destination) == rtt_ns


def test_rtt_of_other_frames() -> None:
    clos = Clos(TopologySpec(port_rate=8 * MBIT))
    assert IdleFabric(clos, 200, 100).rtt_ns(0, 5) == 4 * 300_000


def test_an_unshaped_fabric_takes_no_time_in_theory() -> None:
    clos = Clos(TopologySpec())
    assert (IdleFabric(clos).rtt_ns(0, 5), data_buffer_bytes(clos), control_buffer_bytes(clos)) == (0, 0, 0)


def test_serialisation_is_rounded_to_the_nearest_nanosecond() -> None:
    assert timing.serialisation_ns(1, 3 * 10**9) == 3
    assert timing.serialisation_ns(2, 3 * 10**9) == 5


def test_a_smaller_path_mtu_makes_shorter_frames() -> None:
    clos = Clos(TopologySpec(port_rate=100 * MBIT, nic=NicSpec(path_mtu=256)))
    assert timing.full_frame_bytes(clos) == 398
    assert IdleFabric(clos).rtt_ns(0, 5) == 4 * (31_840 + 12_320)


def test_time_of_a_byte_is_that_on_all_links_of_the_path() -> None:
    clos = Clos(TopologySpec(port_rate=100 * MBIT))
    assert timing.byte_time_ps(clos, 1) == 4 * 80_000
    assert timing.byte_time_ps(clos, 0) == 2 * 80_000
    assert timing.byte_time_ps(Clos(TopologySpec()), 1) == 0


def test_clocks_go_by_the_idle_rtt_where_it_is_short_and_nothing_is_late() -> None:
    clos = Clos(TopologySpec(port_rate=100_000 * MBIT, link_delay=500))
    rtt_ns = timing.base_rtt_ns(clos)
    assert timing.pace_ns(clos, 0) == rtt_ns == 4 * (175 + 12) + 8 * 500
    assert timing.paced_ns(50_000_000, clos, 0) == 50 * rtt_ns


@pytest.mark.parametrize("spec", [TopologySpec(port_rate=100_000 * MBIT), TopologySpec()])
def test_a_machine_that_is_late_keeps_the_times_of_a_millisecond(spec: TopologySpec) -> None:
    assert timing.paced_ns(50_000_000, Clos(spec), timing.LATENESS_NS) == 50_000_000


def test_an_rtt_of_more_than_a_millisecond_makes_clocks_no_slower() -> None:
    assert timing.paced_ns(50_000_000, Clos(TopologySpec(port_rate=8 * MBIT)), 0) == 50_000_000
