"""MRC packets from the BTH to the pad: one class per group of opcodes, each the headers it consists of.

`decode_packet` is the inverse of `encode`; what lies outside (Ethernet, IPv6, UDP, iCRC) is
reference.frame's.

Source: docs/reference/protocol.md, "Opcodes".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias, TypeVar

from reference.endpoint_header import Eeth, Erth
from reference.layout import Header, WireError
from reference.link_probe_header import Lph
from reference.opcode import Opcode
from reference.rc_packet import RcPacket, decode_rc_packet, is_rc_packet
from reference.reliability_header import CcState, Neth, Peth, Seth
from reference.transport_header import Aeth, Bth, ImmDt, Meth, Reth, Tseth

TRANSPORT_VERSION: Final = 0

_PAD_UNIT: Final = 4

AnyHeader = TypeVar("AnyHeader", bound=Header)


@dataclass(frozen=True, slots=True)
class Write:
    """A data packet. `make_write` fills in the BTH bits that follow from the rest."""

    bth: Bth
    meth: Meth
    tseth: Tseth | None
    reth: Reth
    immediate: ImmDt | None
    payload: bytes

    @property
    def headers(self) -> tuple[Header, ...]:
        """The headers present, in wire order."""
        optional = (self.bth, self.meth, self.tseth, self.reth, self.immediate)
        return tuple(header for header in optional if header is not None)

    def encode(self) -> bytes:
        """Headers, payload and pad.

        Raises:
            WireError: a value does not fit, or the BTH contradicts the rest.
        """
        bth = self.bth
        if (bth.has_timestamp, bth.opcode.has_immediate) != (
            self.tseth is not None,
            self.immediate is not None,
        ):
            raise WireError(f"BTH of {bth.opcode.name} contradicts the headers that follow it")
        if bth.pad_bytes != pad_bytes(len(self.payload)):
            raise WireError(f"pad of {bth.pad_bytes} for a payload of {len(self.payload)} bytes")
        headers = b"".join(header.encode() for header in self.headers)
        return headers + self.payload + bytes(bth.pad_bytes)


@dataclass(frozen=True, slots=True)
class TrimmedWrite:
    """A trimmed data packet: headers up to RETH at most, and the length it had.

    Args:
        bth: as it was sent.
        meth: as it was sent.
        tseth: as it was sent.
        reth: None when the switch kept less.
        untrimmed_bytes: from the BTH to the pad, before trimming.
    """

    bth: Bth
    meth: Meth
    tseth: Tseth | None
    reth: Reth | None
    untrimmed_bytes: int

    def encode(self) -> bytes:
        """The headers that are left."""
        left = (self.bth, self.meth, self.tseth, self.reth)
        return b"".join(header.encode() for header in left if header is not None)


@dataclass(frozen=True, slots=True)
class _ControlPacket:
    """A packet that is a fixed sequence of headers: the attributes of the subclass, in wire order."""

    bth: Bth

    OPCODE: ClassVar[Opcode]

    @property
    def headers(self) -> tuple[Header, ...]:
        """The headers in wire order."""
        return tuple(getattr(self, name) for name in self.__match_args__)

    def encode(self) -> bytes:
        """The headers' bytes.

        Raises:
            WireError: a value does not fit, or the BTH has another opcode.
        """
        if self.bth.opcode is not self.OPCODE:
            raise WireError(f"BTH of {self.bth.opcode.name} in front of {self.OPCODE.name} headers")
        return b"".join(header.encode() for header in self.headers)


@dataclass(frozen=True, slots=True)
class Acknowledge(_ControlPacket):
    """Transport acknowledge or refusal of messages."""

    aeth: Aeth

    OPCODE: ClassVar = Opcode.ACKNOWLEDGE


@dataclass(frozen=True, slots=True)
class Sack(_ControlPacket):
    """Selective acknowledgement of packets."""

    seth: Seth
    cc_state: CcState

    OPCODE: ClassVar = Opcode.SACK


@dataclass(frozen=True, slots=True)
class Nack(_ControlPacket):
    """Refusal of one packet."""

    neth: Neth

    OPCODE: ClassVar = Opcode.NACK


@dataclass(frozen=True, slots=True)
class Probe(_ControlPacket):
    """Reliability probe: asks for a SACK."""

    peth: Peth

    OPCODE: ClassVar = Opcode.PROBE


@dataclass(frozen=True, slots=True)
class EndpointRequest(_ControlPacket):
    """EV probe or port status update."""

    erth: Erth

    OPCODE: ClassVar = Opcode.ENDPOINT_REQUEST


@dataclass(frozen=True, slots=True)
class EndpointResponse(_ControlPacket):
    """Answer to an endpoint request."""

    eeth: Eeth

    OPCODE: ClassVar = Opcode.ENDPOINT_RESPONSE


@dataclass(frozen=True, slots=True)
class LinkProbe(_ControlPacket):
    """A host's probe of its own links."""

    lph: Lph

    OPCODE: ClassVar = Opcode.LINK_PROBE


