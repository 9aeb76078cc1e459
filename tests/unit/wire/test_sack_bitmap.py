"""The SACK as a responder builds it, and as a requester reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.psn import PSN_COUNT, Psn, psn_add, psn_distance
from reference.reliability_header import Seth
from reference.sack import (
    BITMAP_BITS,
    acknowledged_psns,
    build_bitmap,
    high_base_offset,
    unreported_psns,
)

psns = st.integers(0, PSN_COUNT - 1).map(Psn)


@pytest.mark.parametrize(("newest", "offset"), [(101, 1), (164, 1), (165, 2), (1000, 837)])
def test_bitmap_slides_up_only_when_the_newest_psn_is_out_of_reach(newest: int, offset: int) -> None:
    assert high_base_offset(Psn(100), Psn(newest)) == offset


@given(psns, st.sets(st.integers(2, 1024)), st.integers(-80, 1024))
def test_reader_finds_exactly_what_was_received_within_the_bitmap(
    cack_psn: Psn, above: set[int], sack_offset: int
) -> None:
    received = {psn_add(cack_psn, distance) for distance in above}
    bitmap = build_bitmap(cack_psn, received, sack_offset)
    seth = Seth(cack_psn, 0, bitmap, sack_offset)
    covered = range(sack_offset, sack_offset + BITMAP_BITS)
    expected = [psn_add(cack_psn, d) for d in covered if d <= 0 or d in above]
    assert list(acknowledged_psns(seth)) == expected


@given(psns, st.sets(st.integers(2, 1024), min_size=1))
def test_sliding_base_reports_the_newest_psn(cack_psn: Psn, above: set[int]) -> None:
    received = {psn_add(cack_psn, distance) for distance in above}
    newest = psn_add(cack_psn, max(above))
    sack_offset = high_base_offset(cack_psn, newest)
    seth = Seth(cack_psn, 0, build_bitmap(cack_psn, received, sack_offset), sack_offset)
    assert list(acknowledged_psns(seth))[-1] == newest


@given(psns, st.integers(0, 2**64 - 1), st.integers(-100, 1000))
def test_unreported_psns_lie_between_the_cumulative_and_the_newest_one(
    cack_psn: Psn, bitmap: int, sack_offset: int
) -> None:
    seth = Seth(cack_psn, 0, bitmap, sack_offset)
    reported = set(acknowledged_psns(seth))
    for psn in unreported_psns(seth):
        assert psn_distance(psn, cack_psn) > 0
        assert psn not in reported
        assert any(psn_distance(newer, psn) > 0 for newer in reported)
