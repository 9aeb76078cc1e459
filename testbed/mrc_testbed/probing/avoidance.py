"""Which paths each host must deny so that nothing crosses given links. Pure.

host h's link in plane p     h: all of plane p;  all others: plane p to h
uplink u of T0 s, plane p    hosts of s: uplink u of p;  all others: uplink u of p to each host of s
uplink v of a T1, plane p    hosts of its pod: the ways by v to each host of others;  those: likewise back
"""

from collections.abc import Iterable
from itertools import product

from mrc_agents.nic.denylist import DeniedPath
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.numbering import Numbering


def paths_around(clos: Clos, links: Iterable[int]) -> dict[int, tuple[DeniedPath, ...]]:
    """By host index, the paths that cross any of *links*; hosts that have none are left out."""
    denied: dict[int, dict[DeniedPath, None]] = {}

    def deny(host: int, plane: int, uplink: int | None, peer: int | None) -> None:
        denied.setdefault(host, {})[DeniedPath(plane, uplink, peer)] = None

    number = clos.numbering
    hosts = range(number.host_count)
    for link_id in sorted(set(links)):
        level, plane, lower, uplink = number.link_place(link_id)
        if level == 0:
            deny(lower, plane, None, None)
            for other in hosts:
                if other != lower:
                    deny(other, plane, None, lower)
            continue
        group = lower // number.group_sizes[level - 1]
        behind = [host for host in hosts if number.group(level - 1, number.row(host)) == group]
        beyond = [host for host in hosts if host not in behind]
        for host, way in product(hosts, _ways_by(number, level, lower, uplink)):
            if level == 1 and host in behind:  # all of its paths that the way names cross it
                deny(host, plane, way, None)
                continue
            for peer in beyond if host in behind else behind:
                deny(host, plane, way, peer)
    return {host: tuple(paths) for host, paths in sorted(denied.items())}


def _ways_by(number: Numbering, level: int, lower: int, uplink: int) -> list[int]:
    """The ways that cross an uplink of a switch: of a T0 all that begin with it."""
    count = number.uplink_count
    if level == 1:
        return [uplink + count * other for other in range(max(1, number.uplinks[1]))]
    lanes, place = number.tiers[1].lanes, lower % number.group_sizes[1]
    return [first + count * uplink for first in range(place * lanes, (place + 1) * lanes)]
