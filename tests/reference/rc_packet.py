"""RoCEv2 packets of a reliable connection, from the BTH to the pad: what rocev2 and its kin send.

    BTH 12   RETH 16   [ImmDt 4]   payload      FIRST or ONLY of a message
    BTH 12   [ImmDt 4]   payload                MIDDLE and LAST: they go on where the one before ended
    BTH 12   AETH 4                             ACK, NAK
    BTH 12   AETH 4   12 reserved               CNP; it acknowledges too, unlike RoCEv2's own

Source: InfiniBand Architecture Specification 1.4, volume 1, chapter 9 and annex A17;
docs/explanation/transports.md.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, TypeAlias

from reference.layout import Header, Layout, WireError
from reference.transport_header import P_KEY_DEFAULT, Aeth, ImmDt, Reth

RC_DSCP: Final = 26
"""Class of data and acknowledgements: queued with data, never trimmed."""

_CNP_RESERVED_BYTES: Final = 12
_PAD_UNIT: Final = 4


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


@dataclass(frozen=True, slots=True)
class RcBth(Header):
    """Base transport header, 12 bytes, as RoCEv2 has it.

    Args:
        opcode: what follows.
        destination_qpn: 24 bits.
        psn: 24 bits: the packet's own (WRITE), the last one received in order (ACK, CNP), the one that is
            waited for (NAK).
        pad_bytes: 0 to 3 bytes between payload and iCRC.
        becn: a congestion notification.
        wants_ack: always set in data.
    """

    opcode: RcOpcode
    destination_qpn: int
    psn: int = 0
    solicited_event: bool = False
    migration_request: bool = False
    pad_bytes: int = 0
    version: int = 0
    p_key: int = P_KEY_DEFAULT
    fecn: bool = False
    becn: bool = False
    wants_ack: bool = False

    LAYOUT: ClassVar = Layout(
        "opcode:8 solicited_event:flag migration_request:flag pad_bytes:2 version:4 p_key:16"
        " fecn:flag becn:flag _:6 destination_qpn:24 wants_ack:flag _:7 psn:24",
        opcode=RcOpcode,
    )


@dataclass(frozen=True, slots=True)
class RcWrite:
    """A data packet."""

    bth: RcBth
    reth: Reth | None
    immediate: ImmDt | None
    payload: bytes

    def encode(self) -> bytes:
        """Headers, payload and pad.

        Raises:
            WireError: a value does not fit, or the BTH contradicts the rest.
        """
        opcode = self.bth.opcode
        if (opcode.has_reth, opcode.has_immediate) != (self.reth is not None, self.immediate is not None):
            raise WireError(f"BTH of {opcode.name} contradicts the headers that follow it")
        headers = (self.bth, self.reth, self.immediate)
        encoded = b"".join(header.encode() for header in headers if header is not None)
        return encoded + self.payload + bytes(self.bth.pad_bytes)


@dataclass(frozen=True, slots=True)
class RcAcknowledge:
    """An ACK, or a NAK."""

    bth: RcBth
    aeth: Aeth

    def encode(self) -> bytes:
        return self.bth.encode() + self.aeth.encode()


@dataclass(frozen=True, slots=True)
class Cnp:
    """A congestion notification, which acknowledges as well."""

    bth: RcBth
    aeth: Aeth

    def encode(self) -> bytes:
        return self.bth.encode() + self.aeth.encode() + bytes(_CNP_RESERVED_BYTES)


RcPacket: TypeAlias = RcWrite | RcAcknowledge | Cnp


def is_rc_packet(octets: bytes) -> bool:
    """Return True if *octets*, from the BTH on, begin with an opcode of a reliable connection."""
    return bool(octets) and octets[0] in RcOpcode._value2member_map_


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
    bth = RcBth(opcode, destination_qpn, psn, pad_bytes=-len(payload) % _PAD_UNIT, wants_ack=True)
    return RcWrite(bth, reth, immediate, payload)


def decode_rc_packet(octets: bytes) -> RcPacket:
    """The packet in *octets*: all bytes from the BTH to the pad, without the iCRC.

    Raises:
        WireError: too few bytes, bytes left over, another version, or a wrong pad.
    """
    bth, rest = RcBth.decode(octets), octets[RcBth.LAYOUT.size_bytes :]
    if bth.version:
        raise WireError(f"transport version {bth.version} where 0 is expected")
    if not bth.opcode.is_write:
        reserved = _CNP_RESERVED_BYTES if bth.opcode is RcOpcode.CNP else 0
        if len(rest) != Aeth.LAYOUT.size_bytes + reserved:
            raise WireError(f"{len(rest)} bytes follow the BTH of {bth.opcode.name}")
        aeth = Aeth.decode(rest)
        return Cnp(bth, aeth) if reserved else RcAcknowledge(bth, aeth)
    reth = immediate = None
    if bth.opcode.has_reth:
        reth, rest = Reth.decode(rest), rest[Reth.LAYOUT.size_bytes :]
    if bth.opcode.has_immediate:
        immediate, rest = ImmDt.decode(rest), rest[ImmDt.LAYOUT.size_bytes :]
    payload_bytes = len(rest) - bth.pad_bytes
    if payload_bytes < 0 or bth.pad_bytes != -payload_bytes % _PAD_UNIT:
        raise WireError(f"pad of {bth.pad_bytes} in {len(rest)} bytes of payload and pad")
    return RcWrite(bth, reth, immediate, rest[:payload_bytes])
