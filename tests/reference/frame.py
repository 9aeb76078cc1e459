"""Whole frames: an MRC packet in UDP in IPv6, in a second IPv6 header that carries the path, in Ethernet.

    Ethernet 14 | outer IPv6 40 | inner IPv6 40 | UDP 8 | BTH 12 | ... | payload | pad 0-3 | iCRC 4

A WRITE with timestamp adds METH 4, TSETH 4 and RETH 16: 138 bytes in front of the payload, 142 with the iCRC.

Source: docs/reference/protocol.md, "Packet stack", "Trimming".
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from typing import Final

from mrc_testbed.topology.ev import ev_flow_label, ev_source_port
from reference.entropy_value import reflected_ev
from reference.icrc import ICRC_BYTES, ICRC_OFF, icrc
from reference.layout import Header, WireError
from reference.network_header import ETHERTYPE_IPV6, MRC_UDP_PORT, Ethernet, Ipv6, NextHeader, Udp
from reference.packet import Packet, TrimmedWrite, Write, decode_packet, decode_trimmed
from reference.rc_packet import RC_DSCP, RcAcknowledge, RcWrite
from reference.traffic_class import Dscp, Ecn, TrafficClass, decode_traffic_class
from reference.transport_header import Bth, ImmDt, Meth, Reth, Tseth

_ETHERNET_BYTES: Final = Ethernet.LAYOUT.size_bytes
_UDP_BYTES: Final = Udp.LAYOUT.size_bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, lengths left out: they follow from the packet.

    Args:
        ethernet: of the link the frame is on.
        outer: its destination is the uSID carrier; None outside the SRv6 tunnel.
        inner: from port to port; its flow label is the upper half of the EV.
        source_port: UDP, the lower half of the EV.
        destination_port: UDP.
        packet: BTH to pad.
    """

    ethernet: Ethernet
    outer: Ipv6 | None
    inner: Ipv6
    source_port: int
    destination_port: int
    packet: Packet

    @property
    def ev(self) -> int:
        """The EV the frame carries, for the responder to reflect."""
        return reflected_ev(self.source_port, self.inner.flow_label)

    @property
    def traffic_class(self) -> TrafficClass:
        """The class the frame travels with: that of its outermost IP header."""
        return decode_traffic_class((self.outer or self.inner).traffic_class)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a packet goes and on which path: all that `build_frame` needs besides the packet.

    Args:
        source_mac: of the sending port, 48 bits.
        destination_mac: of the next port.
        source: address of the sending NIC port; of the tunnel as well.
        destination: address of the receiving NIC port.
        carrier: uSIDs of the path; None to send outside the tunnel.
        ev: the path's name.
    """

    source_mac: int
    destination_mac: int
    source: IPv6Address
    destination: IPv6Address
    carrier: IPv6Address | None
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


def build_frame(route: Route, packet: Packet, traffic_class: TrafficClass | None = None) -> Frame:
    """The frame as it leaves a NIC on *route*, both IP headers of one *traffic_class*.

    Args:
        route: the path.
        packet: what is sent.
        traffic_class: `traffic_class_of` the packet by default.
    """
    octet = (traffic_class or traffic_class_of(packet)).octet
    inner = Ipv6(route.source, route.destination, octet, ev_flow_label(route.ev))
    outer = None if route.carrier is None else replace(inner, destination=route.carrier)
    ethernet = Ethernet(route.destination_mac, route.source_mac)
    return Frame(ethernet, outer, inner, ev_source_port(route.ev), MRC_UDP_PORT, packet)


def encode_frame(frame: Frame, *, with_icrc: bool = False) -> bytes:
    """The bytes of *frame*, with zeros for the iCRC unless it is asked for; a trimmed packet has none.

    Raises:
        WireError: a value does not fit its field, or the packet contradicts itself.
    """
    octets = frame.packet.encode()
    is_trimmed = isinstance(frame.packet, TrimmedWrite)
    packet_bytes = frame.packet.untrimmed_bytes if isinstance(frame.packet, TrimmedWrite) else len(octets)
    udp_bytes = _UDP_BYTES + packet_bytes + ICRC_BYTES
    udp = Udp(frame.source_port, frame.destination_port, udp_bytes).encode()
    covered = frame.inner.encode(udp_bytes, NextHeader.UDP) + udp + octets
    trailer = b"" if is_trimmed else icrc(covered) if with_icrc else ICRC_OFF
    outer = b""
    if frame.outer is not None:
        outer = frame.outer.encode(Ipv6.SIZE_BYTES + udp_bytes, NextHeader.IPV6)
    return frame.ethernet.encode() + outer + covered + trailer


def decode_frame(
    octets: bytes, *, udp_ports: Collection[int] = (MRC_UDP_PORT,), checks_icrc: bool = False
) -> Frame:
    """The frame in *octets*, inside or outside the tunnel.

    Args:
        octets: the whole frame, without a frame check sequence.
        udp_ports: destination ports that are MRC.
        checks_icrc: refuse a wrong iCRC; a lab that sends it "off" cannot ask for that.

    Raises:
        WireError: not an MRC frame, or a malformed one. Nothing else is ever raised.
    """
    ethernet = Ethernet.decode(octets)
    if ethernet.ethertype != ETHERTYPE_IPV6:
        raise WireError(f"ethertype {ethernet.ethertype:#06x} is not IPv6")
    rest = octets[_ETHERNET_BYTES:]
    outermost, contents = Ipv6.decode(rest)
    is_trimmed = decode_traffic_class(outermost.traffic_class).dscp in {Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP}
    left, claimed = len(rest) - Ipv6.SIZE_BYTES, contents.payload_bytes
    if left > claimed or (left < claimed and not is_trimmed):
        raise WireError(f"{left} bytes follow an IPv6 header that announces {claimed}")
    outer, inner = None, outermost
    if contents.next_header == NextHeader.IPV6:
        rest = rest[Ipv6.SIZE_BYTES :]
        outer = outermost
        inner, contents = Ipv6.decode(rest)
        if contents.payload_bytes != claimed - Ipv6.SIZE_BYTES:
            raise WireError(f"inner length {contents.payload_bytes} in an outer one of {claimed}")
    if contents.next_header != NextHeader.UDP:
        raise WireError(f"next header {contents.next_header} where UDP is expected")
    udp = Udp.decode(rest[Ipv6.SIZE_BYTES :])
    if udp.destination_port not in udp_ports:
        raise WireError(f"UDP port {udp.destination_port} is not MRC")
    if udp.length != contents.payload_bytes:
        raise WireError(f"UDP length {udp.length} in {contents.payload_bytes} bytes of IPv6 payload")
    body = rest[Ipv6.SIZE_BYTES + _UDP_BYTES :]
    packet_bytes = udp.length - _UDP_BYTES - ICRC_BYTES
    if packet_bytes < 0:
        raise WireError(f"UDP length {udp.length} leaves no room for the iCRC")
    packet: Packet
    if is_trimmed:
        packet = decode_trimmed(body[:packet_bytes], packet_bytes)
    else:
        if checks_icrc and icrc(rest[:-ICRC_BYTES]) != rest[-ICRC_BYTES:]:
            raise WireError("wrong iCRC")
        packet = decode_packet(body[:-ICRC_BYTES])
    return Frame(ethernet, outer, inner, udp.source_port, udp.destination_port, packet)


def trimmed_bytes(octets: bytes) -> int:
    """Length of what a switch keeps of the data frame *octets*: up to RETH, or the immediate behind it.

    Args:
        octets: a frame, inside or outside the tunnel; only headers are looked at.

    Raises:
        WireError: the frame ends within the BTH, or its opcode is unknown.
    """
    _, contents = Ipv6.decode(octets[_ETHERNET_BYTES:])
    is_tunnelled = contents.next_header == NextHeader.IPV6
    bth_at = _ETHERNET_BYTES + (2 if is_tunnelled else 1) * Ipv6.SIZE_BYTES + _UDP_BYTES
    bth = Bth.decode(octets[bth_at : bth_at + Bth.LAYOUT.size_bytes])
    headers: list[type[Header]] = [Bth, Meth, Reth]
    if bth.has_timestamp:
        headers.append(Tseth)
    if bth.opcode.has_immediate:
        headers.append(ImmDt)
    return bth_at + sum(header.LAYOUT.size_bytes for header in headers)


def trim_frame(octets: bytes, *, is_last_hop: bool, kept_bytes: int | None = None) -> bytes:
    """The frame that a switch forwards of the data frame *octets* instead of dropping it.

    The frame is cut to *kept_bytes* and the DSCP of its outermost IP header rewritten; ECN and all lengths
    stay, so that the receiver knows what was lost.

    Args:
        octets: a frame of a trimmable class.
        is_last_hop: the egress port leads to a NIC.
        kept_bytes: from the Ethernet header on; `trimmed_bytes` by default.

    Raises:
        WireError: not IPv6, not a data packet, or a class that is not to be trimmed.
    """
    if Ethernet.decode(octets).ethertype != ETHERTYPE_IPV6:
        raise WireError("only IPv6 frames are trimmed")
    header, contents = Ipv6.decode(octets[_ETHERNET_BYTES:])
    before = decode_traffic_class(header.traffic_class)
    if before.dscp not in {Dscp.TRIMMABLE, Dscp.TRIMMABLE_RETX}:
        raise WireError(f"DSCP {before.dscp} is not to be trimmed")
    after = TrafficClass(Dscp.TRIMMED_LASTHOP if is_last_hop else Dscp.TRIMMED, before.ecn)
    header = replace(header, traffic_class=after.octet)
    start = _ETHERNET_BYTES + Ipv6.SIZE_BYTES
    rewritten = header.encode(contents.payload_bytes, contents.next_header)
    end = trimmed_bytes(octets) if kept_bytes is None else kept_bytes
    return octets[:_ETHERNET_BYTES] + rewritten + octets[start:end]
