"""Ethernet, IPv6 and UDP headers, as far as MRC packets use them.

Source: docs/reference/protocol.md, "Packet stack"; RFC 8200, RFC 768.
"""

from dataclasses import field
from ipaddress import IPv6Address
from typing import Final

from reference.layout import Header

ETHERTYPE_IPV6: Final = 0x86DD
NEXT_UDP: Final = 17
NEXT_IPV6: Final = 41
MRC_UDP_PORT: Final = 4791
"""The RoCEv2 port. The published text prints 4971, most likely by a slip; receivers take a list."""


class Ethernet(Header, layout="destination:48 source:48 ethertype:16"):
    destination: int
    source: int
    ethertype: int = ETHERTYPE_IPV6


def parse_mac(text: str) -> int:
    """The 48-bit number of an address such as `02:4d:52:00:00:01`."""
    return int(text.replace(":", ""), 16)


class Ipv6(
    Header,
    layout="version:4 traffic_class:8 flow_label:20 payload_bytes:16 next_header:8 hop_limit:8"
    " source:128 destination:128",
):
    """IPv6 header, from a port to a port or a uSID carrier; what follows it is no part of its identity."""

    source: IPv6Address
    destination: IPv6Address
    traffic_class: int = 0
    flow_label: int = 0
    hop_limit: int = 64
    payload_bytes: int = field(default=0, compare=False)
    next_header: int = field(default=NEXT_UDP, compare=False)
    version: int = 6


class Udp(Header, layout="source_port:16 destination_port:16 length:16 checksum:16"):
    """UDP header; the checksum is 0, as in RoCEv2: the iCRC covers the packet."""

    source_port: int
    destination_port: int
    length: int
    checksum: int = 0
