"""The fabric as text for a terminal, and as DOT for Graphviz; long rows are elided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mrc_testbed.shown import format_rate, format_time
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import NodeName, Tier
from mrc_testbed.topology.port_selection import other_rates
from mrc_testbed.topology.spec import TopologySpec

_HUES: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#9a8f00", "#7f7f7f")
"""Hues of planes that colour-blind people can tell apart; plane 8 and on have them again, dashed.

Source: M. Okabe, K. Ito, "Color Universal Design", 2008; olive and grey instead of yellow and black show on
white and on dark ground alike.
"""


def plane_colour(plane: int) -> str:
    """Colour of a plane, `#rrggbb`."""
    return _HUES[plane % len(_HUES)]


def plane_is_dashed(plane: int) -> bool:
    """Return True if the lines of a plane are dashed, because its hue is already another plane's."""
    return plane >= len(_HUES)


GAP: Final = None
"""Stands in a row for the members left out."""

LINKS_DRAWN_MAX: Final = 600
_ROW_DRAWN_MAX: Final = 48
_SHORT_ROW: Final = 4
_FEW_HOSTS: Final = 3
_FEW_PLANES: Final = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """Part of a fabric that a drawing shows; each is a row of indices, GAP for those left out."""

    planes: Sequence[int | None]  # planes
    t0: Sequence[int | None]  # T0s of every plane, and the rows of hosts below them
    t1: Sequence[int | None]  # T1s of every plane
    hosts: Sequence[int | None]  # hosts of every row, by downlink
    is_whole: bool  # nothing is left out


def elide(count: int, room: int) -> Sequence[int | None]:
    """The indices 0 .. count - 1 if there is room for them, else the first ones, GAP and the last.

    Args:
        count: members of the row.
        room: places, at least 3.
    """
    if count <= room:
        return range(count)
    return [*range(room - 2), GAP, count - 1]


def choose_shown(spec: TopologySpec) -> Shown:
    """All of a fabric that a reader can follow, a sample of each row of a larger one."""
    rows = (spec.planes, spec.t0, spec.t1, spec.hosts_per_t0)
    links = spec.planes * spec.t0 * (spec.hosts_per_t0 + spec.t1 * spec.uplinks_per_pair)
    widest = max(spec.planes * spec.t0, spec.planes * spec.t1, spec.t0 * spec.hosts_per_t0)
    is_small = links <= LINKS_DRAWN_MAX and widest <= _ROW_DRAWN_MAX
    rooms = rows if is_small else (_FEW_PLANES, _SHORT_ROW, _SHORT_ROW, _FEW_HOSTS)
    planes, t0, t1, hosts = shown = list(map(elide, rows, rooms))
    return Shown(planes, t0, t1, hosts, is_whole=not any(GAP in row for row in shown))


_ROW_ROOM_MAX: Final = 8
_ROW_CHARACTERS: Final = 64
_MESH: Final = {(False, False): "═", (True, False): "╧", (False, True): "╤", (True, True): "╪"}


def headline(clos: Clos) -> str:
    """One line that says what fabric it is."""
    spec, number = clos.spec, clos.numbering
    speed = "unshaped"
    if spec.port_rate is not None:
        speed = f"{format_rate(spec.port_rate)} ports{other_rates(clos)}"
        if spec.link_delay:
            speed += f", {format_time(spec.link_delay)} per link"
    planes = "1 plane" if spec.planes == 1 else f"{spec.planes} planes"
    sizes = f"{number.host_count} hosts, {number.link_count} links"
    return f"{planes} of {spec.t0} T0 + {spec.t1} T1, {sizes}, {speed}"


