"""The twelve opcodes, and one of our own.

Source: docs/reference/protocol.md, "Opcodes".
"""

from enum import IntEnum


class Opcode(IntEnum):
    """BTH byte 0; the top three bits 110 name the MRC transport class, which LINK_PROBE is not of."""

    WRITE_FIRST = 0xC6
    WRITE_MIDDLE = 0xC7
    WRITE_LAST = 0xC8
    WRITE_LAST_IMMEDIATE = 0xC9
    WRITE_ONLY = 0xCA
    WRITE_ONLY_IMMEDIATE = 0xCB
    ACKNOWLEDGE = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    SACK = 0xDC
    NACK = 0xDD
    PROBE = 0xDE
    LINK_PROBE = 0xE0

    @property
    def is_write(self) -> bool:
        """Return True if the packet carries data and so consumes a PSN."""
        return Opcode.WRITE_FIRST <= self <= Opcode.WRITE_ONLY_IMMEDIATE

    @property
    def has_immediate(self) -> bool:
        return self in {Opcode.WRITE_LAST_IMMEDIATE, Opcode.WRITE_ONLY_IMMEDIATE}
