"""The running count of bytes received that CC_STATE carries: what NSCC takes in-flight bytes from.

Bytes are nominal, UDP length + 40 per packet, so that both ends count the same whatever encapsulation a
packet had; trimmed packets and duplicates do not count.

Source: docs/protocol.md, "CC_STATE"; Ultra Ethernet 1.0 section 3.6.13.
"""

from typing import Final

NOMINAL_OVERHEAD_BYTES: Final = 40

ROUNDING_MAX_BYTES: Final = 255
"""By how much CC_STATE may tell more than was received."""

_WRITE_UDP_BYTES: Final = 8 + 12 + 4 + 4 + 16 + 4
"""UDP, BTH, METH, TSETH, RETH, iCRC."""

_IMMEDIATE_BYTES: Final = 4

_UNIT_SHIFT: Final = 8
_COUNTER_COUNT: Final = 1 << 24


def nominal_bytes(udp_bytes: int) -> int:
    """Bytes that a packet counts for congestion control, from its UDP length (header included)."""
    return udp_bytes + NOMINAL_OVERHEAD_BYTES


def write_nominal_bytes(payload_bytes: int, *, has_immediate: bool = False) -> int:
    """Bytes that a data packet with a timestamp counts for."""
    padded_bytes = payload_bytes + -payload_bytes % 4
    return nominal_bytes(_WRITE_UDP_BYTES + padded_bytes + (_IMMEDIATE_BYTES if has_immediate else 0))


def received_units(received_bytes: int) -> int:
    """The 24-bit field for a total of *received_bytes*: units of 256 bytes, rounded up, modulo 2^24."""
    return (received_bytes + (1 << _UNIT_SHIFT) - 1 >> _UNIT_SHIFT) % _COUNTER_COUNT


def newly_received_bytes(newer_units: int, older_units: int) -> int | None:
    """Bytes received between two SACKs, by their fields; None when *newer_units* is in truth the older one.

    The sum over many SACKs is exact to one unit; a single difference may be off by up to 255 bytes.
    """
    difference = (newer_units - older_units) % _COUNTER_COUNT
    return None if difference >= _COUNTER_COUNT // 2 else difference << _UNIT_SHIFT
