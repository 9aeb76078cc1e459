"""The SACK bitmap: how a responder builds it, what a requester may read from it.

    cack_psn                base = cack_psn + sack_offset
       |                    |
    ...5  6  7  8  9 ...   bit 0, bit 1, ... bit 63 = base + 63        1: received    0: nothing is said

PSNs 0-4, 6, 7, 9, 10 and 11 received: cack_psn 4, sack_offset 1, so bit 0 is PSN 5 and the bitmap
0b111_0110 = 0x76. The usual base is cack_psn + 1; when the newest PSN received lies beyond bit 63, the
bitmap slides up to end there.

Source: docs/reference/protocol.md, "SACK bitmap".
"""

from collections.abc import Container, Iterator
from typing import Final

from reference.psn import Psn, psn_add, psn_distance
from reference.reliability_header import Seth

BITMAP_BITS: Final = 64
LOW_BASE_OFFSET: Final = 1
"""The base right above the cumulative acknowledgement."""


def high_base_offset(cack_psn: Psn, newest_psn: Psn) -> int:
    """The sack_offset whose bitmap ends at *newest_psn*; LOW_BASE_OFFSET when that already reaches it."""
    return max(LOW_BASE_OFFSET, psn_distance(newest_psn, cack_psn) - (BITMAP_BITS - 1))


def build_bitmap(cack_psn: Psn, received_above: Container[Psn], sack_offset: int = LOW_BASE_OFFSET) -> int:
    """The 64 bits that report on the PSNs from cack_psn + *sack_offset* on.

    Args:
        cack_psn: everything up to it has been received, so a base below it finds ones there.
        received_above: PSNs received out of order.
        sack_offset: of bit 0 from cack_psn.
    """
    bitmap = 0
    for bit in range(BITMAP_BITS):
        above = sack_offset + bit
        if above <= 0 or psn_add(cack_psn, above) in received_above:
            bitmap |= 1 << bit
    return bitmap


def caused_by_psn(seth: Seth) -> Psn | None:
    """The PSN whose arrival caused the SACK; None for the answer to a probe."""
    return None if seth.is_probe_response else psn_add(Psn(seth.cack_psn), seth.ack_psn_offset)


def acknowledged_psns(seth: Seth) -> Iterator[Psn]:
    """The PSNs that the bitmap reports as received, in order.

    Those up to cack_psn are received as well, whether the bitmap reaches down to them or not.
    """
    base = psn_add(Psn(seth.cack_psn), seth.sack_offset)
    for bit in range(BITMAP_BITS):
        if seth.sack_bitmap >> bit & 1:
            yield psn_add(base, bit)


def unreported_psns(seth: Seth) -> Iterator[Psn]:
    """The PSNs above cack_psn that the bitmap leaves open below the newest one it reports, in order.

    They are candidates for loss, not lost: a clear bit is no information.
    """
    cack_psn = Psn(seth.cack_psn)
    newest_bit = seth.sack_bitmap.bit_length() - 1
    for bit in range(newest_bit):
        above = seth.sack_offset + bit
        if above > 0 and not seth.sack_bitmap >> bit & 1:
            yield psn_add(cack_psn, above)
