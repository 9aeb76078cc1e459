"""The invariant CRC: what stays the same on the whole way is covered, what switches may change is not.

    8 bytes of ones | inner IPv6 | UDP | BTH | ... payload | pad       CRC-32 of Ethernet, sent low byte first

with ones in place of traffic class, flow label, hop limit, UDP checksum and byte 4 of the BTH. The outer
header is not covered. The eight leading bytes stand for the InfiniBand route header that RoCEv2 does not
have.

A trimmed packet cannot carry a valid one: it is recognised by its DSCP before the iCRC is looked at. By
default a lab sends zeros, "off": looking at every byte of a payload costs a NIC in BPF dearly.

Source: docs/reference/protocol.md, "iCRC"; InfiniBand architecture, annex A17 (RoCEv2).
"""

import zlib
from typing import Final

from reference.layout import WireError

ICRC_BYTES: Final = 4
ICRC_OFF: Final = bytes(ICRC_BYTES)

_ROUTE_HEADER_STAND_IN: Final = b"\xff" * 8

_MASKS: Final = {
    0: 0x0F,  # traffic class, upper half
    1: 0xFF,  # traffic class, lower half; flow label
    2: 0xFF,
    3: 0xFF,
    7: 0xFF,  # hop limit
    46: 0xFF,  # UDP checksum
    47: 0xFF,
    52: 0xFF,  # BTH reserved byte
}
"""Bits that count as ones, by offset from the start of the inner IPv6 header."""


def icrc(covered: bytes) -> bytes:
    """The four bytes that follow *covered* on the wire.

    Args:
        covered: from the first byte of the inner IPv6 header to the last of payload and pad.

    Raises:
        WireError: *covered* ends before the BTH does.
    """
    if len(covered) < 60:
        raise WireError(f"{len(covered)} bytes are less than IPv6, UDP and BTH")
    masked = bytearray(covered)
    for offset, ones in _MASKS.items():
        masked[offset] |= ones
    return zlib.crc32(masked, zlib.crc32(_ROUTE_HEADER_STAND_IN)).to_bytes(ICRC_BYTES, "little")
