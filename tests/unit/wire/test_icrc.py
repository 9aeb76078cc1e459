"""The invariant CRC covers what must not change, and nothing that may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.frame import decode_frame, encode_frame
from reference.icrc import icrc
from reference.layout import WireError

GOLDEN = bytes.fromhex(
    "000000000001000000000002 86dd"
    "61201002 0038 11 40 fd6d7263000000010000000000000001 fd6d7263000000010000000000000006"
    "abcd12b700380000 ca30ffff000001231000abcd 00020007 12340001 0000000000001000deadbeef00000005"
    "68656c6c6f000000 d145c767"
)
"""A RoCEv2-style frame whose last four bytes scapy's RoCE layer computes alike."""

MAY_CHANGE = {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF, 52: 0xFF}
"""Bits switches may change, by offset from the IPv6 header."""


def test_icrc_agrees_with_another_implementation() -> None:
    frame = decode_frame(GOLDEN, checks_icrc=True)
    assert encode_frame(frame, with_icrc=True) == GOLDEN


@given(st.integers(0, len(GOLDEN) - 19), st.integers(0, 7))
def test_every_bit_is_covered_but_those_that_may_change(offset: int, bit: int) -> None:
    covered = bytearray(GOLDEN[14:-4])
    covered[offset] ^= 1 << bit
    is_free = bool(MAY_CHANGE.get(offset, 0) >> bit & 1)
    assert (icrc(bytes(covered)) == GOLDEN[-4:]) is is_free


def test_wrong_icrc_is_refused_only_when_asked_for() -> None:
    off = GOLDEN[:-4] + bytes(4)
    assert decode_frame(off) == decode_frame(GOLDEN)
    with pytest.raises(WireError, match="wrong iCRC"):
        decode_frame(off, checks_icrc=True)


def test_icrc_needs_all_headers_it_masks() -> None:
    with pytest.raises(WireError, match="59 bytes are less than IPv6, UDP and BTH"):
        icrc(bytes(59))
