"""Nodes, ports and links of a fabric as values; `Clos` makes them on demand."""

from dataclasses import dataclass

from mrc_agents.abi import PortKind
from mrc_testbed.topology.naming import Tier


@dataclass(frozen=True, slots=True)
class Node:
    id: int  # lab-wide node number
    name: str  # `p0-t0-2`, `p0-t1-5` or `h3`
    tier: Tier
    plane: int | None  # plane of a switch; None for a host, which is in all
    index: int  # host number, or index of the switch within plane and tier
    port_count: int  # its ports have the indices 0 .. port_count - 1.

    @property
    def is_switch(self) -> bool:
        """Return True if it forwards packets; a host ends their way."""
        return self.tier is not Tier.HOST


@dataclass(frozen=True, slots=True)
class Port:
    id: int  # lab-wide port number, 2 * link id + end
    name: str  # node name and port index, `p0-t0-2:7`
    kind: PortKind  # of a NIC, or downlink or uplink of a tier
    plane: int  # plane of the link
    node: Node  # the node it is on
    index: int  # number within the node
    interface: str  # name of the network interface inside the node
    mac: str  # MAC address

    @property
    def link_id(self) -> int:
        """The link it is an end of."""
        return self.id // 2

    @property
    def peer_id(self) -> int:
        """Port id of the other end of the link."""
        return self.id ^ 1


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two nodes."""

    id: int  # lab-wide link number
    name: str  # names of both ports, `h3:0~p0-t0-0:3`
    plane: int  # the plane it belongs to
    lower: Port  # port of the host, or of the switch of the lower tier: end a of a fault's direction
    upper: Port  # port of the other: end b

    @property
    def ports(self) -> tuple[Port, Port]:
        """Both ends, the lower first."""
        return self.lower, self.upper

    @property
    def is_host_link(self) -> bool:
        """Return True if it joins a host to a T0, not two switches."""
        return self.lower.kind is PortKind.NIC