def graph_text(clos: Clos) -> str:
    """A drawing of one plane in characters; the planes are alike.

    T1     p*-t1-0  p*-t1-1
              │        │
           ═══╪════════╪════  every T0 to every T1, one link each
              │        │
    T0     p*-t0-0  p*-t0-1
              │        │
    hosts   h0..h3   h4..h7   a port to each plane
    """
    spec = clos.spec
    for room in range(_ROW_ROOM_MAX, 2, -1):
        t0_shown = elide(spec.t0, room)
        t1_names = [_any_plane(clos, Tier.T1, index) for index in elide(spec.t1, room)]
        t0_names = [_any_plane(clos, Tier.T0, index) for index in t0_shown]
        host_names = [_hosts_of_row(clos, row) for row in t0_shown]
        cell = max(len(name) for name in (*t1_names, *t0_names, *host_names)) + 2
        width = cell * max(len(t1_names), len(t0_names))
        if width <= _ROW_CHARACTERS:
            break
    legs_up = "".join(("" if name == "…" else "│").center(cell) for name in t1_names).ljust(width)
    legs_down = "".join(("" if name == "…" else "│").center(cell) for name in t0_names).ljust(width)
    mesh = "".join(_MESH[up != " ", down != " "] for up, down in zip(legs_up, legs_down, strict=True))
    lanes = "one link" if spec.uplinks_per_pair == 1 else f"{spec.uplinks_per_pair} links"
    rows = [
        ("T1", "".join(name.center(cell) for name in t1_names), ""),
        ("", legs_up, ""),
        ("", mesh, f"every T0 to every T1, {lanes} each"),
        ("", legs_down, ""),
        ("T0", "".join(name.center(cell) for name in t0_names), ""),
        ("", legs_down, ""),
        ("hosts", "".join(name.center(cell) for name in host_names), "a port to each plane"),
    ]
    lines = [headline(clos), ""]
    lines += [f"{label:<6} {row:<{width}}  {remark}".rstrip() for label, row, remark in rows]
    if spec.planes > 1:
        lines += [
            "",
            f"p* is any of p0 to p{spec.planes - 1}: the planes are alike and meet in the hosts only",
        ]
    return "\n".join([*lines, ""])


def graph_dot(clos: Clos) -> str:
    """The fabric in the DOT language, planes as clusters; of a large one a sample of each row."""
    shown = choose_shown(clos.spec)
    hosts = " ".join(f'"h{host}"' for host in shown_hosts(clos, shown))
    lines = [
        "graph fabric {",
        f'  label="{headline(clos)}"; labelloc=t; rankdir=BT; ranksep=1.2; nodesep=0.15;',
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10];',
        f"  {{ rank=min; node [shape=ellipse]; {hosts} }}",
    ]
    for plane in shown.planes:
        if plane is not GAP:
            lines += _dot_plane(clos, shown, plane)
    lines += _dot_links(clos, shown)
    return "\n".join([*lines, "}", ""])


def _any_plane(clos: Clos, tier: Tier, index: int | None) -> str:
    if index is GAP:
        return "…"
    name = str(NodeName(tier, 0, index))
    return name if clos.spec.planes == 1 else name.replace("p0", "p*", 1)


def _hosts_of_row(clos: Clos, row: int | None) -> str:
    if row is GAP:
        return "…"
    first, count = row * clos.spec.hosts_per_t0, clos.spec.hosts_per_t0
    return f"h{first}" if count == 1 else f"h{first}..h{first + count - 1}"


def shown_hosts(clos: Clos, shown: Shown) -> Iterator[int]:
    """Host numbers that a drawing shows, row by row."""
    for row in shown.t0:
        for downlink in shown.hosts:
            if row is not GAP and downlink is not GAP:
                yield row * clos.spec.hosts_per_t0 + downlink


def shown_link_ids(clos: Clos, shown: Shown) -> Iterator[int]:
    """Links whose both ends a drawing shows: host links, then fabric links."""
    planes = [plane for plane in shown.planes if plane is not GAP]
    for host in shown_hosts(clos, shown):
        yield from (clos.numbering.host_link_id(host, plane) for plane in planes)
    lanes = clos.spec.uplinks_per_pair
    for plane in planes:
        for t0 in shown.t0:
            for t1 in shown.t1:
                if t0 is not GAP and t1 is not GAP:
                    uplinks = range(t1 * lanes, (t1 + 1) * lanes)
                    yield from (clos.numbering.uplink_id(0, plane, t0, uplink) for uplink in uplinks)


def _dot_plane(clos: Clos, shown: Shown, plane: int) -> Iterator[str]:
    colour = plane_colour(plane)
    yield f'  subgraph "cluster_plane{plane}" {{'
    yield f'    label="plane {plane}"; color="{colour}"; fontcolor="{colour}"; node [color="{colour}"];'
    for tier, indices in ((Tier.T0, shown.t0), (Tier.T1, shown.t1)):
        names = " ".join(f'"{NodeName(tier, plane, index)}"' for index in indices if index is not GAP)
        yield f"    {{ rank=same; {names} }}"
    left_out = clos.spec.t0 + clos.spec.t1 - sum(i is not GAP for i in (*shown.t0, *shown.t1))
    if left_out:
        yield f'    "plane {plane} rest" [shape=plaintext, label="and {left_out} more switches"];'
    yield "  }"


def _dot_links(clos: Clos, shown: Shown) -> Iterator[str]:
    for link_id in shown_link_ids(clos, shown):
        link = clos.link(link_id)
        style = ", style=dashed" if plane_is_dashed(link.plane) else ""
        ends = f'"{link.lower.node.name}" -- "{link.upper.node.name}"'
        yield f'  {ends} [color="{plane_colour(link.plane)}", tooltip="{link.name}"{style}];'
