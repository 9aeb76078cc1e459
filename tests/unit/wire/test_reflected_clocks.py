"""The 16-bit timestamp and the 24-bit byte count that come back in a SACK."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.received_bytes import newly_received_bytes, received_units
from reference.timestamp import elapsed_ns, unit_ns, wire_timestamp

from agents.protocol.sizes import nominal_bytes


@given(st.integers(0, 2**62), st.booleans(), st.data())
def test_elapsed_time_is_right_to_one_unit_below_one_turn(
    sent_ns: int, is_coarse: bool, data: st.DataObject
) -> None:
    unit = unit_ns(is_coarse=is_coarse)
    passed_ns = data.draw(st.integers(0, (2**16 - 1) * unit))
    field = wire_timestamp(sent_ns, is_coarse=is_coarse)
    assert 0 <= field < 2**16
    assert abs(elapsed_ns(field, sent_ns + passed_ns, is_coarse=is_coarse) - passed_ns) < unit


def test_fine_timestamp_wraps_after_8_ms_and_coarse_after_half_a_second() -> None:
    assert wire_timestamp(8_388_608) == 0
    assert wire_timestamp(8_388_607) == 0xFFFF
    assert wire_timestamp(536_870_912, is_coarse=True) == 0


def test_ten_packets_of_2048_bytes_are_84_units() -> None:
    udp_bytes = 8 + 12 + 4 + 4 + 16 + 2048 + 4
    assert nominal_bytes(udp_bytes) == 2136
    assert received_units(10 * 2136) == 84


@pytest.mark.parametrize(
    ("newer", "older", "expected_bytes"),
    [(5, 3, 512), (0, 0xFFFFFF, 256), (3, 3, 0), (3, 5, None), (0xFFFFFF, 0, None)],
)
def test_count_of_an_older_sack_is_discarded(newer: int, older: int, expected_bytes: int | None) -> None:
    assert newly_received_bytes(newer, older) == expected_bytes


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=30), st.integers(0, 2**40))
def test_differences_add_up_to_one_unit(arrivals: list[int], start: int) -> None:
    total, summed, last = start, 0, received_units(start)
    for arrived in arrivals:
        total += arrived
        fresh = newly_received_bytes(received_units(total), last)
        assert fresh is not None
        summed += fresh
        last = received_units(total)
    assert abs(summed - (total - start)) < 256
