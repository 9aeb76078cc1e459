"""The headers of RDMA WRITE packets and of the transport acknowledge, as InfiniBand names them.

    BTH 12   METH 4   [TSETH 4]   RETH 16   [ImmDt 4]   payload      a data packet
    BTH 12   AETH 4                                                  its message's acknowledge

Source: docs/reference/protocol.md, "BTH", "METH", "TSETH", "RETH", "ImmDt", "AETH".
"""

from enum import IntEnum
from typing import Final

from reference.layout import Header
from reference.opcode import Opcode

P_KEY_DEFAULT: Final = 0xFFFF
ENDPOINT_QPN: Final = 2
"""Destination QP of endpoint requests and responses."""

NO_CREDIT_CONTROL: Final = 0x1F
"""AETH credit field of an ACK: MRC does not use credits."""


class Bth(
    Header,
    layout="opcode:8 solicited_event:flag migration_request:flag pad_bytes:2 version:4 p_key:16"
    " _:8 destination_qpn:24"
    " wants_ack:flag _:1 is_retransmission:flag has_timestamp:flag _:4 psn:24",
):
    opcode: Opcode
    destination_qpn: int
    psn: int = 0
    solicited_event: bool = False
    migration_request: bool = False
    pad_bytes: int = 0
    version: int = 0
    p_key: int = P_KEY_DEFAULT
    wants_ack: bool = False
    is_retransmission: bool = False
    has_timestamp: bool = False


class Meth(Header, layout="rqmsn:16 msn:16"):
    rqmsn: int
    msn: int


class FormatType(IntEnum):
    """The type of the two time fields of a header."""

    NONE = 0
    TIMESTAMP = 1


class Tseth(Header, layout="tx_timestamp:16 is_coarse:flag _:11 format_type:4"):
    tx_timestamp: int
    is_coarse: bool = False
    format_type: int = FormatType.TIMESTAMP


class Reth(Header, layout="va:64 r_key:32 message_bytes:32"):
    va: int
    r_key: int
    message_bytes: int


class ImmDt(Header, layout="immediate:32"):
    immediate: int


class AckKind(IntEnum):
    """Bits 6:5 of the AETH syndrome."""

    ACK = 0
    RNR_NAK = 1
    RESERVED = 2
    NAK = 3


class NakCode(IntEnum):
    """Low bits of the AETH syndrome of a NAK, as in IBTA; PSN_SEQUENCE_ERROR does not occur in MRC."""

    PSN_SEQUENCE_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3


class Aeth(Header, layout="_:1 kind:2 value:5 msn:24"):
    kind: AckKind
    value: int
    msn: int

    @classmethod
    def ack(cls, msn: int) -> "Aeth":
        """Acknowledge that the first *msn* messages are complete."""
        return cls(AckKind.ACK, NO_CREDIT_CONTROL, msn)

    @classmethod
    def nak(cls, code: NakCode, msn: int) -> "Aeth":
        """Refusal of message number *msn*, which ends the QP; those before it are complete."""
        return cls(AckKind.NAK, code, msn)
