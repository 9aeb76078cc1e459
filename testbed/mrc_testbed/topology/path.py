"""Paths between two hosts: EV <-> (plane, uplink) <-> uSIDs <-> links.

Between T0s a path is named by plane and uplink, which fix T1 and lane: both the way up and the way down use
that lane. Two hosts of one T0 have one path per plane, whose uplink is 0 by convention. A packet's reverse
path (its SACK on the reflected EV) crosses the same links the other way.

Where switches hash (ECMP), neither the last two sentences hold between T0s nor does an EV name its path: the
hashes of the switches on the way are computed here as they compute them.
"""

from dataclasses import dataclass
from ipaddress import IPv6Address

from mrc_agents.abi import PortKind
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link, Node
from mrc_testbed.topology.ev import COPY_MASK, STEV_COPY_MASK, Ev, decode_ev
from mrc_testbed.topology.forwarding import Action, Hop, trace_carrier
from mrc_testbed.topology.host_forwarding import choose_uplink, flow_of_ev, trace_packet
from mrc_testbed.topology.usid import CarrierTemplate, Usid, row_template, unpack_carrier


@dataclass(frozen=True, slots=True)
class Path:
    """The way of a packet from one host to another."""

    # source, destination: the hosts
    source: Node
    destination: Node
    plane: int  # the plane it stays in
    uplink: int  # uplink number at the source T0; 0 if there is no T1 on the way
    t1: Node | None  # the T1 it crosses, or None
    usids: tuple[Usid, ...]  # the uSIDs of its carrier in order; none without source routes
    # its outer destination address when it leaves the source NIC; None without source routes
    carrier: IPv6Address | None
    links: tuple[Link, ...]  # the links in order: 4 across a T1, 2 within a T0
    hops: tuple[Hop, ...]  # every node with what it does, from the source NIC to the destination NIC


def check_route(clos: Clos, source: int, destination: int, plane: int, uplink: int) -> None:
    """Return if there is such a path."""
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


def qp_template(clos: Clos, source: int, destination: int) -> CarrierTemplate:
    """The carrier of a QP with plane and uplink still open: the row's template, its last hop specialised."""
    clos.is_local(source, destination)
    rows = clos.numbering.row(source), clos.numbering.row(destination)
    return row_template(*rows, clos.spec.uplinks_per_pair).specialise(clos.numbering.downlink(destination))


def path_carrier(clos: Clos, source: int, destination: int, plane: int, uplink: int) -> IPv6Address:
    """The outer destination address of a packet on a path.

    Its uSIDs: source T0, T1, destination T0, downlink; source T0 and downlink within one T0.
    """
    check_route(clos, source, destination, plane, uplink)
    return qp_template(clos, source, destination).deposit(plane, uplink)


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
    """The uplink at the source's T0 that packets on that EV take to host *destination*; 0 within a T0.

    It need not exist: an EV of another fabric may name any.
    """
    if clos.is_local(source, destination):
        return 0
    ev = decode_ev(entropy)
    if clos.spec.forwarding != "ecmp":
        return ev.uplink
    flow = flow_of_ev(clos, source, destination, ev.plane, entropy)
    return choose_uplink(clos, clos.t0_of(source, ev.plane), flow, entropy).number


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


def _path_of_hops(
    clos: Clos, source: int, destination: int, hops: tuple[Hop, ...], carrier: IPv6Address | None
) -> Path:
    ports = [hop.egress for hop in hops if hop.egress is not None]
    ups = [port for port in ports if port.kind is PortKind.T0_UP]
    return Path(
        source=clos.host(source),
        destination=clos.host(destination),
        plane=ports[0].plane,
        uplink=ups[0].index - clos.spec.hosts_per_t0 if ups else 0,
        t1=clos.peer(ups[0]).node if ups else None,
        usids=() if carrier is None else unpack_carrier(carrier),
        carrier=carrier,
        links=tuple(clos.link(port.link_id) for port in ports),
        hops=hops,
    )
