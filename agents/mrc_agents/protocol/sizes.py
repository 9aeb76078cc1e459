"""Bytes that packets count for congestion control: nominal ones, UDP length + 40 per packet.

Both ends count the same whatever encapsulation a packet had.

Source: docs/reference/protocol.md, "CC_STATE"; Ultra Ethernet 1.0 section 3.6.13.
"""

from typing import Final

NOMINAL_OVERHEAD_BYTES: Final = 40

ROUNDING_MAX_BYTES: Final = 255
"""By how much CC_STATE may report more than was received."""

_WRITE_UDP_BYTES: Final = 8 + 12 + 4 + 4 + 16 + 4
"""UDP, BTH, METH, TSETH, RETH, iCRC."""

_IMMEDIATE_BYTES: Final = 4


def nominal_bytes(udp_bytes: int) -> int:
    """Bytes that a packet counts for congestion control, from its UDP length (header included)."""
    return udp_bytes + NOMINAL_OVERHEAD_BYTES


def write_nominal_bytes(payload_bytes: int, *, has_immediate: bool = False) -> int:
    """Bytes that a data packet with a timestamp counts for."""
    padded_bytes = payload_bytes + -payload_bytes % 4
    return nominal_bytes(_WRITE_UDP_BYTES + padded_bytes + (_IMMEDIATE_BYTES if has_immediate else 0))
