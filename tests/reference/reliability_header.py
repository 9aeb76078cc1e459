"""The headers of packet reliability: SACK, NACK and the probe that asks for a SACK.

    BTH 12   SETH 28   CC_STATE 8        SACK
    BTH 12   NETH 20                     NACK
    BTH 12   PETH 16                     Probe

Source: docs/reference/protocol.md, "SETH", "CC_STATE", "NETH", "PETH".
"""

from enum import IntEnum

from reference.layout import Header
from reference.transport_header import FormatType


class PathAdvice(IntEnum):
    """The responder's advice about the EV that a SACK reflects."""

    NONE = 0
    SKIP_ONCE = 1
    ALWAYS_SKIP = 2
    RESERVED = 3


class Seth(
    Header,
    layout="_:9 advice:2 _:3 is_probe_response:flag _:1 ack_psn_offset:s16 entropy:32"
    " source_qpn_low:16 destination_qpn_low:16 ports_down:8 cack_psn:24"
    " cc_type:4 cc_flags:4 mpr:8 sack_offset:s16 sack_bitmap:64",
):
    cack_psn: int
    entropy: int
    sack_bitmap: int = 0
    sack_offset: int = 1
    ack_psn_offset: int = 0
    advice: PathAdvice = PathAdvice.NONE
    is_probe_response: bool = False
    source_qpn_low: int = 0
    destination_qpn_low: int = 0
    cc_type: int = 0  # CcState follows, else OwnCcState
    cc_flags: int = 0
    mpr: int = 0
    ports_down: int = 0


class CcState(
    Header,
    layout="tx_timestamp:16 _:1 out_of_order_count:15 restores_cwnd:flag cwnd_penalty:7 received_units:24",
):
    """CC_STATE of NSCC, cc_type 0."""

    tx_timestamp: int
    out_of_order_count: int = 0
    restores_cwnd: bool = False
    cwnd_penalty: int = 0
    received_units: int = 0


class OwnCcState(CcState, layout="tx_timestamp:16 word:24 received_units:24"):
    """CC_STATE of any other cc_type, with a word that only its algorithm knows."""

    word: int = 0


class NackReason(IntEnum):
    """Why a packet was refused. Any other value is to be treated like UNEXPECTED_EVENT, and counted."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PACKET_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OUT_OF_WINDOW = 0x0B
    UNEXPECTED_EVENT = 0x19


class Neth(
    Header,
    layout="_:16 reason:8 vendor_info:8 entropy:32 source_qpn_low:16 destination_qpn_low:16"
    " _:8 nack_psn:24 cc_type:4 cc_flags:4 _:8 tx_timestamp:16",
):
    reason: int  # a NackReason, or a code this implementation does not know
    nack_psn: int
    entropy: int
    tx_timestamp: int
    vendor_info: int = 0
    source_qpn_low: int = 0
    destination_qpn_low: int = 0
    cc_type: int = 2
    cc_flags: int = 0


class Peth(
    Header,
    layout="_:24 vendor_info:8 probe_id:16 _:16 source_qpn_low:16 destination_qpn_low:16"
    " tx_timestamp:16 is_coarse:flag _:11 format_type:4",
):
    probe_id: int
    tx_timestamp: int
    vendor_info: int = 0
    source_qpn_low: int = 0
    destination_qpn_low: int = 0
    is_coarse: bool = False
    format_type: int = FormatType.TIMESTAMP
