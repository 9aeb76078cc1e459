"""The 16-bit clock that a requester writes into TSETH, PETH and ERTH and gets back.

    unit       fine, 128 ns     coarse, 8192 ns (ours; the bit only says "the deployment's")
    wraps at   8.39 ms          537 ms

An echo is good for elapsed times below one turn. A lab with slow ports has round trips of several
milliseconds and needs the coarse unit, or must remember send times itself.

Source: docs/reference/protocol.md, "TSETH".
"""

from typing import Final

FINE_UNIT_NS: Final = 128
COARSE_UNIT_NS: Final = 8192

_TIMESTAMP_COUNT: Final = 1 << 16


def unit_ns(*, is_coarse: bool) -> int:
    """Nanoseconds per unit."""
    return COARSE_UNIT_NS if is_coarse else FINE_UNIT_NS


def wire_timestamp(now_ns: int, *, is_coarse: bool = False) -> int:
    """The field for a packet that leaves at *now_ns* of the sender's monotonic clock."""
    return now_ns // unit_ns(is_coarse=is_coarse) % _TIMESTAMP_COUNT


def elapsed_ns(tx_timestamp: int, now_ns: int, *, is_coarse: bool = False) -> int:
    """Nanoseconds since the packet with *tx_timestamp* left, short of one unit, if that is below one turn."""
    unit = unit_ns(is_coarse=is_coarse)
    return (now_ns // unit - tx_timestamp) % _TIMESTAMP_COUNT * unit
