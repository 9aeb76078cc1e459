"""Paths between two hosts: EV <-> (plane, uplink) <-> uSIDs <-> links.

Between T0s a path is named by plane and uplink, which fix T1 and lane: both the way up and the way down use
that lane. Two hosts of one T0 have one path per plane, whose uplink is 0 by convention. A packet's reverse
path (its SACK on the reflected EV) crosses the same links the other way.
"""

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from testbed.errors import UsageError
from testbed.topology.element import Link, Node
from testbed.topology.ev import decode_ev
from testbed.topology.forwarding import Hop, trace_carrier
from testbed.topology.usid import CarrierTemplate, Role, Usid, row_template

if TYPE_CHECKING:
    from testbed.topology.clos import Clos


@dataclass(frozen=True, slots=True)
class Path:
    """The way of a packet from one host to another.

    Attributes:
        source, destination: the hosts.
        plane: the plane it stays in.
        uplink: uplink number at the source T0; 0 if there is no T1 on the way.
        t1: the T1 it crosses, or None.
        usids: the uSIDs of its carrier in order.
        carrier: its outer destination address when it leaves the source NIC.
        links: the links in order: 4 across a T1, 2 within a T0.
        hops: every node with what it does, from the source NIC to the destination NIC.
    """

    source: Node
    destination: Node
    plane: int
    uplink: int
    t1: Node | None
    usids: tuple[Usid, ...]
    carrier: IPv6Address
    links: tuple[Link, ...]
    hops: tuple[Hop, ...]


def check_route(clos: "Clos", source: int, destination: int, plane: int, uplink: int) -> None:
    """Return if there is such a path.

    Raises:
        UsageError: no such host, plane or uplink, or source and destination are the same.
    """
    is_local = clos.is_local(source, destination)
    if not 0 <= plane < clos.spec.planes:
        raise UsageError(f"plane {plane} does not exist: planes are numbered 0 to {clos.spec.planes - 1}")
    if is_local and uplink != 0:
        raise UsageError(
            f"h{source} and h{destination} share their T0s: their paths have uplink 0, not {uplink}"
        )
    if not 0 <= uplink < clos.numbering.uplink_count:
        last = clos.numbering.uplink_count - 1
        raise UsageError(f"uplink {uplink} does not exist: the uplinks of a T0 are numbered 0 to {last}")


def path_usids(clos: "Clos", source: int, destination: int, plane: int, uplink: int) -> tuple[Usid, ...]:
    """The uSIDs of a path: source T0, T1, destination T0, downlink; source T0 and downlink within one T0.

    Raises:
        UsageError: there is no such path.
    """
    check_route(clos, source, destination, plane, uplink)
    lanes = clos.spec.uplinks_per_pair
    first = Usid(Role.T0, plane, clos.numbering.row(source) * lanes)
    last = Usid(Role.DOWNLINK, plane, clos.numbering.downlink(destination))
    if clos.is_local(source, destination):
        return first, last
    lane = uplink % lanes
    down = Usid(Role.T0, plane, clos.numbering.row(destination) * lanes + lane)
    return first, Usid(Role.T1, plane, uplink), down, last


def qp_template(clos: "Clos", source: int, destination: int) -> CarrierTemplate:
    """The carrier of a QP with plane and uplink still open: the row's template, its last hop specialised.

    Raises:
        UsageError: no such hosts, or they are the same.
    """
    clos.is_local(source, destination)
    rows = clos.numbering.row(source), clos.numbering.row(destination)
    return row_template(*rows, clos.spec.uplinks_per_pair).specialise(clos.numbering.downlink(destination))


def build_path(clos: "Clos", source: int, destination: int, plane: int, uplink: int) -> Path:
    """The path from host *source* to host *destination* through *plane* and *uplink*.

    Raises:
        UsageError: there is no such path.
    """
    usids = path_usids(clos, source, destination, plane, uplink)
    carrier = clos.carrier(source, destination, plane, uplink)
    links = [clos.host_link(source, plane), clos.host_link(destination, plane)]
    t1 = None
    if not clos.is_local(source, destination):
        t1 = clos.t1(plane, uplink // clos.spec.uplinks_per_pair)
        links[1:1] = (
            clos.fabric_link(plane, clos.numbering.row(host), uplink) for host in (source, destination)
        )
    return Path(
        source=clos.host(source),
        destination=clos.host(destination),
        plane=plane,
        uplink=uplink,
        t1=t1,
        usids=usids,
        carrier=carrier,
        links=tuple(links),
        hops=trace_carrier(clos, source, plane, carrier),
    )


def explain_ev(clos: "Clos", entropy: int, source: int, destination: int) -> Path:
    """The path that packets with that EV take between two hosts.

    Args:
        clos: the fabric.
        entropy: 32 bits; the copy number does not matter for the path.
        source: host number.
        destination: host number.

    Raises:
        UsageError: the EV names no path between these hosts.
    """
    if not 0 <= entropy < 1 << 32:
        raise UsageError(f"{entropy:#x} is not an EV: EVs have 32 bits")
    ev = decode_ev(entropy)
    return build_path(clos, source, destination, ev.plane, ev.uplink)
