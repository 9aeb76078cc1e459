import re
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from mrc_testbed.drawing.graph import GAP, elide, graph_dot, graph_text, plane_colour, plane_is_dashed
from mrc_testbed.drawing.svg import graph_svg
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.path import build_path
from mrc_testbed.topology.spec import TierSpec, TopologySpec

SVG = "{http://www.w3.org/2000/svg}"
PAPER = TopologySpec(planes=8, t0=512, t1=256, hosts_per_t0=256)
SMALL_THREE = TopologySpec(
    planes=2,
    tiers=[TierSpec(joins=2), TierSpec(joins=2, switches=2, links=2), TierSpec(joins=2, switches=3)],
)
FOURS = TierSpec(joins=4, switches=4)
LARGE_THREE = TopologySpec(planes=1, tiers=[TierSpec(joins=4), FOURS, FOURS])

DEFAULT_TEXT = """\
4 planes of 2 T0 + 2 T1, 8 hosts, 48 links, unshaped

T1      p*-t1-0  p*-t1-1
           │        │
       ════╪════════╪════  every T0 to every T1, one link each
           │        │
T0      p*-t0-0  p*-t0-1
           │        │
hosts    h0..h3   h4..h7   a port to each plane

p* is any of p0 to p3: the planes are alike and meet in the hosts only
"""


THREE_TIER_TEXT = """\
2 planes of 4 T0 + 4 T1 + 6 T2, 8 hosts, 72 links, unshaped

T2      p*-t2-0  p*-t2-1     …     p*-t2-5
           │        │                 │
       ════╪════════╪══════════╤══════╧═╤════  every T1 to 3 of the T2s, one link each
           │        │          │        │
T1      p*-t1-0  p*-t1-1    p*-t1-2  p*-t1-3
           │        │          │        │
       ════╪════════╪════  ════╪════════╪════  every T0 to every T1 of its pod, 2 links each
           │        │          │        │
T0      p*-t0-0  p*-t0-1    p*-t0-2  p*-t0-3
           │        │          │        │
hosts    h0..h1   h2..h3     h4..h5   h6..h7   a port to each plane
             pod 0               pod 1

p* is any of p0 to p1: the planes are alike and meet in the hosts only
"""


def named(root: ET.Element, tag: str) -> list[ET.Element]:
    return [element for element in root.iter(f"{SVG}{tag}") if "data-name" in element.attrib]


def test_text_shows_one_plane_for_all() -> None:
    assert graph_text(Clos(TopologySpec())) == DEFAULT_TEXT
    assert graph_text(Clos(SMALL_THREE)) == THREE_TIER_TEXT


def test_text_of_many_pods_shows_the_first_and_the_last() -> None:
    rows = dict(line.split(maxsplit=1) for line in graph_text(Clos(LARGE_THREE)).splitlines() if line)
    assert rows["T0"].split() == ["p0-t0-0", "…", "p0-t0-3", "…", "p0-t0-12", "…", "p0-t0-15"]


@pytest.mark.parametrize(
    "spec",
    [PAPER, TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2), TopologySpec(t0=9, t1=40, hosts_per_t0=1)],
)
def test_text_fits_a_terminal(spec: TopologySpec) -> None:
    lines = graph_text(Clos(spec)).splitlines()
    assert max(len(line) for line in lines) <= 110
    rows = [line for line in lines if line.startswith(("T0", "T1"))]
    assert [row.split()[1] for row in rows] == [
        f"{'p0' if spec.planes == 1 else 'p*'}-t{t}-0" for t in (1, 0)
    ]
    assert rows[0].split()[-1].endswith(f"-t1-{spec.t1 - 1}")
    assert rows[1].split()[-1].endswith(f"-t0-{spec.t0 - 1}")


@pytest.mark.parametrize(
    ("count", "room", "row"),
    [(3, 3, [0, 1, 2]), (4, 3, [0, GAP, 3]), (512, 5, [0, 1, 2, GAP, 511]), (1, 3, [0])],
)
def test_long_rows_show_first_members_a_gap_and_the_last(
    count: int, room: int, row: list[int | None]
) -> None:
    assert list(elide(count, room)) == row


@pytest.mark.parametrize("spec", [TopologySpec(), TopologySpec(uplinks_per_pair=3), SMALL_THREE])
def test_svg_of_a_small_fabric_has_every_node_and_link_once(spec: TopologySpec) -> None:
    clos = Clos(spec)
    root = ET.fromstring(graph_svg(clos))  # noqa: S314 - our own text
    links = [element.attrib["data-name"] for element in named(root, "path")]
    nodes = [element.attrib["data-name"] for element in named(root, "g")]
    assert sorted(links) == sorted(link.name for link in clos.links())
    assert sorted(nodes) == sorted(node.name for node in clos.nodes())
    assert len({element.attrib["d"] for element in named(root, "path")}) == len(links)


