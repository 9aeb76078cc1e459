"""Serial-number arithmetic on the 24-bit circle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.psn import (
    PSN_COUNT,
    PSN_HALF,
    Psn,
    psn_add,
    psn_distance,
    psn_expand,
    psn_is_before,
    wire_psn,
)

psns = st.integers(0, PSN_COUNT - 1).map(Psn)
near_half = st.integers(-PSN_HALF, PSN_HALF - 1)


@pytest.mark.parametrize(
    ("newer", "older", "distance"),
    [
        (5, 3, 2),
        (3, 5, -2),
        (0, 0xFFFFFF, 1),
        (0xFFFFFF, 0, -1),
        (0x000010, 0xFFFFF0, 32),
        (0x7FFFFF, 0, 0x7FFFFF),
        (0x800000, 0, -0x800000),
        (0, 0x800000, -0x800000),
    ],
)
def test_distance_goes_the_short_way_round(newer: int, older: int, distance: int) -> None:
    assert psn_distance(Psn(newer), Psn(older)) == distance


@given(psns, near_half)
def test_distance_undoes_addition(psn: Psn, packets: int) -> None:
    assert psn_distance(psn_add(psn, packets), psn) == packets


@given(psns, psns)
def test_addition_undoes_distance(newer: Psn, older: Psn) -> None:
    assert psn_add(older, psn_distance(newer, older)) == newer


@given(psns, st.integers(1, PSN_HALF - 1))
def test_exactly_one_of_two_psns_is_before_the_other(psn: Psn, packets: int) -> None:
    later = psn_add(psn, packets)
    assert psn_is_before(psn, later)
    assert not psn_is_before(later, psn)
    assert not psn_is_before(psn, psn)


@given(psns, st.integers(1, PSN_HALF // 2), st.integers(1, PSN_HALF // 2 - 1))
def test_order_is_transitive_within_half_the_circle(psn: Psn, first: int, second: int) -> None:
    middle = psn_add(psn, first)
    assert psn_is_before(psn, psn_add(middle, second))


@given(st.integers(0, 2**40), near_half)
def test_expanding_finds_the_counter_again(reference: int, offset: int) -> None:
    counter = reference + offset
    assert psn_expand(reference, wire_psn(counter)) == counter


def test_a_responder_that_has_nothing_reports_the_psn_before_the_first() -> None:
    assert psn_expand(0, Psn(0xFFFFFF)) == -1
