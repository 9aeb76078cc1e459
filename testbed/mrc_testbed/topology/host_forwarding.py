"""Forwarding without a source route: the address names the host, the EV or a hash chooses the way up.

    at a T0    the host hangs here: its downlink; it came from a T1: dropped; else an uplink
    at a T1    one of the parallel links to the host's T0

    chosen by        uplink                            link among parallel ones
    stev             EV[27:16], in the flow label      EV[15:8], in the UDP source port
    ecmp             hash over the uplinks             hash over the links, at the T1

With `uplink_choice: adaptive` this is the path of a packet while the fabric is idle: the
hash decides among links that are equally loaded; see `adaptive_choice` for the others.

The table is that of the SRv6 mode: what a carrier would name is looked up.

Source: docs/reference/protocol.md, "Forwarding modes"; mrc_agents/switch/bpf/forward_host.h is its twin.
"""

from typing import NamedTuple

from mrc_agents.abi import PortKind
from mrc_agents.protocol.ports import MRC_UDP_PORT
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ecmp_hash import FlowKey, flow_hash, hash_share
from mrc_testbed.topology.element import Node, Port
from mrc_testbed.topology.ev import decode_ev, ev_flow_label, ev_lane, ev_source_port
from mrc_testbed.topology.forwarding import FIB_LOCAL, FIB_NONE, Action, Hop, fib_value
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.usid import Role


class LinkChoice(NamedTuple):
    """One of several links, and why that one."""

    number: int
    reason: str


def flow_of_ev(clos: Clos, source: int, destination: int, plane: int, entropy: int) -> FlowKey:
    """The input of an ECMP switch's hash for packets on that EV from host *source* to host *destination*."""
    return FlowKey(
        clos.inner_address(source, plane),
        clos.inner_address(destination, plane),
        ev_flow_label(entropy),
        ev_source_port(entropy),
        MRC_UDP_PORT,
    )


def choose_uplink(clos: Clos, switch: Node, flow: FlowKey, entropy: int) -> LinkChoice:
    """The uplink that a T0 takes for packets to a host of another T0."""
    if clos.spec.forwarding == "stev":
        uplink = decode_ev(entropy).uplink
        return LinkChoice(uplink, f"the EV names uplink {uplink}")
    return _hashed(clos, switch, flow, clos.numbering.uplink_count, "uplinks")


def choose_lane(clos: Clos, switch: Node, flow: FlowKey, entropy: int) -> LinkChoice:
    """Which of the parallel links to a T0 a T1 takes."""
    lanes = clos.spec.uplinks_per_pair
    if clos.spec.forwarding == "stev":
        lane = ev_lane(entropy)
        return LinkChoice(lane, f"the EV names lane {lane}")
    if lanes == 1:
        return LinkChoice(0, "")
    return _hashed(clos, switch, flow, lanes, "lanes")


def trace_packet(clos: Clos, source: int, destination: int, plane: int, entropy: int) -> tuple[Hop, ...]:
    """The hops of a packet that host *source* sends to host *destination* into *plane* on that EV.

    The last hop shows whether the NIC took it or a switch dropped it.
    """
    address = clos.inner_address(destination, plane)
    flow = flow_of_ev(clos, source, destination, plane, entropy)
    egress = clos.host_link(source, plane).lower
    hops = [Hop(egress.node, Action.SEND, None, address, None, egress, f"port to plane {plane}")]
    while True:
        ingress = clos.peer(egress)
        if not ingress.node.is_switch:
            reason = f"{address} is this NIC port's"
            hops.append(Hop(ingress.node, Action.DELIVER, address, None, ingress, None, reason))
            return tuple(hops)
        value, reason = _way(clos, ingress, destination, flow, entropy)
        if value in {FIB_NONE, FIB_LOCAL}:
            hops.append(Hop(ingress.node, Action.DROP, address, None, ingress, None, reason))
            return tuple(hops)
        egress = clos.port(value - 1)
        reason = f"{reason}: out of {egress.interface}"
        hops.append(Hop(ingress.node, Action.FORWARD, address, address, ingress, egress, reason))


def _way(clos: Clos, ingress: Port, destination: int, flow: FlowKey, entropy: int) -> tuple[int, str]:
    """The entry of the switch's table that the packet leaves by, and why it is that one."""
    switch, lanes = ingress.node, clos.spec.uplinks_per_pair
    row = clos.numbering.row(destination)
    if switch.tier is Tier.T1:
        lane = choose_lane(clos, switch, flow, entropy)
        reason = f"h{destination} is below T0 {row}" + (f", {lane.reason}" if lane.reason else "")
        if lane.number >= lanes:
            return FIB_NONE, f"{reason}, which does not exist"
        return fib_value(clos, switch, Role.T0, row * lanes + lane.number), reason
    if fib_value(clos, switch, Role.T0, row * lanes) == FIB_LOCAL:
        downlink = clos.numbering.downlink(destination)
        return fib_value(clos, switch, Role.DOWNLINK, downlink), f"h{destination} hangs here"
    if ingress.kind is PortKind.T0_UP:
        return FIB_NONE, f"h{destination} is below T0 {row}, and what came down does not go up again"
    uplink = choose_uplink(clos, switch, flow, entropy)
    value = fib_value(clos, switch, Role.T1, uplink.number)
    return value, uplink.reason + ("" if value else ", which does not exist")


def _hashed(clos: Clos, switch: Node, flow: FlowKey, count: int, what: str) -> LinkChoice:
    value = flow_hash(clos.spec.hash_seed, switch.id, flow)
    number = hash_share(value, count)
    unless = ", which it takes unless another has less to send" if clos.is_adaptive else ""
    return LinkChoice(number, f"hash {value:#010x} falls on {number} of {count} {what}{unless}")
