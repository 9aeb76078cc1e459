"""Forwarding without a source route: the address names the host, the EV or a hash chooses the way up.

    the host is below     its downlink, or one of the parallel links to the next switch
    it came from above    dropped
    else                  an uplink

    chosen by        uplink                            link among parallel ones
    stev             EV[27:16], in the flow label      EV[15:8], in the UDP source port
    ecmp             hash over the uplinks             hash over the links

With `uplink_choice: adaptive` this is the path of a packet while the fabric is idle: the
hash decides among links that are equally loaded; see `adaptive_choice` for the others.

The table is that of the SRv6 mode: what a carrier would name is looked up.

Source: docs/reference/protocol.md, "Forwarding modes"; mrc_agents/switch/bpf/forward_host.h is its twin.
"""

from ipaddress import IPv6Address
from typing import Final, NamedTuple

from mrc_agents.abi import PortKind
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node, Port
from mrc_testbed.topology.ev import decode_ev, ev_flow_label, ev_lane, ev_source_port
from mrc_testbed.topology.forwarding import FIB_LOCAL, FIB_NONE, Action, Hop, fib_value
from mrc_testbed.topology.usid import Role, Usid, usid_down, usid_up

MRC_UDP_PORT: Final = 4791
"""The RoCEv2 port. The published text prints 4971, most likely by a slip; receivers take a list."""

_BELOW: Final = ("", "T0", "pod")
"""By level of a switch, the thing that its downlinks lead to."""

_WORD_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15
_LAST: Final = 0xBF58476D1CE4E5B9


class FlowKey(NamedTuple):
    """The input of the hash: the header fields that all packets of a flow have in common."""

    # source, destination: of the only IPv6 header
    source: IPv6Address
    destination: IPv6Address
    flow_label: int  # 20 bits
    # source_port, destination_port: UDP
    source_port: int
    destination_port: int


def flow_hash(seed: int, node_id: int, flow: FlowKey) -> int:
    """32 bits, the same for all packets of *flow* at the switch *node_id* of a fabric with that *seed*."""
    words = [flow.flow_label << 32 | flow.source_port << 16 | flow.destination_port]
    for address in (flow.source, flow.destination):
        words += divmod(int(address), 1 << 64)
    state = seed << 32 | node_id
    for word in words:
        state = (state ^ word) * _STEP & _WORD_MASK
        state ^= state >> 32
    return (state * _LAST & _WORD_MASK) >> 32


def hash_share(value: int, count: int) -> int:
    """Which of *count* equal links a hash of 32 bits falls on, 0 to count - 1."""
    return value * count >> 32


class LinkChoices(NamedTuple):
    """Equal links of a switch."""

    links: int
    what: str  # uplink or lane
    named: int  # that a structured EV names
    below: str = ""  # the reason for a link down, which comes first


def flow_of_ev(clos: Clos, source: int, destination: int, plane: int, entropy: int) -> FlowKey:
    """The input of an ECMP switch's hash for packets on that EV from host *source* to host *destination*."""
    return FlowKey(
        clos.inner_address(source, plane),
        clos.inner_address(destination, plane),
        ev_flow_label(entropy),
        ev_source_port(entropy),
        MRC_UDP_PORT,
    )


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
    switch, number = ingress.node, clos.numbering
    row, level = number.row(destination), ingress.node.tier.level
    if level == 0 and row == switch.index:
        downlink = number.downlink(destination)
        return fib_value(clos, switch, Role.DOWNLINK, downlink), f"h{destination} hangs here"
    if level and number.group(level, row) == switch.index // number.group_sizes[level]:
        group = number.group(level - 1, row)
        below = f"h{destination} is below {_BELOW[level]} {group}"
        first, lanes = usid_down(number, level - 1, group), number.tiers[level].lanes
        return _choose(clos, switch, flow, first, LinkChoices(lanes, "lane", ev_lane(entropy), below))
    if ingress.kind in {PortKind.T0_UP, PortKind.T1_UP}:
        return FIB_NONE, f"h{destination} is below T0 {row}, and what came down does not go up again"
    choices = LinkChoices(number.uplinks[level], "uplink", decode_ev(entropy).uplink)
    return _choose(clos, switch, flow, usid_up(level + 1, 0), choices)


def _choose(clos: Clos, switch: Node, flow: FlowKey, first: Usid, choices: LinkChoices) -> tuple[int, str]:
    """The entry of the link that *switch* takes, of several from uSID *first* on, and why."""
    if clos.spec.forwarding == "stev":
        number, reason = choices.named, f"the EV names {choices.what} {choices.named}"
    elif choices.links == 1 and choices.below:
        number, reason = 0, ""
    else:
        value = flow_hash(clos.spec.hash_seed, switch.id, flow)
        number = hash_share(value, choices.links)
        unless = ", which it takes unless another has less to send" if clos.is_adaptive else ""
        reason = f"hash {value:#010x} falls on {number} of {choices.links} {choices.what}s{unless}"
    reason = ", ".join(filter(None, (choices.below, reason)))
    if number >= choices.links:
        return FIB_NONE, f"{reason}, which does not exist"
    return fib_value(clos, switch, first.role, first.index + number), reason
