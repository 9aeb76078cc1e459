"""The processing of a carrier in a switch: its static forwarding table, and one look-up in it.

A table has 4096 entries, role and index of a uSID; plane bits are compared apart. An entry is 0 for no route,
FIB_LOCAL for a uSID of the switch itself (uN: shift, then look the next one up), else the egress port id + 1.

    T0 i   own: T0 i*U .. i*U+U-1     T1 u -> uplink u            downlink d -> downlink d
    T1 j   own: T1 j*U .. j*U+U-1     T0 x -> downlink x, which is lane x % U of T0 x // U

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
from mrc_testbed.topology.usid import (
    INDEX_COUNT,
    PLANE_SHIFT,
    Role,
    Usid,
    active_usid,
    pack_carrier,
    shift_carrier,
)

FIB_STRIDE: Final = 4096
"""Entries per switch; a switch's table starts at node id * FIB_STRIDE."""

FIB_NONE: Final = 0
FIB_LOCAL: Final = 0x7FFF_FFFF


class FibEntry(NamedTuple):
    key: int  # role << 10 | index, 0 to 4095
    value: int  # FIB_LOCAL, or egress port id + 1


def fib_value(clos: Clos, switch: Node, role: Role, index: int) -> int:
    """The entry of a uSID in the table of *switch*, without making the table."""
    lanes = clos.spec.uplinks_per_pair
    own_role = Role.T1 if switch.tier is Tier.T1 else Role.T0
    if role is own_role:
        return FIB_LOCAL if index // lanes == switch.index else FIB_NONE
    if switch.tier is Tier.T1:
        is_routed = role is Role.T0 and index < switch.port_count
        port_index = index
    elif role is Role.T1:
        is_routed = index < clos.numbering.uplink_count
        port_index = clos.spec.hosts_per_t0 + index
    else:
        is_routed = index < clos.spec.hosts_per_t0
        port_index = index
    return clos.port_id(switch, port_index) + 1 if is_routed else FIB_NONE


def fib_entries(clos: Clos, switch: Node) -> Iterator[FibEntry]:
    """The entries of a switch that are not FIB_NONE, by rising key."""
    if not switch.is_switch:
        raise UsageError(f"{switch.name} is a host: it has no forwarding table")
    numbering, lanes = clos.numbering, clos.spec.uplinks_per_pair
    end = max(switch.port_count, numbering.uplink_count, clos.spec.hosts_per_t0, (switch.index + 1) * lanes)
    for role in Role:
        for index in range(min(end, INDEX_COUNT)):
            value = fib_value(clos, switch, role, index)
            if value != FIB_NONE:
                yield FibEntry(role << PLANE_SHIFT | index, value)


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
    loop: every way through a two-tier fabric without a shift is at most one hop long.
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
