"""Which paths each host must deny so that nothing crosses given links. Pure.

host h's link in plane p     h: all of plane p;  all others: plane p to h
uplink u of T0 s, plane p    hosts of s: uplink u of p;  all others: uplink u of p to each host of s
"""

from collections.abc import Iterable

from mrc_agents.nic.denylist import DeniedPath
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.numbering import HostLinkPlace


def paths_around(clos: Clos, links: Iterable[int]) -> dict[int, tuple[DeniedPath, ...]]:
    """By host index, the paths that cross any of *links*; hosts that have none are left out."""
    denied: dict[int, dict[DeniedPath, None]] = {}

    def deny(host: int, plane: int, uplink: int | None, peer: int | None) -> None:
        denied.setdefault(host, {})[DeniedPath(plane, uplink, peer)] = None

    hosts = range(clos.numbering.host_count)
    for link_id in sorted(set(links)):
        place = clos.numbering.link_place(link_id)
        if isinstance(place, HostLinkPlace):
            deny(place.host, place.plane, None, None)
            for other in hosts:
                if other != place.host:
                    deny(other, place.plane, None, place.host)
            continue
        uplink = place.t1 * clos.spec.uplinks_per_pair + place.lane
        behind = [host for host in hosts if clos.numbering.row(host) == place.t0]
        for host in hosts:
            if host in behind:
                deny(host, place.plane, uplink, None)
            else:
                for peer in behind:
                    deny(host, place.plane, uplink, peer)
    return {host: tuple(paths) for host, paths in sorted(denied.items())}
