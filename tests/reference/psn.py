"""Arithmetic on the PSN circle: 24-bit serial numbers on the wire, free-running counters inside.

    0 ........ older ----> newer ........ 2^24 - 1 -> 0        distance(newer, older) = steps along the arrow

Of two PSNs the newer is the one less than half the circle ahead. A QP never has more than its PSN range
outstanding, far below half the circle, so the comparison is never ambiguous in a working connection.

Source: docs/reference/protocol.md, "PSN arithmetic"; the rule of RFC 1982 serial numbers.
"""

from typing import Final, NewType

Psn = NewType("Psn", int)
"""A PSN as it travels: 0 <= psn < PSN_COUNT."""

PSN_BITS: Final = 24
PSN_COUNT: Final = 1 << PSN_BITS
PSN_HALF: Final = PSN_COUNT // 2


def wire_psn(counter: int) -> Psn:
    """The PSN that a free-running *counter* (any integer) has on the wire."""
    return Psn(counter % PSN_COUNT)


def psn_add(psn: Psn, packets: int) -> Psn:
    """The PSN *packets* after *psn*; before it when negative."""
    return Psn((psn + packets) % PSN_COUNT)


def psn_distance(newer: Psn, older: Psn) -> int:
    """Signed number of packets from *older* to *newer*, in [-PSN_HALF, PSN_HALF)."""
    return (newer - older + PSN_HALF) % PSN_COUNT - PSN_HALF


def psn_expand(reference: int, psn: Psn) -> int:
    """The free-running counter nearest to *reference* that is *psn* on the wire.

    Args:
        reference: a counter of the same QP, at most half the circle away.
        psn: as received.

    Returns:
        A counter; negative for a PSN before the QP's first packet, such as the cack_psn of a responder that
        has received nothing.
    """
    return reference + psn_distance(psn, wire_psn(reference))
