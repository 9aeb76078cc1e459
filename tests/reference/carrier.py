"""uSID carriers in F3216 format as the data plane handles them: two 64-bit words, shifted by 16 bits per hop.

    hi:  block 32 | uSID 0 16 | uSID 1 16         lo:  uSID 2 | uSID 3 | uSID 4 | uSID 5

    shift:  fcbb:0000 4000 8001 | 4002 c003 0000 0000
         -> fcbb:0000 8001 4002 | c003 0000 0000 0000

uSID 0 is the active one. What the 16 bits of a uSID mean in this fabric is for mrc_testbed.topology to say;
the shift does not care.

Source: docs/reference/protocol.md, "uSIDs"; RFC 9800 section 4.1.1 (End with NEXT-CSID), block 32, node 16,
argument 80 bits.
"""

from ipaddress import IPv6Address
from typing import Final, NamedTuple

_WORD_MASK: Final = (1 << 64) - 1
_BLOCK_MASK: Final = 0xFFFF_FFFF_0000_0000


class CarrierWords(NamedTuple):
    """The two halves of a destination address, host order."""

    hi: int
    lo: int


def carrier_words(carrier: IPv6Address) -> CarrierWords:
    """*carrier* as the data plane loads it."""
    value = int(carrier)
    return CarrierWords(value >> 64, value & _WORD_MASK)


def carrier_address(words: CarrierWords) -> IPv6Address:
    """Inverse of `carrier_words`."""
    return IPv6Address(words.hi << 64 | words.lo)


def has_argument(words: CarrierWords) -> bool:
    """Return True if anything follows the active uSID: without it a uN has nowhere to send the packet."""
    return bool(words.hi & 0xFFFF or words.lo)


def shift_words(words: CarrierWords) -> CarrierWords:
    """The carrier with its active uSID consumed, zeros moved in at the end."""
    return CarrierWords(
        words.hi & _BLOCK_MASK | words.hi << 16 & 0xFFFF_0000 | words.lo >> 48,
        words.lo << 16 & _WORD_MASK,
    )
