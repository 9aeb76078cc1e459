"""The invariant CRC: what stays the same on the whole way is covered, what switches may change is not.

    8 bytes of ones | inner IPv6 | UDP | BTH | ... payload | pad       CRC-32 of Ethernet, sent low byte first

with ones in place of traffic class, flow label, hop limit, UDP checksum and byte 4 of the BTH. The outer
header is not covered. The eight leading bytes stand for the InfiniBand route header that RoCEv2 does not
have. By default a lab sends zeros, "off": looking at every byte of a payload costs a NIC in BPF dearly.

Source: docs/reference/protocol.md, "iCRC"; InfiniBand architecture, annex A17 (RoCEv2).
"""

import zlib
from typing import Final

ICRC_BYTES: Final = 4
ICRC_OFF: Final = bytes(ICRC_BYTES)

_ONES: Final = bytes.fromhex("0fffffff 000000ff") + bytes(38) + b"\xff\xff" + bytes(4) + b"\xff"
"""Bits that count as ones, from the start of the inner IPv6 header."""


def icrc(covered: bytes) -> bytes:
    """The four bytes that follow *covered*, which begins with the inner IPv6 header, on the wire."""
    ones = int.from_bytes(_ONES.ljust(len(covered), b"\0"))
    masked = (int.from_bytes(covered) | ones).to_bytes(len(covered))
    return zlib.crc32(masked, zlib.crc32(b"\xff" * 8)).to_bytes(ICRC_BYTES, "little")
