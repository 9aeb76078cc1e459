"""The processing of a carrier in a switch: its static forwarding table, and one look-up in it.

A table has 4096 entries, role and index of a uSID; plane bits are compared apart. An entry is 0 for no route,
FIB_LOCAL for a uSID of the switch itself (uN: shift, then look the next one up), else the egress port id + 1.

    T0 i   own: T0 i*U .. i*U+U-1     T1 u -> uplink u            downlink d -> downlink d
    T1 j   own: T1 j*U .. j*U+U-1     T0 x -> downlink x, which is lane x % U of T0 x // U of its pod
           and T1 n+p*V .. n+p*V+V-1  T2 v -> uplink v            p its pod, n the uplinks of a T0
    T2 k   own: T2 k*V .. k*V+V-1     T1 n+x -> downlink x        V lanes between T1 and T2

There are no host routes and no protocol; a port that goes down changes nothing here.

Source: RFC 9800 (uN); docs/reference/protocol.md, "Switch".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node, Port
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.numbering import Numbering
from mrc_testbed.topology.usid import (
    PLANE_SHIFT,
    Role,
    Usid,
    active_usid,
    pack_carrier,
    shift_carrier,
    usid_down,
    usid_up,
)

FIB_STRIDE: Final = 4096
"""Entries per switch; a switch's table starts at node id * FIB_STRIDE."""

FIB_NONE: Final = 0
FIB_LOCAL: Final = 0x7FFF_FFFF


class FibEntry(NamedTuple):
    key: int  # role << 10 | index, 0 to 4095
    value: int  # FIB_LOCAL, or egress port id + 1


class UsidRange(NamedTuple):
    """Neighbouring uSIDs that a switch treats alike: as its own, or each as the next of its ports."""

    first: Usid
    size: int
    port_index: int | None  # that the first leads to; None: they are the switch's own


def usid_ranges(number: Numbering, tier: Tier, index: int) -> list[UsidRange]:
    """All that the switch of that index in its tier knows, in plane 0."""
    level, (group, place) = tier.level, divmod(index, number.group_sizes[tier.level])
    ranges = []
    if level + 1 < len(number.tiers):
        ranges.append(UsidRange(usid_down(number, level, group), number.tiers[level + 1].lanes, None))
        ranges.append(UsidRange(usid_up(level + 1, 0), number.uplinks[level], number.downlinks[level]))
    if level == 0:
        ranges.append(UsidRange(Usid(Role.DOWNLINK, 0, 0), number.hosts_per_t0, 0))
    else:
        tier_size = number.tiers[level]
        ranges.append(
            UsidRange(usid_up(level, place % tier_size.switches * tier_size.lanes), tier_size.lanes, None)
        )
        below = usid_down(number, level - 1, group * tier_size.joins)
        ranges.append(UsidRange(below, number.downlinks[level], 0))
    return ranges


def fib_value(clos: Clos, switch: Node, role: Role, index: int) -> int:
    """The entry of a uSID in the table of *switch*, without making the table."""
    for first, size, port_index in usid_ranges(clos.numbering, switch.tier, switch.index):
        if role.bits == first.role.bits and 0 <= index - first.index < size:
            return FIB_LOCAL if port_index is None else _route(clos, switch, port_index + index - first.index)
    return FIB_NONE


def fib_entries(clos: Clos, switch: Node) -> Iterator[FibEntry]:
    """The entries of a switch that are not FIB_NONE, by rising key."""
    if not switch.is_switch:
        raise UsageError(f"{switch.name} is a host: it has no forwarding table")
    ranges = usid_ranges(clos.numbering, switch.tier, switch.index)
    for first, size, port_index in sorted(ranges, key=lambda each: each.first.value):
        for i in range(size):
            value = FIB_LOCAL if port_index is None else _route(clos, switch, port_index + i)
            yield FibEntry(first.role.bits << PLANE_SHIFT | first.index + i, value)


def _route(clos: Clos, switch: Node, port_index: int) -> int:
    return clos.port_id(switch, port_index) + 1


class Action(StrEnum):
    SEND = "send"
    ENCAPSULATE = "encapsulate"
    SHIFT = "uN shift"
    FORWARD = "forward"
    DECAPSULATE = "decapsulate"
    DELIVER = "deliver"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Hop:
    """A packet at one node."""

    node: Node  # the node
    action: Action  # what it does
    arrival: IPv6Address | None  # outermost destination address on arrival; None at the sender
    departure: IPv6Address | None  # the same on departure; None where the packet ends
    ingress: Port | None  # port of arrival; None at the sender
    egress: Port | None  # port of departure; None where the packet ends
    reason: str  # the look-ups that led there, for people


def trace_carrier(clos: Clos, source: int, plane: int, carrier: IPv6Address) -> tuple[Hop, ...]:
    """The hops of a packet that host *source* sends into *plane* with that outer destination address.

    Any carrier will do; the last hop shows whether a NIC took the packet or why it was dropped. It is never a
    loop: without a shift every way through the fabric leads up, or down, one tier.
    """
    port = clos.host_link(source, plane).lower
    hops = [Hop(port.node, Action.ENCAPSULATE, None, carrier, None, port, f"port to plane {plane}")]
    egress: Port | None = port
    while egress is not None:
        hop = _process(clos, clos.peer(egress), carrier)
        hops.append(hop)
        egress = hop.egress
        carrier = hop.departure or carrier
    return tuple(hops)


def _process(clos: Clos, ingress: Port, arrival: IPv6Address) -> Hop:
    if not ingress.node.is_switch:
        return _receive(clos, ingress, arrival)
    departure, action, consumed = arrival, Action.FORWARD, ""
    value = _look_up(clos, ingress, active_usid(arrival))
    if value == FIB_LOCAL:
        departure, action, consumed = shift_carrier(arrival), Action.SHIFT, f"{active_usid(arrival)} is own; "
        value = _look_up(clos, ingress, active_usid(departure))
    active = active_usid(departure)
    if value not in {FIB_NONE, FIB_LOCAL}:
        egress = clos.port(value - 1)
        reason = f"{consumed}{active} is out of {egress.interface}"
        return Hop(ingress.node, action, arrival, departure, ingress, egress, reason)
    if active is None:
        reason = "end of carrier" if consumed else f"{arrival} is no carrier"
    elif active.plane != ingress.plane:
        reason = f"no route to {active} of plane {active.plane}"
    else:
        reason = f"no route to {active}"
    return Hop(ingress.node, Action.DROP, arrival, None, ingress, None, consumed + reason)


def _receive(clos: Clos, ingress: Port, arrival: IPv6Address) -> Hop:
    own = Usid(Role.DOWNLINK, ingress.plane, clos.numbering.downlink(ingress.node.index))
    sid = pack_carrier((own,))
    if arrival == sid:
        reason = f"{own} is this NIC port's SID"
        return Hop(ingress.node, Action.DECAPSULATE, arrival, None, ingress, None, reason)
    reason = f"{arrival} is not this NIC port's SID {sid}"
    return Hop(ingress.node, Action.DROP, arrival, None, ingress, None, reason)


def _look_up(clos: Clos, ingress: Port, usid: Usid | None) -> int:
    if usid is None or usid.plane != ingress.plane:
        return FIB_NONE
    return fib_value(clos, ingress.node, usid.role, usid.index)
