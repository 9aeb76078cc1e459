"""The fabric as an SVG drawing: per plane a row of each tier, in pods below T2s; the hosts below all planes.

The file stands alone: no script, no font, no request; it follows a light or dark reader. Every node and link
is an element with its name as tool-tip and in `data-name`, so that a report can mark it. Of a large fabric a
sample of each row is drawn, `…` standing for the rest.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import chain
from types import MappingProxyType
from typing import Final

from mrc_testbed.drawing.graph import (
    GAP,
    Row,
    Shown,
    choose_shown,
    headline,
    plane_colour,
    plane_is_dashed,
    shown_hosts,
    shown_link_ids,
)
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link
from mrc_testbed.topology.naming import NodeName, Tier

_MARGIN: Final = 28
_NODE_HEIGHT: Final = 24
_NODE_GAP: Final = 12
_CHARACTER_WIDTH: Final = 7
_PLANE_PADDING: Final = 14
_PLANE_GAP: Final = 22
_ROW_GAP: Final = 26
_TITLE_Y: Final = 34
_PLANE_Y: Final = 78
_TOP_Y: Final = _PLANE_Y + 34
_TIER_STEP: Final = _NODE_HEIGHT + 76
_POD_PADDING: Final = 8
_POD_HEIGHT: Final = _TIER_STEP + _NODE_HEIGHT + 2 * _POD_PADDING
_DROP_MIN: Final = 110
_DROP_PER_WIDTH: Final = 0.05
_FOOT: Final = 60
_GROUPS_SHARE: Final = 0.7
_LANE_OFFSET: Final = 4
_TITLE_CHARACTER_WIDTH: Final = 10

_STYLE: Final = """
  .fabric { --ground: #ffffff; --ink: #1f2328; --soft: #59636e; --box: #ffffff; --tint: 0.06; --line: 0.75 }
  @media screen and (prefers-color-scheme: dark) {
    .fabric { --ground: #0d1117; --ink: #e6edf3; --soft: #9198a1; --box: #161b22; --tint: 0.12; --line: 1 }
  }
  .fabric text {
    font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--ink); text-anchor: middle
  }
  .fabric .title { font-size: 16px; font-weight: 600; text-anchor: start }
  .fabric .note { fill: var(--soft); text-anchor: start }
  .fabric .row { fill: var(--soft) }
  .fabric .plane-name { font-weight: 600; text-anchor: start }
  .fabric .plane { fill-opacity: var(--tint); stroke-opacity: 0.45 }
  .fabric .node rect { fill: var(--box); stroke-width: 1.5 }
  .fabric .host rect { stroke: var(--soft) }
  .fabric .node.marked rect { stroke-width: 4 }
  .fabric .group { fill: none; stroke: var(--soft); stroke-opacity: 0.45; stroke-dasharray: 3 3 }
  .fabric .link { fill: none; stroke-width: 1.6; stroke-opacity: var(--line) }
  .fabric .link:hover { stroke-width: 4; stroke-opacity: 1 }
  .fabric .unmarked { stroke-opacity: 0.16 }
  .fabric .link.marked { stroke-width: 3.4; stroke-opacity: 1 }
""".strip("\n")
"""All rules are for this drawing alone, so that a page may contain it."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Boxes of equal width side by side."""

    members: Row  # what is drawn; GAP takes half a place
    left: float  # x of the row's left edge
    width: float  # of a box

    @property
    def extent(self) -> float:
        """Width of the whole row."""
        places = sum(0.5 if member is GAP else 1.0 for member in self.members)
        return places * self.width + (len(self.members) - 1) * _NODE_GAP

    def centres(self) -> Iterator[tuple[int | None, float]]:
        """Each member with the x of its centre."""
        x = self.left
        for member in self.members:
            width = self.width / 2 if member is GAP else self.width
            yield member, x + width / 2
            x += width + _NODE_GAP

    def centred_in(self, left: float, width: float) -> "_Row":
        """The same row in the middle of a wider space."""
        return _Row(self.members, left + (width - self.extent) / 2, self.width)


class _Layout:
    """Where everything of a drawing stands, as far as it is not a constant."""

    def __init__(self, clos: Clos, shown: Shown) -> None:
        self.clos = clos
        self.shown = shown
        number = clos.numbering
        switch_width = _box_width(f"T1 {max(number.switches) - 1}")
        host_width = max(_box_width(f"h{number.host_count - 1}"), _port_spread(len(shown.planes)) + 12)
        rows = [[_Row(row, 0, switch_width) for row in rows] for rows in shown.switches]
        padding = 2 * _POD_PADDING * (len(rows) > 2)
        self.pods = _Row(shown.pods, 0, max(row.extent for row in chain(*rows[:2])) + padding)
        self.plane_width = max(60, self.pods.extent, *(row.extent for row in chain(*rows[2:])))
        self.plane_width += 2 * _PLANE_PADDING
        hosts = _Row(shown.hosts, 0, host_width)
        plane_places = _Row(shown.planes, 0, self.plane_width + _PLANE_GAP)
        # Hosts spread out under wide planes, or their links would run flat and on top of one another.
        spread = _GROUPS_SHARE * plane_places.extent / len(shown.racks) - _NODE_GAP
        group_places = _Row(shown.racks, 0, max(hosts.extent + _ROW_GAP, spread))
        self.width = 2 * _MARGIN + max(
            group_places.extent, plane_places.extent, len(headline(clos)) * _TITLE_CHARACTER_WIDTH
        )
        self.plane_bottom = self.y(0) + _NODE_HEIGHT + _PLANE_PADDING
        self.host_y = round(self.plane_bottom + _DROP_MIN + _DROP_PER_WIDTH * self.width)
        self.height = self.host_y + _NODE_HEIGHT + _FOOT
        self.planes = plane_places.centred_in(0, self.width)
        self.groups = group_places.centred_in(0, self.width)
        self.group_width = hosts.extent + _ROW_GAP - 10
        self.switch_width, self.host_width = switch_width, host_width
        places = (self.pods, self.pods, _Row([0], 0, self.plane_width))
        self.switch_rows = [
            (tier, plane, row.centred_in(x, 0))
            for tier, tier_rows, place in reversed(list(zip(clos.tiers, rows, places, strict=False)))
            for plane, middle in self.planes.centres()
            if plane is not GAP
            for row, (_, x) in zip(tier_rows, place.centred_in(middle, 0).centres(), strict=True)
        ]
        self.host_rows = {row: hosts.centred_in(x, 0) for row, x in self.groups.centres() if row is not GAP}
        self._x: dict[NodeName, float] = {}
        for tier, plane, boxes in self.switch_rows:
            self._x |= {NodeName(tier, plane, i): x for i, x in boxes.centres() if i is not GAP}
        for row, boxes in self.host_rows.items():
            first = row * number.hosts_per_t0
            self._x |= {NodeName(Tier.HOST, None, first + i): x for i, x in boxes.centres() if i is not GAP}

    def x(self, tier: Tier, plane: int | None, index: int) -> float:
        """The centre of a node."""
        return self._x[NodeName(tier, plane, index)]

    def y(self, level: int) -> int:
        """The top of the switches of a tier."""
        return _TOP_Y + (len(self.clos.tiers) - 1 - level) * _TIER_STEP

    def port_x(self, host: int, plane: int) -> float:
        """The NIC port of *host* to *plane*, on top of its box."""
        places = [place for place in self.shown.planes if place is not GAP]
        spread = _port_spread(len(places))
        step = spread / (len(places) - 1) if len(places) > 1 else 0
        return self.x(Tier.HOST, None, host) - spread / 2 + places.index(plane) * step


def graph_svg(
    clos: Clos, marked_links: Collection[int] = (), remarks: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The fabric as a complete SVG file.

    Args:
        marked_links: link ids to stand out, such as a path or what a fault hits; the other links fade. Of a
            large fabric, those that are not drawn are left out.
        remarks: name of a link or node -> more to say in its tool-tip; such a node stands out.
    """
    shown = choose_shown(clos.numbering)
    layout = _Layout(clos, shown)
    note = "hosts in rack i connect to T0 i of every plane"
    if not shown.is_whole:
        note += "; drawn is a sample of each row, … stands for the rest"
    width = round(layout.width)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fabric" viewBox="0 0 {width} {layout.height}" '
        f'width="{width}" height="{layout.height}" role="img" aria-label="{headline(clos)}">',
        f"<style>\n{_STYLE}\n</style>",
        '<rect width="100%" height="100%" style="fill: var(--ground)"/>',
        f'<text class="title" x="{_MARGIN}" y="{_TITLE_Y}">{headline(clos)}</text>',
        f'<text class="note" x="{_MARGIN}" y="{_TITLE_Y + 20}">{note}</text>',
        *_draw_planes(layout),
        *_draw_links(layout, frozenset(marked_links), remarks),
        *_draw_switches(layout, remarks),
        *_draw_hosts(layout, remarks),
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def _tool_tip(name: str, remarks: Mapping[str, str]) -> str:
    return f"{name}: {escape(remarks[name])}" if name in remarks else name


def _box_width(text: str) -> float:
    return max(40, len(text) * _CHARACTER_WIDTH + 14)


def _port_spread(plane_count: int) -> float:
    return 8 * (plane_count - 1)


def _draw_planes(layout: _Layout) -> Iterator[str]:
    height = layout.plane_bottom - _PLANE_Y
    for plane, centre in layout.planes.centres():
        if plane is GAP:
            yield f'<text class="row" x="{centre:.1f}" y="{_PLANE_Y + height / 2:.1f}">…</text>'
            continue
        left, colour = centre - layout.plane_width / 2, plane_colour(plane)
        yield (
            f'<rect class="plane" data-plane="{plane}" x="{left:.1f}" y="{_PLANE_Y}" '
            f'width="{layout.plane_width:.1f}" height="{height}" rx="10" fill="{colour}" stroke="{colour}"/>'
        )
        x, y = left + _PLANE_PADDING, _PLANE_Y + 20
        yield f'<circle cx="{x + 5:.1f}" cy="{y - 4}" r="5" fill="{colour}"/>'
        yield f'<text class="plane-name" x="{x + 16:.1f}" y="{y}">plane {plane}</text>'
        for pod, middle in layout.pods.centred_in(centre, 0).centres():
            if pod is not GAP and len(layout.clos.tiers) > 2:
                x, y = middle - layout.pods.width / 2, layout.y(1) - _POD_PADDING
                box = f'x="{x:.1f}" y="{y}" width="{layout.pods.width:.1f}" height="{_POD_HEIGHT}" rx="8"'
                turned = f"translate({x + 16:.1f} {y + _POD_HEIGHT / 2:.1f}) rotate(-90)"
                yield f'<rect class="group" {box}/><text class="row" transform="{turned}">pod {pod}</text>'


def _draw_links(layout: _Layout, marked: frozenset[int], remarks: Mapping[str, str]) -> Iterator[str]:
    link_ids = sorted(shown_link_ids(layout.clos, layout.shown), key=lambda link_id: link_id in marked)
    for link_id in link_ids:
        link = layout.clos.link(link_id)
        classes = "link"
        if marked:
            classes += " marked" if link_id in marked else " unmarked"
        dash = ' stroke-dasharray="5 3"' if plane_is_dashed(link.plane) else ""
        route = _host_link_route(layout, link) if link.is_host_link else _fabric_link_route(layout, link)
        yield (
            f'<path class="{classes}" data-name="{link.name}" d="{route}" '
            f'stroke="{plane_colour(link.plane)}"{dash}><title>{_tool_tip(link.name, remarks)}</title></path>'
        )


def _host_link_route(layout: _Layout, link: Link) -> str:
    x1, y1 = layout.port_x(link.lower.node.index, link.plane), layout.host_y
    x2, y2 = layout.x(Tier.T0, link.plane, link.upper.node.index), layout.y(0) + _NODE_HEIGHT
    bend = (y1 - y2) * 0.45
    return f"M{x1:.1f} {y1} C{x1:.1f} {y1 - bend:.1f} {x2:.1f} {y2 + bend:.1f} {x2:.1f} {y2}"


def _fabric_link_route(layout: _Layout, link: Link) -> str:
    lower, upper = link.lower.node, link.upper.node
    lanes = layout.clos.numbering.tiers[upper.tier.level].lanes
    lane = link.upper.index % lanes
    offset = (lane - (lanes - 1) / 2) * min(_LANE_OFFSET, layout.switch_width / 2 / lanes)
    x1 = layout.x(lower.tier, link.plane, lower.index) + offset
    x2 = layout.x(upper.tier, link.plane, upper.index) + offset
    return f"M{x1:.1f} {layout.y(lower.tier.level)} L{x2:.1f} {layout.y(upper.tier.level) + _NODE_HEIGHT}"


def _draw_switches(layout: _Layout, remarks: Mapping[str, str]) -> Iterator[str]:
    for tier, plane, row in layout.switch_rows:
        y = layout.y(tier.level)
        for index, x in row.centres():
            if index is GAP:
                yield f'<text class="row" x="{x:.1f}" y="{y + 16}">…</text>'
            else:
                name = str(NodeName(tier, plane, index))
                label = f"{tier.value.upper()} {index}"
                place = x, y, layout.switch_width
                yield from _box(name, label, "node", place, plane_colour(plane), remarks)


def _draw_hosts(layout: _Layout, remarks: Mapping[str, str]) -> Iterator[str]:
    per_t0, host_y = layout.clos.numbering.hosts_per_t0, layout.host_y
    for row, centre in layout.groups.centres():
        if row is GAP:
            yield f'<text class="row" x="{centre:.1f}" y="{host_y + 16}">…</text>'
            continue
        left = centre - layout.group_width / 2
        yield (
            f'<rect class="group" x="{left:.1f}" y="{host_y - 14}" width="{layout.group_width:.1f}" '
            f'height="{_NODE_HEIGHT + 26}" rx="8"/>'
        )
        y = host_y + _NODE_HEIGHT + 30
        yield f'<text class="row" x="{centre:.1f}" y="{y}">rack {row}</text>'
        for downlink, x in layout.host_rows[row].centres():
            if downlink is GAP:
                yield f'<text class="row" x="{x:.1f}" y="{host_y + 16}">…</text>'
            else:
                name = f"h{row * per_t0 + downlink}"
                place = x, host_y, layout.host_width
                yield from _box(name, name, "node host", place, None, remarks)
    for host in shown_hosts(layout.clos, layout.shown):
        for plane in layout.shown.planes:
            if plane is not GAP:
                x = layout.port_x(host, plane)
                yield f'<circle cx="{x:.1f}" cy="{host_y}" r="2.6" fill="{plane_colour(plane)}"/>'


def _box(
    name: str,
    label: str,
    classes: str,
    place: tuple[float, float, float],
    colour: str | None,
    remarks: Mapping[str, str],
) -> Iterator[str]:
    """A node; *place* is the middle and the top of its box, and how wide that is."""
    x, y, width = place
    if name in remarks:
        classes += " marked"
    stroke = "" if colour is None else f' stroke="{colour}"'
    yield (
        f'<g class="{classes}" data-name="{name}"><title>{_tool_tip(name, remarks)}</title>'
        f'<rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{_NODE_HEIGHT}" rx="5"{stroke}/>'
        f'<text x="{x:.1f}" y="{y + 16}">{label}</text></g>'
    )
