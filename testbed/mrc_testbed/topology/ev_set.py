"""The entropy values a QP sprays over: as many in every plane, spread over that plane's paths at random."""

from functools import lru_cache
from random import Random

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import COPY_MASK, Ev
from mrc_testbed.topology.path import find_ev


def build_ev_set(
    clos: Clos, source: int, destination: int, count: int | None = None, seed: int = 0
) -> tuple[int, ...]:
    """The EVs of a QP, plane by plane: EV i belongs to plane i // (count / planes).

    Within a plane the uplinks follow a random permutation; where there are more EVs than uplinks it is walked
    again with the next copy number, so that no two EVs are equal and no path has more than one EV more than
    another. Where switches hash, an endpoint cannot know the paths: EVs are random, different source ports.

    Args:
        count: EVs over all planes; what the topology says by default.
        seed: equal seeds give equal sets; QPs of one host pair should differ in it.

    Source: docs/reference/protocol.md, "The EV set"; the senders of a fabric choose independently of one
    another.
    """
    planes = clos.spec.planes
    total = clos.spec.evs if count is None else count
    if total < planes or total % planes:
        raise UsageError(f"{total} EVs cannot be shared equally by {planes} planes")
    ways = clos.numbering.way_count(clos.distance(source, destination))
    per_plane = total // planes
    evs: list[int] = []
    for plane in range(planes):
        random = Random(f"{seed}/{source}/{destination}/{plane}")
        if clos.spec.forwarding == "ecmp":
            evs += [Ev(plane, 0, port).value for port in random.sample(range(COPY_MASK + 1), per_plane)]
            continue
        uplinks = random.sample(range(ways), min(per_plane, ways))
        for copy in range(-(-per_plane // len(uplinks))):
            evs += map(_uplink_evs(clos, plane, copy).__getitem__, uplinks)
        del evs[(plane + 1) * per_plane :]
    return tuple(evs)


@lru_cache(maxsize=1024)
def _uplink_evs(clos: Clos, plane: int, copy: int) -> list[int]:
    ways = clos.numbering.way_count(len(clos.tiers) - 1)
    return [clos.ev(plane, uplink, copy) for uplink in range(ways)]


def one_ev_per_path(clos: Clos, source: int, destination: int) -> list[int]:
    """An EV for each path between two hosts, or, where switches hash, the EVs that a QP would get."""
    if clos.spec.forwarding == "ecmp":
        return list(build_ev_set(clos, source, destination))
    ways = clos.numbering.way_count(clos.distance(source, destination))
    return [
        find_ev(clos, source, destination, plane, uplink)
        for plane in range(clos.spec.planes)
        for uplink in range(ways)
    ]
