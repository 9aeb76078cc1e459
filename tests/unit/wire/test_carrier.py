"""uSID carriers in 64-bit words: packing, and the shift that every uN performs."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.carrier import (
    USIDS_MAX,
    CarrierWords,
    active_usid,
    carrier_address,
    carrier_words,
    has_argument,
    pack_usids,
    shift_words,
    unpack_usids,
)
from reference.layout import WireError

blocks = st.integers(0, 2**32 - 1)
usid_lists = st.lists(st.integers(1, 0xFFFF), max_size=USIDS_MAX)


def test_walk_of_one_packet() -> None:
    hops = []
    words = carrier_words(IPv6Address("fcbb:0:4000:8001:4002:c003::"))
    while has_argument(words):
        hops.append(active_usid(words))
        words = shift_words(words)
    assert hops == [0x4000, 0x8001, 0x4002]
    assert carrier_address(words) == IPv6Address("fcbb:0:c003::")


def test_shift_of_a_full_carrier_moves_bits_between_the_words() -> None:
    full = CarrierWords(0xFCBB0000_0001_0002, 0x0003_0004_0005_0006)
    assert shift_words(full) == CarrierWords(0xFCBB0000_0002_0003, 0x0004_0005_0006_0000)


@given(blocks, usid_lists)
def test_carrier_gives_its_usids_back(block: int, usids: list[int]) -> None:
    carrier = pack_usids(block, usids)
    assert unpack_usids(carrier) == tuple(usids)
    assert int(carrier) >> 96 == block


@given(blocks, usid_lists.filter(bool))
def test_shift_consumes_exactly_the_active_usid(block: int, usids: list[int]) -> None:
    words = carrier_words(pack_usids(block, usids))
    assert active_usid(words) == usids[0]
    assert has_argument(words) is (len(usids) > 1)
    assert carrier_address(shift_words(words)) == pack_usids(block, usids[1:])


@given(st.integers(0, 2**128 - 1))
def test_shift_in_words_is_the_shift_of_the_whole_argument(value: int) -> None:
    shifted = carrier_address(shift_words(carrier_words(IPv6Address(value))))
    block = value >> 96 << 96
    assert int(shifted) == block | value << 16 & (1 << 96) - 1


@pytest.mark.parametrize(
    ("block", "usids", "message"),
    [
        (0, [1] * 7, "7 uSIDs do not fit one carrier, which holds 6"),
        (1 << 32, [1], "block 0x100000000 is not 32 bits"),
        (0, [0], "uSID 0x0 is not 1 to 0xffff"),
        (0, [0x10000], "uSID 0x10000 is not 1 to 0xffff"),
    ],
)
def test_carrier_that_cannot_be_is_refused(block: int, usids: list[int], message: str) -> None:
    with pytest.raises(WireError, match=message):
        pack_usids(block, usids)
