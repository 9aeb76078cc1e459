"""Dense numbers for the nodes, links and ports of a multi-plane Clos, by arithmetic alone.

The data plane addresses its tables by these numbers, so their order is an interface:
docs/reference/protocol.md, "Numbering".

    node   plane 0: T0 0.., T1 0.., T2 0.. | plane 1: ... | then the hosts
    link   host links by host, then plane  | T0-T1 links by plane, T0, uplink | T1-T2 links likewise
    port   2 * link + end, end 0 the lower node, end 1 the upper

The switches of a tier form groups, each of which joins several groups of the tier below: a T0 joins hosts,
the T1s of a pod join T0s, the T2s join pods. Switches of a tier are numbered group by group. Switch i of a
group has links to the s switches i * s .. i * s + s - 1 of the group above, and to each by the same number of
lanes: its uplink u leads to number u // lanes of these, by lane u % lanes.

A path takes an uplink at each switch on its way up, and comes down by the same lanes. One number, its way,
says which: the uplink at the T0, plus the uplinks of a T0 times the uplink at the T1.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from operator import mul
from typing import NamedTuple


class TierSize(NamedTuple):
    joins: int  # groups of the tier below that a group joins; hosts at a T0
    switches: int = 1  # that each switch of the tier below has links to; 1 in T0
    lanes: int = 1  # parallel links between two switches


class LinkPlace(NamedTuple):
    """Where a link runs: from a host, or a switch, to one of the tier *level*."""

    level: int  # of the upper end; 0 for a host link
    plane: int
    lower: int  # the host, or the index of the switch
    uplink: int  # which of those of the lower end in this plane


@dataclass(frozen=True)
class Numbering:
    """Counts of a fabric and the bijections between places and numbers; arguments are in range."""

    planes: int
    tiers: tuple[TierSize, ...]  # of a plane, from T0 up

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """Groups of each tier per plane: T0s, pods, 1."""
        joins = (tier.joins for tier in self.tiers[:0:-1])
        return tuple(accumulate(joins, mul, initial=1))[::-1]

    @cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """Switches of a group, by tier."""
        return tuple(accumulate((tier.switches for tier in self.tiers), mul))

    @cached_property
    def switches(self) -> tuple[int, ...]:
        """Switches per plane, by tier."""
        return tuple(map(mul, self.groups, self.group_sizes))

    @property
    def switches_by_tier(self) -> str:
        """The switches of a plane for people: `2 T0 + 2 T1`."""
        return " + ".join(f"{count} T{level}" for level, count in enumerate(self.switches))

    @cached_property
    def downlinks(self) -> tuple[int, ...]:
        """Downlinks of a switch, by tier."""
        return tuple(tier.joins * tier.lanes for tier in self.tiers)

    @cached_property
    def uplinks(self) -> tuple[int, ...]:
        """Uplinks of a switch, by tier; the highest has none."""
        return (*(tier.switches * tier.lanes for tier in self.tiers[1:]), 0)

    @cached_property
    def _links_end(self) -> tuple[int, ...]:
        """The id behind the last link of each level."""
        links = map(mul, self.switches, self.uplinks[:-1])
        return tuple(accumulate((self.planes * count for count in links), initial=self.host_link_count))

    @cached_property
    def host_count(self) -> int:
        """Hosts of the fabric; each has one NIC port per plane."""
        return self.groups[0] * self.hosts_per_t0

    @property
    def hosts_per_t0(self) -> int:
        return self.tiers[0].joins

    @property
    def uplink_count(self) -> int:
        """Uplinks of one T0."""
        return self.uplinks[0]

    @cached_property
    def switches_per_plane(self) -> int:
        return sum(self.switches)

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
    def link_count(self) -> int:
        """Host links and fabric links."""
        return self._links_end[-1]

    @property
    def port_count(self) -> int:
        """Both ends of every link."""
        return 2 * self.link_count

    @cached_property
    def diameter(self) -> int:
        """The distance of the hosts that are farthest apart."""
        return self.distance(0, self.host_count - 1)

    @property
    def far_shift(self) -> int:
        """From a host to the next in its place as far away as hosts are: of a pod, or a T0; 1 in one T0."""
        return self.host_count // self.groups[self.diameter - 1] if self.diameter else 1

    def switch_id(self, level: int, plane: int, index: int) -> int:
        return plane * self.switches_per_plane + sum(self.switches[:level]) + index

    def switch_place(self, node_id: int) -> tuple[int, int, int]:
        """Level, plane and index of a switch: inverse of `switch_id`."""
        plane, index = divmod(node_id, self.switches_per_plane)
        level = 0
        while index >= self.switches[level]:
            index -= self.switches[level]
            level += 1
        return level, plane, index

    def row(self, host: int) -> int:
        """Index of the T0 that *host* hangs on, the same in every plane."""
        return host // self.hosts_per_t0

    def group(self, level: int, row: int) -> int:
        """The group of a tier that the T0 *row* is below: its pod, for T1."""
        return row // prod(tier.joins for tier in self.tiers[1 : level + 1])

    def downlink(self, host: int) -> int:
        """Number of the T0 downlink that leads to *host*, the same in every plane."""
        return host % self.hosts_per_t0

    def distance(self, host: int, other: int) -> int:
        """Level of the lowest tier that joins two hosts: 0 if they share their T0s, 1 across a T1."""
        return self.row_distance(self.row(host), self.row(other))

    def row_distance(self, group: int, far_group: int) -> int:
        """The distance of the hosts of two T0s."""
        level = 0
        while group != far_group:
            level += 1
            group, far_group = group // self.tiers[level].joins, far_group // self.tiers[level].joins
        return level

    def way_count(self, distance: int) -> int:
        """Paths of a plane between hosts of that distance."""
        return prod(self.uplinks[:distance])

    def uplinks_of_way(self, way: int, distance: int) -> list[int]:
        """The uplink at each switch on the way up, the T0 first; that to the highest tier may not exist."""
        uplinks = []
        for level in range(distance):
            is_last = level == len(self.tiers) - 2
            rest, uplink = divmod(way, self.uplinks[level])
            uplinks.append(way if is_last else uplink)
            way = rest
        return uplinks

    def above(self, level: int, index: int, uplink: int) -> tuple[int, int]:
        """The far end of an uplink of a switch of that tier: index of the switch above, its downlink."""
        tier = self.tiers[level + 1]
        group, place = divmod(index, self.group_sizes[level])
        number, lane = divmod(uplink, tier.lanes)
        group, child = divmod(group, tier.joins)
        index = group * self.group_sizes[level + 1] + place * tier.switches + number
        return index, child * tier.lanes + lane

    def below(self, level: int, index: int, downlink: int) -> tuple[int, int]:
        """The far end of a downlink of a switch above T0: index of the switch below, its uplink."""
        tier = self.tiers[level]
        group, place = divmod(index, self.group_sizes[level])
        child, lane = divmod(downlink, tier.lanes)
        place, number = divmod(place, tier.switches)
        index = (group * tier.joins + child) * self.group_sizes[level - 1] + place
        return index, number * tier.lanes + lane

    def host_link_id(self, host: int, plane: int) -> int:
        return host * self.planes + plane

    def uplink_id(self, level: int, plane: int, index: int, uplink: int) -> int:
        """Link id of an uplink of a switch of that tier."""
        return self._links_end[level] + (plane * self.switches[level] + index) * self.uplinks[level] + uplink

    def links_at(self, level: int) -> range:
        """Ids of the links whose upper end is in that tier; host links have level 0."""
        return range(self._links_end[level - 1] if level else 0, self._links_end[level])

    def link_place(self, link_id: int) -> LinkPlace:
        """Inverse of `host_link_id` and `uplink_id`."""
        if link_id < self.host_link_count:
            host, plane = divmod(link_id, self.planes)
            return LinkPlace(0, plane, host, 0)
        level = next(level for level in range(1, len(self.tiers)) if link_id < self._links_end[level])
        number, uplink = divmod(link_id - self._links_end[level - 1], self.uplinks[level - 1])
        return LinkPlace(level, *divmod(number, self.switches[level - 1]), uplink)

    def links_of_way(self, plane: int, row: int, far_row: int, way: int) -> list[int]:
        """Ids of the links between switches of the path between two T0s, those up and those down."""
        uplinks = self.uplinks_of_way(way, self.row_distance(row, far_row))
        return [*self.links_up(plane, row, uplinks), *self.links_up(plane, far_row, uplinks)]

    def links_up(self, plane: int, row: int, uplinks: Iterable[int]) -> Iterator[int]:
        """Ids of the links on the way up from a T0 by these uplinks, one of each tier."""
        index = row
        for level, uplink in enumerate(uplinks):
            yield self.uplink_id(level, plane, index, uplink)
            index, _ = self.above(level, index, uplink)
