"""RoCEv2 packets of a reliable connection, from the BTH to the pad: what rocev2 and its kin send.

    BTH 12   RETH 16   [ImmDt 4]   payload      FIRST or ONLY of a message
    BTH 12   [ImmDt 4]   payload                MIDDLE and LAST: they go on where the one before ended
    BTH 12   AETH 4                             ACK, NAK
    BTH 12   AETH 4   12 reserved               CNP; it acknowledges too, unlike RoCEv2's own

Source: InfiniBand Architecture Specification 1.4, volume 1, chapter 9 and annex A17;
docs/explanation/transports.md.
"""

from enum import IntEnum
from typing import TypeAlias

from reference.layout import Header, HeaderSequence, WireError, pad_bytes, without_pad
from reference.transport_header import P_KEY_DEFAULT, Aeth, ImmDt, Reth


class RcOpcode(IntEnum):
    """BTH byte 0; the top three bits are 000 for a reliable connection, 100 for a CNP."""

    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMMEDIATE = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMMEDIATE = 0x0B
    ACKNOWLEDGE = 0x11
    CNP = 0x81

    @property
    def is_write(self) -> bool:
        """Return True if the packet carries data and so consumes a PSN."""
        return self <= RcOpcode.WRITE_ONLY_IMMEDIATE

    @property
    def has_reth(self) -> bool:
        """Return True if the packet begins a message."""
        return self in {RcOpcode.WRITE_FIRST, RcOpcode.WRITE_ONLY, RcOpcode.WRITE_ONLY_IMMEDIATE}

    @property
    def has_immediate(self) -> bool:
        return self in {RcOpcode.WRITE_LAST_IMMEDIATE, RcOpcode.WRITE_ONLY_IMMEDIATE}

    @property
    def ends_message(self) -> bool:
        """Return True if the packet is the last of its message."""
        return self.is_write and self not in {RcOpcode.WRITE_FIRST, RcOpcode.WRITE_MIDDLE}


class RcBth(
    Header,
    layout="opcode:8 solicited_event:flag migration_request:flag pad_bytes:2 version:4 p_key:16"
    " fecn:flag becn:flag _:6 destination_qpn:24 wants_ack:flag _:7 psn:24",
):
    opcode: RcOpcode
    destination_qpn: int
    psn: int = 0  # the packet's own, the last one received in order, or (NAK) the one waited for
    solicited_event: bool = False
    migration_request: bool = False
    pad_bytes: int = 0
    version: int = 0
    p_key: int = P_KEY_DEFAULT
    fecn: bool = False
    becn: bool = False
    wants_ack: bool = False


class RcWrite(HeaderSequence):
    """A data packet."""

    bth: RcBth
    reth: Reth | None
    immediate: ImmDt | None
    payload: bytes

    def encode(self) -> bytes:
        return HeaderSequence.encode(self) + self.payload + bytes(self.bth.pad_bytes)


class RcAcknowledge(HeaderSequence):
    """An ACK, or a NAK."""

    bth: RcBth
    aeth: Aeth


class _Reserved(Header, layout="_:96"):
    """The end of a CNP."""


class Cnp(HeaderSequence):
    """A congestion notification, which acknowledges as well."""

    bth: RcBth
    aeth: Aeth
    reserved: _Reserved = _Reserved()


RcPacket: TypeAlias = RcWrite | RcAcknowledge | Cnp


def make_rc_write(
    opcode: RcOpcode,
    destination_qpn: int,
    psn: int,
    payload: bytes,
    *,
    reth: Reth | None = None,
    immediate: ImmDt | None = None,
) -> RcWrite:
    """The data packet of these parts, which asks for its ACK as all do."""
    bth = RcBth(opcode, destination_qpn, psn, pad_bytes=pad_bytes(len(payload)), wants_ack=True)
    return RcWrite(bth, reth, immediate, payload)


def decode_rc_packet(octets: bytes) -> RcPacket:
    """The packet in *octets*: all bytes from the BTH to the pad, without the iCRC."""
    bth, rest = RcBth.take(octets)
    packet: RcPacket
    if bth.opcode.is_write:
        reth, rest = Reth.take(rest) if bth.opcode.has_reth else (None, rest)
        immediate, rest = ImmDt.take(rest) if bth.opcode.has_immediate else (None, rest)
        packet = RcWrite(bth, reth, immediate, without_pad(rest, bth.pad_bytes))
    else:
        kind = Cnp if bth.opcode is RcOpcode.CNP else RcAcknowledge
        packet = kind(bth, Aeth.decode(rest))
    if bth.version or packet.encode() != octets:
        raise WireError(f"{octets.hex()} is no {bth.opcode.name}")
    return packet
