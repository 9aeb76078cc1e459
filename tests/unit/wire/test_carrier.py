"""uSID carriers in 64-bit words: the shift that every uN performs."""

from ipaddress import IPv6Address

from hypothesis import given
from hypothesis import strategies as st
from reference.carrier import (
    carrier_address,
    carrier_words,
    shift_words,
)


@given(st.integers(0, 2**128 - 1))
def test_shift_in_words_is_the_shift_of_the_whole_argument(value: int) -> None:
    shifted = carrier_address(shift_words(carrier_words(IPv6Address(value))))
    block = value >> 96 << 96
    assert int(shifted) == block | value << 16 & (1 << 96) - 1
