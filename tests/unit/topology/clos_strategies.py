"""Hypothesis strategies for fabrics and for routes through them."""

from dataclasses import dataclass

from hypothesis import strategies as st

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec


@dataclass(frozen=True)
class Route:
    """A fabric and one path through it, as numbers."""

    clos: Clos
    source: int
    destination: int
    plane: int
    uplink: int


@st.composite
def small_closes(draw: st.DrawFn) -> Clos:
    """Fabrics small enough to enumerate, with every count odd and even, one and several."""
    t0 = draw(st.integers(1, 4))
    return Clos(
        TopologySpec(
            planes=draw(st.integers(1, 4)),
            t0=t0,
            t1=draw(st.integers(1, 4)),
            hosts_per_t0=draw(st.integers(2 if t0 == 1 else 1, 4)),
            uplinks_per_pair=draw(st.integers(1, 3)),
        )
    )


@st.composite
def three_tier_closes(draw: st.DrawFn) -> Clos:
    """Small fabrics of three tiers; a pod, a T0 in it, or a switch above may be the only one."""
    small = st.integers(1, 3)
    tiers = [{"joins": draw(small), "switches": draw(small), "links": draw(small)} for _ in range(2)]
    hosts = draw(st.integers(2 if tiers[0]["joins"] * tiers[1]["joins"] == 1 else 1, 3))
    return Clos(
        TopologySpec.model_validate(
            {"planes": draw(small), "tiers": [{"joins": hosts}, *tiers]}, strict=False
        )
    )


@st.composite
def any_closes(draw: st.DrawFn) -> Clos:
    """Fabrics up to the limits of uSIDs and port numbers."""
    lanes = draw(st.integers(1, 8))
    t0 = draw(st.integers(1, 1024 // lanes))
    t1 = draw(st.integers(1, 1024 // lanes))
    hosts_per_t0 = draw(st.integers(2 if t0 == 1 else 1, 1024))
    ports_per_plane = 2 * t0 * (hosts_per_t0 + t1 * lanes)
    planes = draw(st.integers(1, max(1, min(16, (1 << 24) // ports_per_plane))))
    return Clos(TopologySpec(planes=planes, t0=t0, t1=t1, hosts_per_t0=hosts_per_t0, uplinks_per_pair=lanes))


@st.composite
def routes(draw: st.DrawFn, closes: st.SearchStrategy[Clos] | None = None) -> Route:
    """A fabric, two different hosts, a plane, and an uplink where the path has one."""
    clos = draw(any_closes() | three_tier_closes() if closes is None else closes)
    source = draw(st.integers(0, clos.numbering.host_count - 1))
    offset = draw(st.integers(1, clos.numbering.host_count - 1))
    destination = (source + offset) % clos.numbering.host_count
    plane = draw(st.integers(0, clos.spec.planes - 1))
    uplink = draw(st.integers(0, clos.numbering.way_count(clos.distance(source, destination)) - 1))
    return Route(clos, source, destination, plane, uplink)
