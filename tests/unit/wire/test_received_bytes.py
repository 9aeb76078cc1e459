"""The 24-bit byte count that comes back in a SACK."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.received_bytes import newly_received_bytes, received_units

from mrc_testbed.agents.protocol.sizes import nominal_bytes


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
