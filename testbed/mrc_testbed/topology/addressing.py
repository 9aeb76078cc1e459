"""Layer-2 and inner IPv6 addresses, each a formula of a port id or of host and plane.

MAC              02:4d:52:pp:pp:pp               port id in the low 24 bits; 4d 52 is "MR"
link-local       fe80::<port id + 1>/64          for kernel-SRv6 nodes; MRC itself does not use it
inner address    fd6d:7263:0:<plane>::<host + 1> of a NIC port; what a QP names
"""

from ipaddress import IPv6Address
from typing import Final

IFINDEX_BASE: Final = 1000
"""The ifindex of a port in its namespace is this plus its port id; MRC_IFINDEX_BASE of the data plane."""

INTERFACE_MTU_BYTES: Final = 3000
"""MTU of every interface: 2048 bytes of payload and all headers fit, and native XDP on a veth accepts it."""

PORT_ID_BITS: Final = 24
INNER_PREFIX: Final = 0xFD6D_7263_0000_0000
"""First 64 bits of an inner address of plane 0; the plane is added to them."""

_MAC_PREFIX: Final = 0x024D52
_LINK_LOCAL_PREFIX: Final = 0xFE80 << 112


def ifindex(port_id: int) -> int:
    """Interface index of a port inside its node."""
    return IFINDEX_BASE + port_id


def mac(port_id: int) -> str:
    """MAC address of a port in colon notation, locally administered."""
    return (_MAC_PREFIX << PORT_ID_BITS | port_id).to_bytes(6, "big").hex(":")


def link_local(port_id: int) -> IPv6Address:
    """Link-local address of a port, prefix length 64."""
    return IPv6Address(_LINK_LOCAL_PREFIX | port_id + 1)


def inner_address(host: int, plane: int) -> IPv6Address:
    """Address of the NIC port of *host* in *plane*, the inner source or destination of its packets."""
    return IPv6Address(INNER_PREFIX + plane << 64 | host + 1)
