"""Serial-number arithmetic on the 24-bit circle."""

from hypothesis import given
from hypothesis import strategies as st
from reference.psn import (
    PSN_COUNT,
    PSN_HALF,
    Psn,
    psn_add,
    psn_distance,
    psn_expand,
    wire_psn,
)

psns = st.integers(0, PSN_COUNT - 1).map(Psn)
near_half = st.integers(-PSN_HALF, PSN_HALF - 1)


@given(psns, near_half)
def test_distance_undoes_addition(psn: Psn, packets: int) -> None:
    assert psn_distance(psn_add(psn, packets), psn) == packets


@given(psns, psns)
def test_addition_undoes_distance(newer: Psn, older: Psn) -> None:
    assert psn_add(older, psn_distance(newer, older)) == newer


@given(st.integers(0, 2**40), near_half)
def test_expanding_finds_the_counter_again(reference: int, offset: int) -> None:
    counter = reference + offset
    assert psn_expand(reference, wire_psn(counter)) == counter
