"""Paths between two hosts: EV <-> (plane, uplink) <-> uSIDs <-> links.

Between T0s a path is named by plane and uplink, which fix T1 and lane: both the way up and the way down use
that lane. Between pods the uplink at the T1 counts, too (see `numbering`, "way"). Two hosts of one T0 have
one path per plane, whose uplink is 0 by convention. A packet's reverse path (its SACK on the reflected EV)
crosses the same links the other way.

Where switches hash (ECMP), neither do both ways between T0s use one lane nor does an EV name its path: the
hashes of the switches on the way are computed here as they compute them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address

from mrc_agents.abi import PortKind
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link, Node
from mrc_testbed.topology.ev import COPY_MASK, STEV_COPY_MASK, Ev, decode_ev
from mrc_testbed.topology.forwarding import Action, Hop, trace_carrier
from mrc_testbed.topology.host_forwarding import trace_packet
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.usid import CarrierTemplate, Usid, row_template, unpack_carrier


@dataclass(frozen=True, slots=True)
class Path:
    """The way of a packet from one host to another."""

    # source, destination: the hosts
    source: Node
    destination: Node
    plane: int  # the plane it stays in
    uplink: int  # its way (see `numbering`): the uplink at the source T0; 0 if there is no T1 on the way
    t1: Node | None  # the first T1 that it crosses, or None
    top: Node  # the switch of the highest tier that it crosses
    usids: tuple[Usid, ...]  # the uSIDs of its carrier in order; none without source routes
    # its outer destination address when it leaves the source NIC; None without source routes
    carrier: IPv6Address | None
    links: tuple[Link, ...]  # the links in order: 2 within a T0, 4 across a T1, 6 across a T2
    hops: tuple[Hop, ...]  # every node with what it does, from the source NIC to the destination NIC


def check_route(clos: Clos, source: int, destination: int, plane: int, uplink: int) -> None:
    """Return if there is such a path."""
    distance = clos.distance(source, destination)
    if not 0 <= plane < clos.spec.planes:
        raise UsageError(f"plane {plane} does not exist: planes are numbered 0 to {clos.spec.planes - 1}")
    if not distance and uplink != 0:
        raise UsageError(
            f"h{source} and h{destination} share their T0s: their paths have uplink 0, not {uplink}"
        )
    count = clos.numbering.way_count(distance)
    if not 0 <= uplink < count:
        what = "the uplinks of a T0" if distance < 2 else "the paths of these hosts in a plane"
        raise UsageError(f"uplink {uplink} does not exist: {what} are numbered 0 to {count - 1}")


def qp_template(clos: Clos, source: int, destination: int) -> CarrierTemplate:
    """The carrier of a QP with plane and way still open: the row's template, its last hop specialised."""
    clos.distance(source, destination)
    rows = clos.numbering.row(source), clos.numbering.row(destination)
    return row_template(clos.numbering, *rows).specialise(clos.numbering.downlink(destination))


def path_carrier(clos: Clos, source: int, destination: int, plane: int, uplink: int) -> IPv6Address:
    """The outer destination address of a packet on a path.

    Its uSIDs: source T0, T1, destination T0, downlink; source T0 and downlink within one T0.
    """
    check_route(clos, source, destination, plane, uplink)
    uplinks = clos.numbering.uplinks_of_way(uplink, clos.distance(source, destination))
    return qp_template(clos, source, destination).deposit(plane, uplinks)


def build_path(clos: Clos, source: int, destination: int, plane: int, uplink: int) -> Path:
    """The path from host *source* to host *destination* through *plane* and *uplink*."""
    if clos.spec.forwarding != "srv6":
        return explain_ev(clos, find_ev(clos, source, destination, plane, uplink), source, destination)
    carrier = path_carrier(clos, source, destination, plane, uplink)
    hops = trace_carrier(clos, source, plane, carrier)
    return _path_of_hops(clos, source, destination, hops, carrier)


def find_ev(clos: Clos, source: int, destination: int, plane: int, uplink: int, copy: int = 0) -> int:
    """The EV number *copy*, from 0, that leads from host *source* to host *destination* by *uplink*.

    Where switches hash, the EVs of a plane are tried in order of their source ports.
    """
    check_route(clos, source, destination, plane, uplink)
    if not 0 <= copy <= (STEV_COPY_MASK if clos.spec.forwarding == "stev" else COPY_MASK):
        raise UsageError(f"copy {copy} does not fit its field of an EV")
    if clos.spec.forwarding != "ecmp":
        return clos.ev(plane, uplink, copy)
    for port in range(COPY_MASK + 1):
        entropy = Ev(plane, 0, port).value
        if uplink_of_ev(clos, entropy, source, destination) == uplink:
            if copy == 0:
                return entropy
            copy -= 1
    raise UsageError(f"no such EV of plane {plane} leads from h{source} to h{destination} by uplink {uplink}")


def uplink_of_ev(clos: Clos, entropy: int, source: int, destination: int) -> int:
    """The way that packets on that EV take to host *destination*; 0 within a T0.

    It need not exist: an EV of another fabric may name any.
    """
    distance = clos.distance(source, destination)
    ev = decode_ev(entropy)
    if clos.spec.forwarding == "ecmp":
        return way_of_hops(clos, trace_packet(clos, source, destination, ev.plane, entropy))
    return ev.uplink if distance == len(clos.tiers) - 1 else ev.uplink % clos.numbering.way_count(distance)


def explain_ev(clos: Clos, entropy: int, source: int, destination: int) -> Path:
    """The path that packets with that EV take between two hosts."""
    if not 0 <= entropy < 1 << 32:
        raise UsageError(f"{entropy:#x} is not an EV: EVs have 32 bits")
    ev = decode_ev(entropy)
    if clos.spec.forwarding == "srv6":
        uplink = uplink_of_ev(clos, entropy, source, destination)
        return build_path(clos, source, destination, ev.plane, uplink)
    check_route(clos, source, destination, ev.plane, 0)
    hops = trace_packet(clos, source, destination, ev.plane, entropy)
    if hops[-1].action is Action.DROP:
        raise UsageError(f"EV {entropy:#010x} is dropped at {hops[-1].node.name}: {hops[-1].reason}")
    return _path_of_hops(clos, source, destination, hops, None)


def way_of_hops(clos: Clos, hops: Iterable[Hop]) -> int:
    """The number of the uplinks that a packet takes on its way up; 0 within a T0."""
    way, factor = 0, 1
    for hop in hops:
        if hop.egress is not None and hop.egress.kind in {PortKind.T0_UP, PortKind.T1_UP}:
            level = hop.node.tier.level
            way += factor * (hop.egress.index - clos.numbering.downlinks[level])
            factor *= clos.numbering.uplinks[level]
    return way


def _path_of_hops(
    clos: Clos, source: int, destination: int, hops: tuple[Hop, ...], carrier: IPv6Address | None
) -> Path:
    ports = [hop.egress for hop in hops if hop.egress is not None]
    return Path(
        source=clos.host(source),
        destination=clos.host(destination),
        plane=ports[0].plane,
        uplink=way_of_hops(clos, hops),
        t1=next((hop.node for hop in hops if hop.node.tier is Tier.T1), None),
        top=hops[len(hops) // 2].node,
        usids=() if carrier is None else unpack_carrier(carrier),
        carrier=carrier,
        links=tuple(clos.link(port.link_id) for port in ports),
        hops=hops,
    )
