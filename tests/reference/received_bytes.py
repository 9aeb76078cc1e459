"""The running count of bytes received that CC_STATE carries: what NSCC takes in-flight bytes from.

Trimmed packets and duplicates do not count.

Source: docs/reference/protocol.md, "CC_STATE"; Ultra Ethernet 1.0 section 3.6.13.
"""

from typing import Final

_UNIT_SHIFT: Final = 8
_COUNTER_COUNT: Final = 1 << 24


def received_units(received_bytes: int) -> int:
    """The 24-bit field for a total of *received_bytes*: units of 256 bytes, rounded up, modulo 2^24."""
    return (received_bytes + (1 << _UNIT_SHIFT) - 1 >> _UNIT_SHIFT) % _COUNTER_COUNT


def newly_received_bytes(newer_units: int, older_units: int) -> int | None:
    """Bytes received between two SACKs, by their fields; None when *newer_units* is in truth the older one.

    The sum over many SACKs is exact to one unit; a single difference may be off by up to 255 bytes.
    """
    difference = (newer_units - older_units) % _COUNTER_COUNT
    return None if difference >= _COUNTER_COUNT // 2 else difference << _UNIT_SHIFT