@pytest.mark.parametrize("spec", [TopologySpec(), SMALL_THREE, LARGE_THREE])
def test_svg_puts_tier_above_tier_above_hosts_and_all_inside_the_picture(spec: TopologySpec) -> None:
    clos = Clos(spec)
    root = ET.fromstring(graph_svg(clos))  # noqa: S314 - our own text
    width, height = (float(size) for size in root.attrib["viewBox"].split()[2:])
    boxes: dict[str, list[tuple[float, float]]] = {"h": [], **{tier.value: [] for tier in clos.tiers}}
    for group in named(root, "g"):
        box = group.find(f"{SVG}rect")
        assert box is not None
        x, y, w, h = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0
        assert x + w <= width
        assert y + h <= height
        name = group.attrib["data-name"]
        boxes["h" if name.startswith("h") else name.split("-")[1]].append((y, x))
    assert all(max(above)[0] < min(below)[0] for below, above in pairwise(boxes.values()))
    for row in boxes.values():
        assert all(right - left >= 40 for (y1, left), (y2, right) in pairwise(sorted(row)) if y1 == y2)


@pytest.mark.parametrize("spec", [TopologySpec(uplinks_per_pair=2), SMALL_THREE, LARGE_THREE])
def test_svg_links_end_at_the_boxes_of_their_nodes(spec: TopologySpec) -> None:
    clos = Clos(spec)
    root = ET.fromstring(graph_svg(clos))  # noqa: S314 - our own text
    boxes: dict[str, dict[str, float]] = {}
    for group in named(root, "g"):
        box = group.find(f"{SVG}rect")
        assert box is not None
        boxes[group.attrib["data-name"]] = {
            key: float(box.attrib[key]) for key in ("x", "y", "width", "height")
        }
    for element in named(root, "path"):
        link = clos.link(element.attrib["data-name"])
        numbers = [float(number) for number in re.findall(r"[\d.]+", element.attrib["d"])]
        lower, upper = boxes[link.lower.node.name], boxes[link.upper.node.name]
        assert numbers[1] == lower["y"]
        assert numbers[-1] == upper["y"] + upper["height"]
        assert lower["x"] < numbers[0] < lower["x"] + lower["width"]
        assert upper["x"] < numbers[-2] < upper["x"] + upper["width"]


def test_svg_draws_pods_as_boxes_around_their_switches() -> None:
    text = graph_svg(Clos(LARGE_THREE))
    assert re.findall(r">(pod \d)<", text) == ["pod 0", "pod 3"]
    assert "pod" not in graph_svg(Clos(TopologySpec()))
    links = {element.attrib["data-name"] for element in named(ET.fromstring(text), "path")}  # noqa: S314
    assert {"p0-t1-0:4~p0-t2-0:0", "p0-t1-15:7~p0-t2-15:3"} <= links  # T2s shown are those of T1s shown


def test_svg_marks_a_path_and_fades_the_rest() -> None:
    clos = Clos(TopologySpec())
    path = build_path(clos, 0, 5, 2, 1)
    root = ET.fromstring(graph_svg(clos, [link.id for link in path.links]))  # noqa: S314 - our own text
    by_class: dict[str, set[str]] = {}
    for element in named(root, "path"):
        by_class.setdefault(element.attrib["class"], set()).add(element.attrib["data-name"])
    assert by_class["link marked"] == {link.name for link in path.links}
    assert len(by_class["link unmarked"]) == 44


def test_svg_stands_alone() -> None:
    text = graph_svg(Clos(TopologySpec()))
    without_namespace = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|<script|url\(|@import|xlink", without_namespace)


@pytest.mark.parametrize("draw", [graph_svg, graph_dot])
def test_drawings_of_a_large_fabric_are_samples(draw: Callable[[Clos], str]) -> None:
    text = draw(Clos(PAPER))
    assert len(text) < 60_000
    for name in ("p0-t0-0", "p7-t1-255", "p7-t0-511", "h131071"):
        assert name in text


@pytest.mark.parametrize("planes", [9, 16])
def test_svg_of_many_planes_says_what_is_left_out(planes: int) -> None:
    text = graph_svg(Clos(TopologySpec(planes=planes, t0=64, t1=64, hosts_per_t0=64)))
    assert f">plane {planes - 1}<" in text
    assert "a sample of each row" in text
    assert "a sample of each row" not in graph_svg(Clos(TopologySpec()))


@pytest.mark.parametrize("spec", [TopologySpec(), SMALL_THREE])
def test_dot_has_every_link_as_an_edge_between_declared_nodes(spec: TopologySpec) -> None:
    clos = Clos(spec)
    text = graph_dot(clos)
    edges = re.findall(r'^  "([^"]+)" -- "([^"]+)" \[', text, re.MULTILINE)
    assert edges == [(link.lower.node.name, link.upper.node.name) for link in clos.links()]
    declared = set(re.findall(r'"((?:h|p)\d[^" ]*)"', text.split(" -- ", maxsplit=1)[0]))
    assert declared == {node.name for node in clos.nodes()}
    assert text.count("{") == text.count("}")


def test_sixteen_planes_look_different() -> None:
    looks = {(plane_colour(plane), plane_is_dashed(plane)) for plane in range(16)}
    assert len(looks) == 16
