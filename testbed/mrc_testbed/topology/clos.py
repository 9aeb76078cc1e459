"""Clos: nodes, ports and links of a fabric; nothing is enumerated before an iterator is asked for.

Numbers come from `numbering`, names from `naming`, addresses from `addressing`. Carriers, paths, EV sets,
forwarding tables, rates and times are functions of a `Clos` in modules of those names; `resolve` makes one.
"""

from collections.abc import Iterator
from ipaddress import IPv6Address
from typing import Final

from mrc_agents.abi import PortKind
from mrc_testbed.errors import UsageError
from mrc_testbed.topology import addressing, naming
from mrc_testbed.topology.element import Link, Node, Port
from mrc_testbed.topology.ev import Ev, stev_value
from mrc_testbed.topology.naming import SWITCH_TIERS, NodeName, Tier
from mrc_testbed.topology.spec import TopologySpec

_DOWN: Final = {Tier.T1: PortKind.T1_DOWN, Tier.T2: PortKind.T2_DOWN}
_UP: Final = {Tier.T0: PortKind.T0_UP, Tier.T1: PortKind.T1_UP}


class Clos:
    """The fabric that a spec describes.

    Args:
        spec: checked; see `resolve.resolve_topology`.
    """

    def __init__(self, spec: TopologySpec) -> None:
        self.spec = spec  # as given
        self.numbering = spec.numbering  # counts, and the bijections between places and ids
        self.tiers = SWITCH_TIERS[: len(self.numbering.tiers)]  # of switches, from T0 up
        self._ports: dict[int, Port] = {}  # those that somebody asked for

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clos) and other.spec == self.spec

    def __hash__(self) -> int:
        return hash(self.numbering)

    def __repr__(self) -> str:
        return f"Clos({self.spec!r})"

    # ---- nodes

    def node(self, ref: str | int) -> Node:
        """The node with that name or node id."""
        if isinstance(ref, str):
            return self._node_by_name(ref)
        self._require(ref, self.numbering.node_count, "node id")
        if ref >= self.numbering.switch_count:
            return self.host(ref - self.numbering.switch_count)
        level, plane, index = self.numbering.switch_place(ref)
        return self.switch(SWITCH_TIERS[level], plane, index)

    def host(self, index: int) -> Node:
        self._require(index, self.numbering.host_count, "host")
        name = NodeName(Tier.HOST, None, index)
        return Node(self.numbering.switch_count + index, str(name), name.tier, None, index, self.spec.planes)

    def switch(self, tier: Tier, plane: int, index: int) -> Node:
        self._require(plane, self.spec.planes, "plane")
        self._require(index, self.numbering.switches[tier.level], f"{tier.upper()} index")
        name = NodeName(tier, plane, index)
        port_count = self.numbering.downlinks[tier.level] + self.numbering.uplinks[tier.level]
        node_id = self.numbering.switch_id(tier.level, plane, index)
        return Node(node_id, str(name), tier, plane, index, port_count)

    def t0(self, plane: int, index: int) -> Node:
        return self.switch(Tier.T0, plane, index)

    def t0_of(self, host: int, plane: int) -> Node:
        """The T0 that *host* hangs on in *plane*."""
        self._require(host, self.numbering.host_count, "host")
        return self.t0(plane, self.numbering.row(host))

    def switches(self) -> Iterator[Node]:
        """All switches in the order of their ids."""
        return (self.node(node_id) for node_id in range(self.numbering.switch_count))

    def hosts(self) -> Iterator[Node]:
        return (self.host(index) for index in range(self.numbering.host_count))

    def nodes(self) -> Iterator[Node]:
        """Switches, then hosts."""
        return (self.node(node_id) for node_id in range(self.numbering.node_count))

    # ---- ports and links

    def port(self, ref: str | int) -> Port:
        """The port with that name (`h0:2`) or port id."""
        if isinstance(ref, str):
            parts = naming.split_port_name(ref)
            if parts is None:
                raise UsageError(f"{ref!r} is not a port name; write {naming.PORT_GRAMMAR}")
            node = self.node(parts[0])
            return self.port(self.port_id(node, parts[1]))
        found = self._ports.get(ref)
        if found is None:
            found = self._ports[ref] = self._port_of_id(ref)
        return found

    def _port_of_id(self, ref: int) -> Port:
        self._require(ref, self.numbering.port_count, "port id")
        level, plane, lower, uplink = self.numbering.link_place(ref // 2)
        is_upper = ref % 2 == 1
        if level == 0:
            if not is_upper:
                return self._make_port(ref, PortKind.NIC, self.host(lower), plane, plane)
            downlink = self.numbering.downlink(lower)
            return self._make_port(ref, PortKind.T0_DOWN, self.t0_of(lower, plane), plane, downlink)
        tier = SWITCH_TIERS[level - 1 + is_upper]
        if is_upper:
            upper, downlink = self.numbering.above(level - 1, lower, uplink)
            return self._make_port(ref, _DOWN[tier], self.switch(tier, plane, upper), plane, downlink)
        index = self.numbering.downlinks[tier.level] + uplink
        return self._make_port(ref, _UP[tier], self.switch(tier, plane, lower), plane, index)

    def ports(self) -> Iterator[Port]:
        """All ports in the order of their ids."""
        return (self.port(port_id) for port_id in range(self.numbering.port_count))

    def ports_of(self, node: Node) -> Iterator[Port]:
        """The ports of a node in the order of their indices."""
        return (self.port(self.port_id(node, index)) for index in range(node.port_count))

    def peer(self, port: Port) -> Port:
        """The other end of the port's link."""
        return self.port(port.peer_id)

    def port_id(self, node: Node, index: int) -> int:
        """Port id of port *index* of *node*."""
        if not 0 <= index < node.port_count:
            raise UsageError(f"{node.name} has no port {index}: its ports are 0 to {node.port_count - 1}")
        number = self.numbering
        if node.plane is None:
            return 2 * number.host_link_id(node.index, index)
        level = node.tier.level
        uplink = index - number.downlinks[level]
        if uplink >= 0:
            return 2 * number.uplink_id(level, node.plane, node.index, uplink)
        if level == 0:
            return 2 * number.host_link_id(node.index * number.hosts_per_t0 + index, node.plane) + 1
        return 2 * number.uplink_id(level - 1, node.plane, *number.below(level, node.index, index)) + 1

    def link(self, ref: str | int) -> Link:
        """The link with that name (either end first), the name of one of its ports, or link id."""
        if isinstance(ref, str):
            return self._link_by_name(ref)
        self._require(ref, self.numbering.link_count, "link id")
        lower, upper = self.port(2 * ref), self.port(2 * ref + 1)
        return Link(ref, f"{lower.name}{naming.LINK_SEPARATOR}{upper.name}", lower.plane, lower, upper)

    def host_link(self, host: int, plane: int) -> Link:
        self._require(host, self.numbering.host_count, "host")
        self._require(plane, self.spec.planes, "plane")
        return self.link(self.numbering.host_link_id(host, plane))

    def fabric_link(self, plane: int, t0: int, uplink: int) -> Link:
        """The link at that uplink of a T0."""
        self._require(plane, self.spec.planes, "plane")
        self._require(t0, self.numbering.switches[0], "T0 index")
        self._require(uplink, self.numbering.uplink_count, "uplink")
        return self.link(self.numbering.uplink_id(0, plane, t0, uplink))

    def links(self) -> Iterator[Link]:
        """All links in the order of their ids: host links first."""
        return (self.link(link_id) for link_id in range(self.numbering.link_count))

    # ---- addresses

    def mac(self, port_id: int) -> str:
        self._require(port_id, self.numbering.port_count, "port id")
        return addressing.mac(port_id)

    def inner_address(self, host: int, plane: int) -> IPv6Address:
        self._require(host, self.numbering.host_count, "host")
        self._require(plane, self.spec.planes, "plane")
        return addressing.inner_address(host, plane)

    # ---- pairs of hosts, EVs

    def distance(self, source: int, destination: int) -> int:
        """Level of the highest tier on the paths between two hosts: 0 if they share their T0s."""
        self._require(source, self.numbering.host_count, "host")
        self._require(destination, self.numbering.host_count, "host")
        if source == destination:
            raise UsageError(f"h{source} does not send to itself: a path needs two hosts")
        return self.numbering.distance(source, destination)

    @property
    def is_adaptive(self) -> bool:
        """Return True if switches choose among equal links by load, so that an EV does not fix a path."""
        return self.spec.uplink_choice == "adaptive"

    def ev(self, plane: int, uplink: int, copy: int = 0) -> int:
        """The 32-bit entropy value of a path, between any hosts; *uplink* is its way (see `numbering`)."""
        self._require(plane, self.spec.planes, "plane")
        self._require(uplink, self.numbering.way_count(len(self.tiers) - 1), "uplink")
        if self.spec.forwarding == "ecmp":
            raise UsageError("no EV names an uplink where switches hash; ask for that of a path of two hosts")
        if self.spec.forwarding == "stev":
            return stev_value(plane, uplink, uplink % self.numbering.tiers[1].lanes, copy)
        return Ev(plane, uplink, copy).value

    # ---- private

    def _make_port(self, port_id: int, kind: PortKind, node: Node, plane: int, index: int) -> Port:
        if kind is PortKind.NIC:
            interface = f"plane{index}"
        else:
            uplink = index - self.numbering.downlinks[node.tier.level]  # its port index follows the downlinks
            interface = f"up{uplink}" if uplink >= 0 else f"down{index}"
        name = naming.port_name(node.name, index)
        return Port(port_id, name, kind, plane, node, index, interface, addressing.mac(port_id))

    def _require(self, value: int, count: int, what: str) -> None:
        if not 0 <= value < count:
            raise UsageError(f"{what} {value} does not exist: they are numbered 0 to {count - 1}")

    def _exists(self, name: NodeName) -> bool:
        if name.tier is Tier.HOST:
            return name.index < self.numbering.host_count
        is_placed = name.plane is not None and name.plane < self.spec.planes and name.tier in self.tiers
        return is_placed and name.index < self.numbering.switches[name.tier.level]

    def _node_by_name(self, text: str) -> Node:
        name = naming.parse_node_name(text)
        if name is None or not self._exists(name):
            raise UsageError(self._unknown_node(text))
        if name.plane is None:
            return self.host(name.index)
        return self.switch(name.tier, name.plane, name.index)

    def _unknown_node(self, text: str) -> str:
        number = self.numbering
        *others, last = (f"p<plane>-{tier}-<0..{number.switches[tier.level] - 1}>" for tier in self.tiers)
        ranges = (
            f"hosts are h0 to h{number.host_count - 1}, switches {', '.join(others)} and {last} "
            f"with planes 0 to {self.spec.planes - 1}"
        )
        near = naming.guess_node_name(text)
        suggestion = f"; did you mean {near}" if near is not None and self._exists(near) else ""
        return f"there is no node {text!r}{suggestion} ({ranges})"

    def _link_by_name(self, text: str) -> Link:
        if naming.LINK_SEPARATOR not in text:
            return self.link(self.port(text).link_id)
        parts = naming.split_link_name(text)
        if parts is None:
            raise UsageError(f"{text!r} is not a link name; write {naming.LINK_GRAMMAR}")
        one, other = self.port(parts[0]), self.port(parts[1])
        if one.peer_id != other.id:
            raise UsageError(
                f"there is no link {text!r}: {one.name} leads to {self.peer(one).name}, "
                f"{other.name} to {self.peer(other).name}"
            )
        return self.link(one.link_id)
