"""Dense numbers for the nodes, links and ports of a multi-plane Clos, by arithmetic alone.

The data plane addresses its tables by these numbers, so their order is an interface:
docs/reference/protocol.md, "Numbering".

    node   plane 0: T0 0..t0-1, T1 0..t1-1 | plane 1: ... | then the hosts
    link   host links by host, then plane  | then fabric links by plane, T0, T1, lane
    port   2 * link + end, end 0 the lower node (host, or T0 of a fabric link), end 1 the upper (T0, or T1)

A lane numbers the parallel links of one T0-T1 pair; uplink u of a T0 is lane u % uplinks_per_pair towards
T1 u // uplinks_per_pair.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SwitchPlace:
    """Where a switch stands: its plane, whether it is a T1, and its index within plane and tier."""

    plane: int
    is_t1: bool
    index: int


class HostLinkPlace(NamedTuple):
    """Where a host link runs: from the host's NIC port of that plane to its T0."""

    host: int
    plane: int


class FabricLinkPlace(NamedTuple):
    """Where a T0-T1 link runs."""

    plane: int
    t0: int
    t1: int
    lane: int


@dataclass(frozen=True, slots=True)
class Numbering:
    """Counts of a fabric and the bijections between places and numbers; arguments are in range."""

    # planes, t0, t1, hosts_per_t0, uplinks_per_pair: as in TopologySpec; t0 and t1 are per plane
    planes: int
    t0: int
    t1: int
    hosts_per_t0: int
    uplinks_per_pair: int

    @property
    def host_count(self) -> int:
        """Hosts of the fabric; each has one NIC port per plane."""
        return self.t0 * self.hosts_per_t0

    @property
    def uplink_count(self) -> int:
        """Uplinks of one T0, hence paths between two T0s of a plane."""
        return self.t1 * self.uplinks_per_pair

    @property
    def switches_per_plane(self) -> int:
        """T0 and T1 switches of one plane."""
        return self.t0 + self.t1

    @property
    def switch_count(self) -> int:
        """Switches of all planes."""
        return self.planes * self.switches_per_plane

    @property
    def node_count(self) -> int:
        """Switches and hosts."""
        return self.switch_count + self.host_count

    @property
    def host_link_count(self) -> int:
        return self.host_count * self.planes

    @property
    def fabric_links_per_plane(self) -> int:
        return self.t0 * self.uplink_count

    @property
    def link_count(self) -> int:
        """Host links and fabric links."""
        return self.host_link_count + self.planes * self.fabric_links_per_plane

    @property
    def port_count(self) -> int:
        """Both ends of every link."""
        return 2 * self.link_count

    def t0_id(self, plane: int, index: int) -> int:
        return plane * self.switches_per_plane + index

    def t1_id(self, plane: int, index: int) -> int:
        return plane * self.switches_per_plane + self.t0 + index

    def switch_place(self, node_id: int) -> SwitchPlace:
        """Inverse of `t0_id` and `t1_id`."""
        plane, index = divmod(node_id, self.switches_per_plane)
        is_t1 = index >= self.t0
        return SwitchPlace(plane, is_t1, index - self.t0 if is_t1 else index)

    def row(self, host: int) -> int:
        """Index of the T0 that *host* hangs on, the same in every plane."""
        return host // self.hosts_per_t0

    def downlink(self, host: int) -> int:
        """Number of the T0 downlink that leads to *host*, the same in every plane."""
        return host % self.hosts_per_t0

    def host_link_id(self, host: int, plane: int) -> int:
        return host * self.planes + plane

    def fabric_link_id(self, plane: int, t0: int, uplink: int) -> int:
        """Link id of uplink number *uplink* of a T0; the number determines T1 and lane."""
        return self.host_link_count + (plane * self.t0 + t0) * self.uplink_count + uplink

    def link_place(self, link_id: int) -> HostLinkPlace | FabricLinkPlace:
        """Inverse of `host_link_id` and `fabric_link_id`."""
        if link_id < self.host_link_count:
            return HostLinkPlace(*divmod(link_id, self.planes))
        t0_number, uplink = divmod(link_id - self.host_link_count, self.uplink_count)
        plane, t0 = divmod(t0_number, self.t0)
        t1, lane = divmod(uplink, self.uplinks_per_pair)
        return FabricLinkPlace(plane, t0, t1, lane)