Packet: TypeAlias = (
    Write
    | TrimmedWrite
    | Acknowledge
    | Sack
    | Nack
    | Probe
    | EndpointRequest
    | EndpointResponse
    | LinkProbe
    | RcPacket
)


def pad_bytes(payload_bytes: int) -> int:
    """Bytes between a payload of that length and the iCRC, 0 to 3."""
    return -payload_bytes % _PAD_UNIT


def make_write(
    opcode: Opcode,
    destination_qpn: int,
    psn: int,
    meth: Meth,
    reth: Reth,
    payload: bytes,
    *,
    tseth: Tseth | None = None,
    immediate: ImmDt | None = None,
    wants_ack: bool = False,
    is_retransmission: bool = False,
) -> Write:
    """The data packet of these parts, with pad and timestamp bit set as they require."""
    bth = Bth(
        opcode,
        destination_qpn,
        psn,
        pad_bytes=pad_bytes(len(payload)),
        wants_ack=wants_ack,
        is_retransmission=is_retransmission,
        has_timestamp=tseth is not None,
    )
    return Write(bth, meth, tseth, reth, immediate, payload)


class _Cursor:
    """The bytes of a packet that have not been read yet."""

    def __init__(self, octets: bytes) -> None:
        self.rest = octets

    def take(self, header: type[AnyHeader]) -> AnyHeader:
        """The next header; the cursor moves past it."""
        taken = header.decode(self.rest)
        self.rest = self.rest[header.LAYOUT.size_bytes :]
        return taken

    def take_optional(self, header: type[AnyHeader], *, is_present: bool) -> AnyHeader | None:
        """The next header if the BTH announces it."""
        return self.take(header) if is_present else None


def decode_packet(octets: bytes) -> Packet:
    """The packet in *octets*, of MRC or a reliable connection: all from the BTH to the pad, without the iCRC.

    Raises:
        WireError: an unknown opcode or version, too few bytes, bytes left over, or a wrong pad.
    """
    if is_rc_packet(octets):
        return decode_rc_packet(octets)
    cursor = _Cursor(octets)
    bth = _take_bth(cursor)
    if bth.opcode.is_write:
        return _decode_write(bth, cursor)
    packet = _decode_control(bth, cursor)
    if cursor.rest:
        raise WireError(f"{len(cursor.rest)} bytes too many in {bth.opcode.name}")
    return packet


def decode_trimmed(octets: bytes, untrimmed_bytes: int) -> TrimmedWrite:
    """The packet of which a switch left *octets*.

    Args:
        octets: from the BTH on; payload that survived the cut is ignored.
        untrimmed_bytes: from the BTH to the pad, before trimming.

    Raises:
        WireError: not a data packet, or cut before the end of TSETH.
    """
    cursor = _Cursor(octets)
    bth = _take_bth(cursor)
    if not bth.opcode.is_write:
        raise WireError(f"{bth.opcode.name} is never trimmed")
    meth = cursor.take(Meth)
    tseth = cursor.take_optional(Tseth, is_present=bth.has_timestamp)
    has_reth = len(cursor.rest) >= Reth.LAYOUT.size_bytes
    return TrimmedWrite(bth, meth, tseth, cursor.take_optional(Reth, is_present=has_reth), untrimmed_bytes)


def _take_bth(cursor: _Cursor) -> Bth:
    bth = cursor.take(Bth)
    if bth.version != TRANSPORT_VERSION:
        raise WireError(f"transport version {bth.version} where {TRANSPORT_VERSION} is expected")
    return bth


def _decode_write(bth: Bth, cursor: _Cursor) -> Write:
    meth = cursor.take(Meth)
    tseth = cursor.take_optional(Tseth, is_present=bth.has_timestamp)
    reth = cursor.take(Reth)
    immediate = cursor.take_optional(ImmDt, is_present=bth.opcode.has_immediate)
    payload_bytes = len(cursor.rest) - bth.pad_bytes
    if payload_bytes < 0 or bth.pad_bytes != pad_bytes(payload_bytes):
        raise WireError(f"pad of {bth.pad_bytes} in {len(cursor.rest)} bytes of payload and pad")
    return Write(bth, meth, tseth, reth, immediate, cursor.rest[:payload_bytes])


_CONTROL_PACKETS: Final[Mapping[Opcode, tuple[Callable[..., Packet], tuple[type[Header], ...]]]] = {
    Opcode.ACKNOWLEDGE: (Acknowledge, (Aeth,)),
    Opcode.SACK: (Sack, (Seth, CcState)),
    Opcode.NACK: (Nack, (Neth,)),
    Opcode.PROBE: (Probe, (Peth,)),
    Opcode.ENDPOINT_REQUEST: (EndpointRequest, (Erth,)),
    Opcode.ENDPOINT_RESPONSE: (EndpointResponse, (Eeth,)),
    Opcode.LINK_PROBE: (LinkProbe, (Lph,)),
}


def _decode_control(bth: Bth, cursor: _Cursor) -> Packet:
    packet, headers = _CONTROL_PACKETS[bth.opcode]
    return packet(bth, *(cursor.take(header) for header in headers))
