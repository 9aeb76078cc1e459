"""MRC packets from the BTH to the pad: one class per group of opcodes, each the headers it consists of.

`decode_packet` is the inverse of `encode`; what lies outside (Ethernet, IPv6, UDP, iCRC) is
reference.frame's.

Source: docs/reference/protocol.md, "Opcodes".
"""

from typing import Final, TypeAlias

from reference.endpoint_header import Eeth, Erth
from reference.layout import HeaderSequence, WireError, pad_bytes, without_pad
from reference.link_probe_header import Lph
from reference.opcode import Opcode
from reference.rc_packet import RcOpcode, RcPacket, decode_rc_packet
from reference.reliability_header import CcState, Neth, OwnCcState, Peth, Seth
from reference.transport_header import Aeth, Bth, ImmDt, Meth, Reth, Tseth


class Write(HeaderSequence):
    """A data packet. `make_write` fills in the BTH bits that follow from the rest."""

    bth: Bth
    meth: Meth
    tseth: Tseth | None
    reth: Reth
    immediate: ImmDt | None
    payload: bytes

    def encode(self) -> bytes:
        return HeaderSequence.encode(self) + self.payload + bytes(self.bth.pad_bytes)


class ControlPacket(HeaderSequence):
    bth: Bth


class Acknowledge(ControlPacket):
    """Transport acknowledge or refusal of messages."""

    aeth: Aeth


class Sack(ControlPacket):
    seth: Seth
    cc_state: CcState


class Nack(ControlPacket):
    neth: Neth


class Probe(ControlPacket):
    peth: Peth


class EndpointRequest(ControlPacket):
    erth: Erth


class EndpointResponse(ControlPacket):
    eeth: Eeth


class LinkProbe(ControlPacket):
    lph: Lph


Packet: TypeAlias = Write | ControlPacket | RcPacket

_CONTROL_PACKETS: Final = (Acknowledge, Sack, Nack, Probe, EndpointRequest, EndpointResponse, LinkProbe)
_CLASSES: Final = {kind.__name__.upper(): kind for kind in _CONTROL_PACKETS}


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


def decode_packet(octets: bytes) -> Packet:
    """The packet in *octets*, of MRC or a reliable connection: all from the BTH to the pad, without the iCRC.

    Raises:
        WireError: an unknown opcode or version, too few bytes, bytes left over, or a wrong pad.
    """
    if octets and octets[0] in set(RcOpcode):
        return decode_rc_packet(octets)
    bth, rest = Bth.take(octets)
    if bth.version:
        raise WireError(f"transport version {bth.version} where 0 is expected")
    if bth.opcode.is_write:
        meth, rest = Meth.take(rest)
        tseth, rest = Tseth.take(rest) if bth.has_timestamp else (None, rest)
        reth, rest = Reth.take(rest)
        immediate, rest = ImmDt.take(rest) if bth.opcode.has_immediate else (None, rest)
        return Write(bth, meth, tseth, reth, immediate, without_pad(rest, bth.pad_bytes))
    kind = _CLASSES[bth.opcode.name.replace("_", "")]
    headers = []
    for header_class in kind.__annotations__.values():
        header, rest = header_class.take(rest)
        headers.append(header)
    if rest:
        raise WireError(f"{len(rest)} bytes too many in {bth.opcode.name}")
    if isinstance(headers[0], Seth) and headers[0].cc_type:
        headers[-1] = OwnCcState.decode(octets[-OwnCcState.LAYOUT.size_bytes :])
    return kind(bth, *headers)
