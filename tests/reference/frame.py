"""Whole frames: an MRC packet in UDP in IPv6, in a second IPv6 header that carries the path, in Ethernet.

    Ethernet 14 | outer IPv6 40 | inner IPv6 40 | UDP 8 | BTH 12 | ... | payload | pad 0-3 | iCRC 4

A WRITE with timestamp adds METH 4, TSETH 4 and RETH 16: 138 bytes in front of the payload, 142 with the iCRC.

Source: docs/reference/protocol.md, "Packet stack", "Trimming".
"""

from dataclasses import replace
from ipaddress import IPv6Address
from typing import Final

from mrc_testbed.topology.ev import ev_flow_label, ev_source_port
from reference.icrc import ICRC_BYTES, ICRC_OFF, icrc
from reference.layout import Frozen, Header, WireError
from reference.network_header import ETHERTYPE_IPV6, MRC_UDP_PORT, NEXT_IPV6, NEXT_UDP, Ethernet, Ipv6, Udp
from reference.packet import Packet, Write, decode_packet
from reference.rc_packet import RcAcknowledge, RcWrite
from reference.traffic_class import Dscp, Ecn, TrafficClass, decode_traffic_class
from reference.transport_header import Bth, ImmDt, Meth, Reth, Tseth

RC_DSCP: Final = 26
"""Class of data and acknowledgements of a reliable connection: queued with data, never trimmed."""

_IPV6_AT: Final = Ethernet.LAYOUT.size_bytes
_IPV6_BYTES: Final = Ipv6.LAYOUT.size_bytes


class Frame(Frozen):
    """One frame, lengths left out: they follow from the packet."""

    ethernet: Ethernet  # of the link the frame is on
    outer: Ipv6 | None  # its destination is the uSID carrier; None outside the SRv6 tunnel
    inner: Ipv6  # from port to port; its flow label is the upper half of the EV
    source_port: int  # UDP, the lower half of the EV
    destination_port: int
    packet: Packet

    @property
    def ev(self) -> int:
        """The EV for the responder to reflect; the top four bits of the flow label do not count."""
        return (self.inner.flow_label & 0xFFFF) << 16 | self.source_port

    @property
    def traffic_class(self) -> TrafficClass:
        """The class the frame travels with: that of its outermost IP header."""
        return decode_traffic_class((self.outer or self.inner).traffic_class)


class Route(Frozen):
    """Where a packet goes and on which path: all that `build_frame` needs besides the packet."""

    source_mac: int
    destination_mac: int
    source: IPv6Address  # of the sending NIC port, and of the tunnel
    destination: IPv6Address  # of the receiving NIC port
    carrier: IPv6Address | None  # uSIDs of the path; None to send outside the tunnel
    ev: int


def traffic_class_of(packet: Packet) -> TrafficClass:
    """The class a NIC sends *packet* with: data is trimmable and ECT(0), all else is control and not ECT.

    Of a reliable connection data and acknowledgements share a class that is not trimmed.
    """
    if isinstance(packet, RcWrite | RcAcknowledge):
        return TrafficClass(RC_DSCP, Ecn.ECT0)
    if not isinstance(packet, Write):
        return TrafficClass(Dscp.CONTROL, Ecn.NOT_ECT)
    is_retransmission = packet.bth.is_retransmission
    return TrafficClass(Dscp.TRIMMABLE_RETX if is_retransmission else Dscp.TRIMMABLE, Ecn.ECT0)


def build_frame(route: Route, packet: Packet) -> Frame:
    """The frame as it leaves a NIC on *route*, both IP headers of one traffic class."""
    octet = traffic_class_of(packet).octet
    inner = Ipv6(route.source, route.destination, octet, ev_flow_label(route.ev))
    outer = None if route.carrier is None else replace(inner, destination=route.carrier)
    ethernet = Ethernet(route.destination_mac, route.source_mac)
    return Frame(ethernet, outer, inner, ev_source_port(route.ev), MRC_UDP_PORT, packet)


