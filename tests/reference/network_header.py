"""Ethernet, IPv6 and UDP headers, as far as MRC packets use them.

Lengths and next headers are not attributes: they follow from what is inside, and are checked on receipt.

Source: docs/reference/protocol.md, "Packet stack"; RFC 8200, RFC 768.
"""

import struct
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import ClassVar, Final, NamedTuple

from reference.layout import Header, Layout, WireError

ETHERTYPE_IPV6: Final = 0x86DD
HOP_LIMIT_DEFAULT: Final = 64
MRC_UDP_PORT: Final = 4791
"""The RoCEv2 port. The published text prints 4971, most likely by a slip; receivers take a list."""

_IPV6: Final = struct.Struct("!IHBB16s16s")


class NextHeader:
    """IPv6 next header values."""

    UDP: Final = 17
    IPV6: Final = 41


@dataclass(frozen=True, slots=True)
class Ethernet(Header):
    """Ethernet header, 14 bytes; addresses as 48-bit numbers."""

    destination: int
    source: int
    ethertype: int = ETHERTYPE_IPV6

    LAYOUT: ClassVar = Layout("destination:48 source:48 ethertype:16")


def parse_mac(text: str) -> int:
    """The 48-bit number of an address such as `02:4d:52:00:00:01`.

    Raises:
        WireError: not six two-digit hexadecimal numbers separated by colons.
    """
    octets = text.split(":")
    if len(octets) != 6 or any(len(octet) != 2 for octet in octets):
        raise WireError(f"{text!r} is not a MAC address")
    try:
        return int.from_bytes(bytes.fromhex("".join(octets)))
    except ValueError as error:
        raise WireError(f"{text!r} is not a MAC address") from error


class Ipv6Contents(NamedTuple):
    """The content of an IPv6 packet by its header."""

    payload_bytes: int
    next_header: int


@dataclass(frozen=True, slots=True)
class Ipv6:
    """IPv6 header, 40 bytes.

    Args:
        source: address of the sending port.
        destination: a host port, or a uSID carrier.
        traffic_class: the byte; see reference.traffic_class.
        flow_label: 20 bits, the low 16 the upper half of the EV.
        hop_limit: decremented by each uN.
    """

    source: IPv6Address
    destination: IPv6Address
    traffic_class: int = 0
    flow_label: int = 0
    hop_limit: int = HOP_LIMIT_DEFAULT

    SIZE_BYTES: ClassVar[int] = _IPV6.size

    def encode(self, payload_bytes: int, next_header: int) -> bytes:
        """The header's bytes in front of *payload_bytes* of *next_header*.

        Raises:
            WireError: a value does not fit its field.
        """
        if not 0 <= self.traffic_class < 1 << 8 or not 0 <= self.flow_label < 1 << 20:
            raise WireError(
                f"traffic class {self.traffic_class} or flow label {self.flow_label} is too large"
            )
        if not 0 <= self.hop_limit < 1 << 8 or not 0 <= payload_bytes < 1 << 16:
            raise WireError(f"hop limit {self.hop_limit} or length {payload_bytes} is too large")
        first = 6 << 28 | self.traffic_class << 20 | self.flow_label
        return _IPV6.pack(
            first, payload_bytes, next_header, self.hop_limit, self.source.packed, self.destination.packed
        )

    @classmethod
    def decode(cls, octets: bytes) -> tuple["Ipv6", Ipv6Contents]:
        """The header at the start of *octets*, and what it says follows.

        Raises:
            WireError: too few bytes, or another version.
        """
        if len(octets) < _IPV6.size:
            raise WireError(f"{len(octets)} bytes where an IPv6 header needs {_IPV6.size}")
        first, payload_bytes, next_header, hop_limit, source, destination = _IPV6.unpack_from(octets)
        if first >> 28 != 6:
            raise WireError(f"IP version {first >> 28} where 6 is expected")
        header = cls(
            IPv6Address(source), IPv6Address(destination), first >> 20 & 0xFF, first & 0xFFFFF, hop_limit
        )
        return header, Ipv6Contents(payload_bytes, next_header)


@dataclass(frozen=True, slots=True)
class Udp(Header):
    """UDP header, 8 bytes; the checksum is 0, as in RoCEv2: the iCRC covers the packet.

    Args:
        source_port: lower half of the EV.
        destination_port: MRC_UDP_PORT.
        length: header included.
        checksum: 0.
    """

    source_port: int
    destination_port: int
    length: int
    checksum: int = 0

    LAYOUT: ClassVar = Layout("source_port:16 destination_port:16 length:16 checksum:16")
