"""The headers of RDMA WRITE packets and of the transport acknowledge, as InfiniBand names them.

    BTH 12   METH 4   [TSETH 4]   RETH 16   [ImmDt 4]   payload      a data packet
    BTH 12   AETH 4                                                  its message's acknowledge

Source: docs/reference/protocol.md, "BTH", "METH", "TSETH", "RETH", "ImmDt", "AETH".
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

from reference.layout import Header, Layout
from reference.opcode import Opcode

P_KEY_DEFAULT: Final = 0xFFFF
ENDPOINT_QPN: Final = 2
"""Destination QP of endpoint requests and responses."""

NO_CREDIT_CONTROL: Final = 0x1F
"""AETH credit field of an ACK: MRC does not use credits."""


@dataclass(frozen=True, slots=True)
class Bth(Header):
    """Base transport header, 12 bytes.

    Args:
        opcode: what follows.
        destination_qpn: 24 bits; ENDPOINT_QPN for endpoint operations.
        psn: 24 bits, by opcode: the packet's own (WRITE), the last one completed (Acknowledge), the
            cumulative acknowledgement (SACK), the one refused (NACK), 0 (Probe), the request id (endpoint).
        solicited_event: IBTA's SE bit.
        migration_request: IBTA's M bit; MRC gives it no meaning.
        pad_bytes: 0 to 3 bytes between payload and iCRC.
        version: of the transport, 0.
        p_key: partition.
        wants_ack: asks for a SACK now.
        is_retransmission: this packet, or in a SACK the packet that caused it, was sent before.
        has_timestamp: TSETH follows METH.
    """

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

    LAYOUT: ClassVar = Layout(
        "opcode:8 solicited_event:flag migration_request:flag pad_bytes:2 version:4 p_key:16"
        " _:8 destination_qpn:24"
        " wants_ack:flag _:1 is_retransmission:flag has_timestamp:flag _:4 psn:24",
        opcode=Opcode,
    )


@dataclass(frozen=True, slots=True)
class Meth(Header):
    """Message header, 4 bytes; the same in every packet of a message.

    Args:
        rqmsn: messages up to this one that consume a receive (WRITE with immediate), modulo 2^16.
        msn: number of the message, from 0, modulo 2^16.
    """

    rqmsn: int
    msn: int

    LAYOUT: ClassVar = Layout("rqmsn:16 msn:16")


class FormatType(IntEnum):
    """The type of the two time fields of a header."""

    NONE = 0
    TIMESTAMP = 1


@dataclass(frozen=True, slots=True)
class Tseth(Header):
    """Timestamp header, 4 bytes; the responder reflects it and never interprets it.

    Args:
        tx_timestamp: the requester's clock when the packet left, modulo 2^16.
        is_coarse: the unit is the deployment's; else 128 ns.
        format_type: FormatType.TIMESTAMP.
    """

    tx_timestamp: int
    is_coarse: bool = False
    format_type: int = FormatType.TIMESTAMP

    LAYOUT: ClassVar = Layout("tx_timestamp:16 is_coarse:flag _:11 format_type:4")


@dataclass(frozen=True, slots=True)
class Reth(Header):
    """RDMA header, 16 bytes; in every data packet, so that each can be placed on its own.

    Args:
        va: address of this packet's payload.
        r_key: key of the region written.
        message_bytes: length of the whole message.
    """

    va: int
    r_key: int
    message_bytes: int

    LAYOUT: ClassVar = Layout("va:64 r_key:32 message_bytes:32")


@dataclass(frozen=True, slots=True)
class ImmDt(Header):
    """Immediate value, 4 bytes, opaque."""

    immediate: int

    LAYOUT: ClassVar = Layout("immediate:32")


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


@dataclass(frozen=True, slots=True)
class Aeth(Header):
    """Transport acknowledge, 4 bytes: about messages, in order, unlike a SACK.

    Args:
        kind: ACK or NAK.
        value: NO_CREDIT_CONTROL on an ACK, a NakCode on a NAK.
        msn: number of messages completed, modulo 2^24: those with a lower Meth.msn are, and a NAK refuses the
            next one. Compare the low 16 bits.
    """

    kind: AckKind
    value: int
    msn: int

    LAYOUT: ClassVar = Layout("_:1 kind:2 value:5 msn:24", kind=AckKind)

    @classmethod
    def ack(cls, msn: int) -> "Aeth":
        """Acknowledge that the first *msn* messages are complete."""
        return cls(AckKind.ACK, NO_CREDIT_CONTROL, msn)

    @classmethod
    def nak(cls, code: NakCode, msn: int) -> "Aeth":
        """Refusal of message number *msn*, which ends the QP; those before it are complete."""
        return cls(AckKind.NAK, code, msn)