def encode_frame(frame: Frame, *, with_icrc: bool = False) -> bytes:
    """The bytes of *frame*, with zeros for the iCRC unless it is asked for."""
    packet = frame.packet.encode()
    length = Udp.LAYOUT.size_bytes + len(packet) + ICRC_BYTES
    udp = Udp(frame.source_port, frame.destination_port, length)
    covered = (
        replace(frame.inner, payload_bytes=length, next_header=NEXT_UDP).encode() + udp.encode() + packet
    )
    octets = covered + (icrc(covered) if with_icrc else ICRC_OFF)
    if frame.outer is not None:
        octets = replace(frame.outer, payload_bytes=len(octets), next_header=NEXT_IPV6).encode() + octets
    return frame.ethernet.encode() + octets


def decode_frame(octets: bytes, *, checks_icrc: bool = False) -> Frame:
    """The frame in *octets*, a whole one without a frame check sequence, inside or outside the tunnel.

    A lab that sends the iCRC "off" cannot ask for its check.

    Raises:
        WireError: not an MRC frame, a trimmed one, or a malformed one. Nothing else is ever raised.
    """
    ethernet, rest = Ethernet.take(octets)
    if ethernet.ethertype != ETHERTYPE_IPV6:
        raise WireError(f"ethertype {ethernet.ethertype:#06x} is not IPv6")
    outer, (inner, body) = None, _take_ipv6(rest)
    if decode_traffic_class(inner.traffic_class).dscp in {Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP}:
        raise WireError("the frame was trimmed")
    if inner.next_header == NEXT_IPV6:
        outer, rest = inner, body
        inner, body = _take_ipv6(rest)
    if inner.next_header != NEXT_UDP:
        raise WireError(f"next header {inner.next_header} where UDP is expected")
    udp, body = Udp.take(body)
    if udp.destination_port != MRC_UDP_PORT:
        raise WireError(f"UDP port {udp.destination_port} is not MRC")
    if udp.length != inner.payload_bytes or len(body) < ICRC_BYTES:
        raise WireError(f"UDP length {udp.length} in {inner.payload_bytes} bytes of IPv6 payload")
    if checks_icrc and icrc(rest[:-ICRC_BYTES]) != rest[-ICRC_BYTES:]:
        raise WireError("wrong iCRC")
    packet = decode_packet(body[:-ICRC_BYTES])
    return Frame(ethernet, outer, inner, udp.source_port, udp.destination_port, packet)


def _take_ipv6(octets: bytes) -> tuple[Ipv6, bytes]:
    header, rest = Ipv6.take(octets)
    if header.version != 6:
        raise WireError(f"IP version {header.version} where 6 is expected")
    if header.payload_bytes != len(rest):
        raise WireError(f"{len(rest)} bytes follow an IPv6 header that announces {header.payload_bytes}")
    return header, rest


def trimmed_bytes(octets: bytes) -> int:
    """Length of what a switch keeps of the data frame *octets*: up to RETH, or the immediate behind it.

    Raises:
        WireError: the frame ends within the BTH, or its opcode is unknown.
    """
    outermost = Ipv6.decode(octets[_IPV6_AT:])
    bth_at = _IPV6_AT + (2 if outermost.next_header == NEXT_IPV6 else 1) * _IPV6_BYTES + Udp.LAYOUT.size_bytes
    bth = Bth.decode(octets[bth_at:])
    headers: list[type[Header]] = [Bth, Meth, Reth]
    headers += [Tseth] * bth.has_timestamp + [ImmDt] * bth.opcode.has_immediate
    return bth_at + sum(header.LAYOUT.size_bytes for header in headers)


def trim_frame(octets: bytes, *, is_last_hop: bool, kept_bytes: int | None = None) -> bytes:
    """The frame that a switch forwards of the data frame *octets* instead of dropping it.

    It is cut, by default to `trimmed_bytes`, and the DSCP of its outermost IP header rewritten; ECN and all
    lengths stay, so that the receiver knows what was lost.
    """
    header = Ipv6.decode(octets[_IPV6_AT:])
    dscp = Dscp.TRIMMED_LASTHOP if is_last_hop else Dscp.TRIMMED
    traffic_class = TrafficClass(dscp, header.traffic_class & 3)
    rewritten = replace(header, traffic_class=traffic_class.octet).encode()
    end = kept_bytes or trimmed_bytes(octets)
    return octets[:_IPV6_AT] + rewritten + octets[_IPV6_AT + _IPV6_BYTES : end]
