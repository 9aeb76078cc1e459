"""The fabric as text for a terminal, and as DOT for Graphviz; long rows are elided."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, product
from typing import Final

from mrc_testbed.shown import format_rate, format_time
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import NodeName, Tier
from mrc_testbed.topology.numbering import Numbering
from mrc_testbed.topology.path import Path
from mrc_testbed.topology.port_selection import other_rates

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

Row = Sequence[int | None]  # indices of what a drawing shows side by side

LINKS_DRAWN_MAX: Final = 600
_ROW_DRAWN_MAX: Final = 48
_SHORT_ROW: Final = 4
_FEW: Final = 3
_FEW_PLANES: Final = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """Part of a fabric that a drawing shows; each is a row of indices, GAP for those left out."""

    planes: Row  # planes
    racks: Row  # T0s of every plane, and the rows of hosts below them
    pods: Row  # pods of every plane; one where T1s are the highest
    # by tier, T0 first, those of every plane: a row of each pod, and one of all T2s
    switches: Sequence[Sequence[Row]]
    hosts: Row  # hosts of every row, by downlink
    is_whole: bool  # nothing is left out


def elide(count: int, room: int) -> Row:
    """The indices 0 .. count - 1 if there is room for them, else the first ones, GAP and the last.

    Args:
        count: members of the row.
        room: places, at least 3.
    """
    if count <= room:
        return range(count)
    return [*range(room - 2), GAP, count - 1]


def _elide_each(groups: Row, size: int, room: int) -> list[Row]:
    """The members of each of *groups*, which have *size* each, as one row numbers them."""
    members = elide(size, room)
    return [
        [GAP] if group is GAP else [GAP if member is GAP else group * size + member for member in members]
        for group in groups
    ]


def _pod_sizes(number: Numbering) -> Sequence[int]:
    """T0s and T1s of a pod."""
    return [count // number.groups[1] for count in number.switches[:2]]


def choose_shown(number: Numbering) -> Shown:
    """All of a fabric that a reader can follow, a sample of each row of a larger one."""
    widest = max(number.planes * max(number.switches), number.host_count)
    is_small = number.link_count <= LINKS_DRAWN_MAX and widest <= _ROW_DRAWN_MAX
    has_pods = len(number.tiers) > 2
    rooms = (_SHORT_ROW if has_pods else _FEW_PLANES, _SHORT_ROW, _FEW)
    few_planes, short, few = [number.node_count] * len(rooms) if is_small else rooms
    planes, hosts = elide(number.planes, few_planes), elide(number.hosts_per_t0, few)
    pods = elide(number.groups[1], few)
    switches = [_elide_each(pods, size, short) for size in _pod_sizes(number)]
    if has_pods:  # those that the T1s shown of a pod lead to
        switches.append([list(chain(*_elide_each(switches[1][0], number.tiers[2].switches, few)))])
    is_whole = not any(GAP in row for row in (planes, pods, hosts, *chain(*switches)))
    return Shown(planes, list(chain(*switches[0])), pods, switches, hosts, is_whole)


_ROW_ROOM_MAX: Final = 8
_ROW_CHARACTERS: Final = 64
_POD_GAP: Final = "  "
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
    return f"{planes} of {number.switches_by_tier}, {sizes}, {speed}"


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
    spec, number = clos.spec, clos.numbering
    last = (_any_plane(clos, tier, number.switches[tier.level] - 1) for tier in clos.tiers)
    cell = max(map(len, (*last, _hosts_of_row(clos, number.groups[0] - 1)))) + 2
    for room in range(_ROW_ROOM_MAX, 2, -1):
        pods = elide(number.groups[1], room)
        tiers = [_elide_each(pods, size, room) for size in _pod_sizes(number)]
        in_pod = max(len(rows[0]) for rows in tiers)
        widths = [1 if pod is GAP else cell * in_pod for pod in pods]
        floor = _POD_GAP.join(" " if room == 1 else "═" * room for room in widths)
        width = len(floor)
        if width <= _ROW_CHARACTERS:
            break
    tiers += [[elide(count, max(3, width // cell))] for count in number.switches[2:]]

    def line(blocks: Sequence[Row], show: Callable[[int | None], str]) -> str:
        """A cell of each member, pod by pod."""
        rooms = widths if blocks is not tiers[-1] else [width]
        return _POD_GAP.join(
            "".join(show(member).center(min(cell, room)) for member in block).ljust(room)
            for block, room in zip(blocks, rooms, strict=True)
        )

    legs = [line(blocks, lambda member: "" if member is GAP else "│") for blocks in tiers]
    rows = []
    for tier in reversed(clos.tiers):
        level, (_, switches, lanes) = tier.level, number.tiers[tier.level]
        names = line(tiers[level], partial(_any_plane, clos, tier))
        rows += [(tier.upper(), names, ""), ("", legs[level], "")]
        if level:
            far = f"{switches} of the T2s" if level > 1 else "every T1" + " of its pod" * (len(tiers) > 2)
            remark = f"every T{level - 1} to {far}, {'one link' if lanes == 1 else f'{lanes} links'} each"
            ends = zip(legs[level], legs[level - 1], floor if level == 1 else "═" * width, strict=True)
            mesh = (" " if ground == " " else _MESH[up != " ", down != " "] for up, down, ground in ends)
            rows += [("", "".join(mesh), remark), ("", legs[level - 1], "")]
    rows.append(("hosts", line(tiers[0], partial(_hosts_of_row, clos)), "a port to each plane"))
    if len(pods) > 1:
        pod_names = ("…" if pod is GAP else f"pod {pod}".center(cell * in_pod) for pod in pods)
        rows.append(("", _POD_GAP.join(pod_names), ""))
    lines = [headline(clos), ""]
    lines += [f"{label:<6} {row:<{width}}  {remark}".rstrip() for label, row, remark in rows]
    alike = f"p* is any of p0 to p{spec.planes - 1}: the planes are alike and meet in the hosts only"
    lines += ["", alike] if spec.planes > 1 else []
    return "\n".join([*lines, ""])


def graph_dot(clos: Clos) -> str:
    """The fabric in the DOT language, planes as clusters; of a large one a sample of each row."""
    shown = choose_shown(clos.numbering)
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


def switches_crossed(clos: Clos, path: Path) -> dict[str, str | None]:
    """The first switch of each tier above T0 that a path crosses, by the name of the tier."""
    first = {hop.node.tier: hop.node.name for hop in reversed(path.hops)}
    return {tier.value: first.get(tier) for tier in clos.tiers[1:]}


def _any_plane(clos: Clos, tier: Tier, index: int | None) -> str:
    if index is GAP:
        return "…"
    name = str(NodeName(tier, 0, index))
    return name if clos.spec.planes == 1 else name.replace("p0", "p*", 1)


def _hosts_of_row(clos: Clos, row: int | None) -> str:
    if row is GAP:
        return "…"
    first, count = row * clos.numbering.hosts_per_t0, clos.numbering.hosts_per_t0
    return f"h{first}" if count == 1 else f"h{first}..h{first + count - 1}"


def shown_hosts(clos: Clos, shown: Shown) -> Iterator[int]:
    """Host numbers that a drawing shows, row by row."""
    for row, downlink in product(shown.racks, shown.hosts):
        if row is not GAP and downlink is not GAP:
            yield row * clos.numbering.hosts_per_t0 + downlink


def shown_link_ids(clos: Clos, shown: Shown) -> Iterator[int]:
    """Links whose both ends a drawing shows: host links, then fabric links."""
    planes = [plane for plane in shown.planes if plane is not GAP]
    for host in shown_hosts(clos, shown):
        yield from (clos.numbering.host_link_id(host, plane) for plane in planes)
    number = clos.numbering
    rows = [list(chain(*blocks)) for blocks in shown.switches]
    for level, (lower, upper) in enumerate(pairwise(rows)):
        for plane, index, uplink in product(planes, lower, range(number.uplinks[level])):
            if index is not GAP and number.above(level, index, uplink)[0] in upper:
                yield number.uplink_id(level, plane, index, uplink)


def _dot_plane(clos: Clos, shown: Shown, plane: int) -> Iterator[str]:
    colour = plane_colour(plane)
    yield f'  subgraph "cluster_plane{plane}" {{'
    yield f'    label="plane {plane}"; color="{colour}"; fontcolor="{colour}"; node [color="{colour}"];'
    for tier, rows in zip(clos.tiers, shown.switches, strict=True):
        names = " ".join(f'"{NodeName(tier, plane, index)}"' for index in chain(*rows) if index is not GAP)
        yield f"    {{ rank=same; {names} }}"
    shown_count = sum(index is not GAP for rows in shown.switches for index in chain(*rows))
    left_out = clos.numbering.switches_per_plane - shown_count
    if left_out:
        yield f'    "plane {plane} rest" [shape=plaintext, label="and {left_out} more switches"];'
    yield "  }"


def _dot_links(clos: Clos, shown: Shown) -> Iterator[str]:
    for link_id in shown_link_ids(clos, shown):
        link = clos.link(link_id)
        style = ", style=dashed" if plane_is_dashed(link.plane) else ""
        ends = f'"{link.lower.node.name}" -- "{link.upper.node.name}"'
        yield f'  {ends} [color="{plane_colour(link.plane)}", tooltip="{link.name}"{style}];'
