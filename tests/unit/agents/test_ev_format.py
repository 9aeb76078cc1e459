"""EV formats: fields expanded and generated."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.nic.ev_format import (
    EV_BITS,
    USUAL_WIDTHS,
    EvField,
    check_fields,
    check_widths,
    expand_body,
    generate_bodies,
    parse_fields,
)
from mrc_testbed.errors import UsageError

WIDTHS = (12, 8, 8)


def spread(value: int, mask: int) -> int:
    """The low bits of *value* at the places of *mask*, in their order."""
    result, place = 0, 0
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            result |= (value >> place & 1) << bit
            place += 1
    return result


@pytest.mark.parametrize(
    ("field", "value", "bits"),
    [
        (EvField(12), 0, 0),
        (EvField(12, init_val=0x800, mask=0xFF, max=255), 0x5A, 0x85A),
        (EvField(8, init_val=0xFF, mask=0x81, max=3), 0b10, 0xFE),
        (EvField(8, mask=0b10101010, max=15), 0b1011, 0b10001010),
        (EvField(4, init_val=0b0110), 0, 0b0110),
    ],
)
def test_varying_bits_go_to_the_places_of_the_mask(field: EvField, value: int, bits: int) -> None:
    assert field.expand(value) == bits


@given(st.integers(1, EV_BITS), st.data())
def test_expansion_keeps_what_is_fixed_and_loses_nothing_that_varies(width: int, data: st.DataObject) -> None:
    whole = (1 << width) - 1
    mask = data.draw(st.integers(0, whole))
    fixed = data.draw(st.integers(0, whole))
    value = data.draw(st.integers(0, (1 << mask.bit_count()) - 1))
    bits = EvField(width, fixed, 0, value, mask).expand(value)
    assert bits & ~mask == fixed & ~mask
    assert bits & mask == spread(value, mask)


def test_fields_stand_side_by_side_the_first_one_highest() -> None:
    fields = (EvField(12, mask=0xFFF, max=0xFFF), EvField(8, 7), EvField(8, mask=0xF, max=15))
    assert expand_body(fields, WIDTHS, (0x123, 0, 9)) == 0x123 << 16 | 7 << 8 | 9


def test_a_narrow_field_and_one_left_out_leave_zeros() -> None:
    assert expand_body((EvField(4, 0xF),), WIDTHS, (0,)) == 0xF << 16


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_generated_bodies_differ_and_stay_in_range(seed: int, count: int) -> None:
    fields = (EvField(12, mask=0xFF, min=10, max=14), EvField(8, 3), EvField(8, mask=0xF0, max=11))
    bodies = list(generate_bodies(fields, WIDTHS, count, Random(seed)))
    assert len(set(bodies)) == count
    for body in bodies:
        assert 10 <= body >> 16 <= 14
        assert body >> 8 & 0xFF == 3
        assert body >> 4 & 0xF <= 11
        assert body & 0xF == 0


def test_too_few_different_ones() -> None:
    with pytest.raises(
        UsageError, match="count: the fields allow 4 different EVs in a plane, 5 are asked for"
    ):
        list(generate_bodies((EvField(12, mask=3, max=3),), WIDTHS, 5, Random(0)))


@pytest.mark.parametrize("mode", USUAL_WIDTHS)
def test_the_usual_fields_of_each_mode_make_a_format(mode: str) -> None:
    check_widths(USUAL_WIDTHS[mode])


@pytest.mark.parametrize(
    ("widths", "complaint"),
    [
        ((), r"fields: 0 of them; 1 to 8 are accepted"),
        ((1,) * 9, r"fields: 9 of them; 1 to 8 are accepted"),
        ((0, 28), r"fields\[0\]: 0 bits; 1 to 32 is accepted"),
        ((28, 5), r"fields: 33 bits together; up to 32 are accepted"),
    ],
)
def test_widths_that_make_no_format(widths: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_widths(widths)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ({"width": 13}, r"fields\[0\]\.width: 13; 1 to 12 is accepted"),
        ({"width": 0}, r"fields\[0\]\.width: 0; 1 to 12 is accepted"),
        ({"width": 4, "init_val": 16}, r"fields\[0\]\.init_val: 16; 0 to 15 is accepted"),
        ({"width": 4, "mask": 16}, r"fields\[0\]\.mask: 16; 0 to 15 is accepted"),
        ({"width": 4, "mask": 5, "max": 4}, r"fields\[0\]\.max: 4; 0 to 3 is accepted"),
        ({"width": 4, "mask": 5, "max": 2, "min": 3}, r"fields\[0\]\.min: 3; 0 to 2 is accepted"),
        ({"width": 4, "wide": 1}, r"fields\[0\]: no attribute wide; known: init_val, mask, max, min, width"),
        ({}, r"fields\[0\]\.width: missing; 1 to 32 is accepted"),
    ],
)
def test_a_field_that_does_not_fit_is_named(field: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_fields(parse_fields([field]), WIDTHS)


def test_more_fields_than_the_format_has() -> None:
    with pytest.raises(UsageError, match="fields: 4 of them; 1 to 3, as the format has, are accepted"):
        check_fields((EvField(1),) * 4, WIDTHS)
