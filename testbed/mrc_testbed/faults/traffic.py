"""Background traffic that a congestion fault makes: where it goes, and its frames. Pure."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from typing import Final

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.forwarding import usid_ranges
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.path import path_carrier
from mrc_testbed.topology.timing import full_frame_bytes
from mrc_testbed.topology.usid import Role, Usid, pack_carrier
from mrc_testbed.units import format_rate_bps

PACKETS_PER_SECOND_MAX: Final = 50_000
"""Limit of one fault: more would load the machine rather than the fabric."""

_DISCARD_PORT: Final = 9  # RFC 863
_ONE_HOP: Final = 1
_ALL_HOPS: Final = 64
_NEXT_HEADER_UDP: Final = 17
_UDP_BYTES: Final = 8
_HEADER_BYTES: Final = 14 + 40 + _UDP_BYTES


@dataclass(frozen=True, slots=True)
class RawLoad:
    """Frames that nobody asked for, sent through one port at a steady rate."""

    port_id: int  # the port they leave through first
    rate_bps: int  # of the frames, headers included
    destination: str  # IPv6 address they are sent to, in words
    hop_limit: int  # 1: the far end of the link drops them; more: they go on to a host


def plan_loads(
    clos: Clos, ports: Iterable[Port], rate_bps: int, towards: str | None, draw: int
) -> tuple[RawLoad, ...]:
    """The load of each port.

    Args:
        ports: through which frames are to leave, each at the whole rate.
        rate_bps: frames, headers included.
        towards: host that the frames go on to; None: the far end of the link drops them.
        draw: decides which uplink they take on their way.
    """
    loads = tuple(
        _one_hop(clos, port, rate_bps)
        if towards is None
        else _all_the_way(clos, port, rate_bps, towards, draw)
        for port in ports
    )
    packets = len(loads) * rate_bps // (8 * full_frame_bytes(clos))
    if packets > PACKETS_PER_SECOND_MAX:
        raise UsageError(
            f"{len(loads)} ports at {format_rate_bps(rate_bps)} are {packets} packets/s, more than a machine "
            f"can make beside a fabric ({PACKETS_PER_SECOND_MAX}); lower the rate or select fewer links"
        )
    return loads


def frame_of(clos: Clos, load: RawLoad) -> bytes:
    """A frame of *load*, as large as a full data packet, but for its MAC addresses."""
    payload_bytes = full_frame_bytes(clos) - _HEADER_BYTES
    udp = struct.pack(">HHHH", _DISCARD_PORT, _DISCARD_PORT, _UDP_BYTES + payload_bytes, 0)
    version_class_flow = 6 << 28
    header = struct.pack(
        ">IHBB", version_class_flow, _UDP_BYTES + payload_bytes, _NEXT_HEADER_UDP, load.hop_limit
    )
    addresses = bytes(16) + IPv6Address(load.destination).packed
    return bytes(12) + b"\x86\xdd" + header + addresses + udp + bytes(payload_bytes)


def _one_hop(clos: Clos, port: Port, rate_bps: int) -> RawLoad:
    """Frames that the far end could forward, were it not for their hop limit."""
    far, number = clos.peer(port).node, clos.numbering
    host, usid = far.index, Usid(Role.DOWNLINK, 0, number.downlink(far.index))
    if far.is_switch:  # to its first downlink
        level = far.tier.level
        host = far.index // number.group_sizes[level] * (number.host_count // number.groups[level])
        known = usid_ranges(number, far.tier, far.index)
        usid = next(usids.first for usids in known if usids.port_index == 0)
    if clos.spec.forwarding == "srv6":
        destination = pack_carrier((replace(usid, plane=port.plane),))
    else:
        destination = clos.inner_address(host, port.plane)
    return RawLoad(port.id, rate_bps, str(destination), _ONE_HOP)


def _all_the_way(clos: Clos, port: Port, rate_bps: int, towards: str, draw: int) -> RawLoad:
    target = clos.node(towards)
    if port.node.tier is not Tier.HOST or target.tier is not Tier.HOST or target == port.node:
        raise UsageError(
            f"{port.name} does not lead to {towards}: `towards` takes a host, and links from other hosts, "
            "such as h1:0 with direction a-to-b"
        )
    if clos.spec.forwarding == "srv6":
        uplink = draw % clos.numbering.way_count(clos.distance(port.node.index, target.index))
        destination = path_carrier(clos, port.node.index, target.index, port.plane, uplink)
    else:
        destination = clos.inner_address(target.index, port.plane)
    return RawLoad(port.id, rate_bps, str(destination), _ALL_HOPS)
