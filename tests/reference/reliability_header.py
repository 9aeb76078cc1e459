"""The headers of packet reliability: SACK, NACK and the probe that asks for a SACK.

    BTH 12   SETH 28   CC_STATE 8        SACK
    BTH 12   NETH 20                     NACK
    BTH 12   PETH 16                     Probe

Source: docs/reference/protocol.md, "SETH", "CC_STATE", "NETH", "PETH".
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

from reference.layout import Header, Layout
from reference.transport_header import FormatType

CC_TYPE_NSCC: Final = 0
"""SETH.cc_type when CC_STATE of NSCC follows."""

CC_TYPE_NACK: Final = 2
"""NETH.cc_type."""


class PathAdvice(IntEnum):
    """The responder's advice about the EV that a SACK reflects."""

    NONE = 0
    SKIP_ONCE = 1
    ALWAYS_SKIP = 2
    RESERVED = 3


@dataclass(frozen=True, slots=True)
class Seth(Header):
    """Selective acknowledgement, 28 bytes; CC_STATE always follows.

    Args:
        cack_psn: every PSN up to this one has been received.
        entropy: EV of the packet that caused the SACK, reflected.
        sack_bitmap: 64 bits; bit i set: PSN cack_psn + sack_offset + i has been received. A clear bit says
            nothing.
        sack_offset: from cack_psn to the PSN of bit 0.
        ack_psn_offset: from cack_psn to the PSN whose arrival caused the SACK; in the answer to a probe its
            id, read as signed.
        advice: about `entropy`.
        is_probe_response: a Probe caused the SACK.
        source_qpn_low: low 16 bits of the sender's QPN, informational.
        destination_qpn_low: low 16 bits of the receiver's QPN, informational.
        cc_type: CC_TYPE_NSCC.
        cc_flags: 0.
        mpr: new maximum PSN range in units of 128 PSNs; 0: no change.
        ports_down: bit i: the sender's port to plane i does not work; of planes 0 to 7.
    """

    cack_psn: int
    entropy: int
    sack_bitmap: int = 0
    sack_offset: int = 1
    ack_psn_offset: int = 0
    advice: PathAdvice = PathAdvice.NONE
    is_probe_response: bool = False
    source_qpn_low: int = 0
    destination_qpn_low: int = 0
    cc_type: int = CC_TYPE_NSCC
    cc_flags: int = 0
    mpr: int = 0
    ports_down: int = 0

    LAYOUT: ClassVar = Layout(
        "_:9 advice:2 _:3 is_probe_response:flag _:1 ack_psn_offset:s16 entropy:32"
        " source_qpn_low:16 destination_qpn_low:16 ports_down:8 cack_psn:24"
        " cc_type:4 cc_flags:4 mpr:8 sack_offset:s16 sack_bitmap:64",
        advice=PathAdvice,
    )


@dataclass(frozen=True, slots=True)
class CcState(Header):
    """Congestion state that goes with every SACK, 8 bytes.

    Args:
        tx_timestamp: reflected from TSETH or PETH.
        out_of_order_count: packets received above the cumulative point, 15 bits.
        restores_cwnd: end of a receiver penalty.
        cwnd_penalty: receiver penalty in units of 1/128 of the newly received bytes, 7 bits.
        received_units: nominal bytes received, in units of 256, rounded up, modulo 2^24.
    """

    tx_timestamp: int
    out_of_order_count: int = 0
    restores_cwnd: bool = False
    cwnd_penalty: int = 0
    received_units: int = 0

    LAYOUT: ClassVar = Layout(
        "tx_timestamp:16 _:1 out_of_order_count:15 restores_cwnd:flag cwnd_penalty:7 received_units:24"
    )


class NackReason(IntEnum):
    """Why a packet was refused. Any other value is to be treated like UNEXPECTED_EVENT, and counted."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PACKET_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OUT_OF_WINDOW = 0x0B
    UNEXPECTED_EVENT = 0x19


@dataclass(frozen=True, slots=True)
class Neth(Header):
    """Negative acknowledgement of exactly one PSN, 20 bytes.

    Args:
        reason: a NackReason, or a code this implementation does not know.
        nack_psn: the PSN refused; BTH.psn says the same.
        entropy: EV of the packet refused.
        tx_timestamp: reflected.
        vendor_info: 0.
        source_qpn_low: low 16 bits of the sender's QPN, informational.
        destination_qpn_low: low 16 bits of the receiver's QPN, informational.
        cc_type: CC_TYPE_NACK.
        cc_flags: 0.
    """

    reason: int
    nack_psn: int
    entropy: int
    tx_timestamp: int
    vendor_info: int = 0
    source_qpn_low: int = 0
    destination_qpn_low: int = 0
    cc_type: int = CC_TYPE_NACK
    cc_flags: int = 0

    LAYOUT: ClassVar = Layout(
        "_:16 reason:8 vendor_info:8 entropy:32 source_qpn_low:16 destination_qpn_low:16"
        " _:8 nack_psn:24 cc_type:4 cc_flags:4 _:8 tx_timestamp:16"
    )


@dataclass(frozen=True, slots=True)
class Peth(Header):
    """Reliability probe, 16 bytes; it consumes no PSN.

    Args:
        probe_id: comes back in Seth.ack_psn_offset.
        tx_timestamp: the requester's clock, modulo 2^16.
        vendor_info: 0.
        source_qpn_low: low 16 bits of the sender's QPN, informational.
        destination_qpn_low: low 16 bits of the receiver's QPN, informational.
        is_coarse: unit of the timestamp as in Tseth.
        format_type: FormatType.TIMESTAMP when the timestamp is valid.
    """

    probe_id: int
    tx_timestamp: int
    vendor_info: int = 0
    source_qpn_low: int = 0
    destination_qpn_low: int = 0
    is_coarse: bool = False
    format_type: int = FormatType.TIMESTAMP

    LAYOUT: ClassVar = Layout(
        "_:24 vendor_info:8 probe_id:16 _:16 source_qpn_low:16 destination_qpn_low:16"
        " tx_timestamp:16 is_coarse:flag _:11 format_type:4"
    )
