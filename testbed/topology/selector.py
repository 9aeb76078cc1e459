"""Selectors: which links or nodes something is meant for, apart from what is to happen to them.

    links: h0:2                              the link of a port; h0:2~p2-t0-0:0 is its full name
    links: [p0-t0-0:4, "p1-t1-*:*"]          names and globs of ports
    links: p0-t0-*~p0-t1-1                   links between such nodes, or ports
    links: {plane: 0, between: [t0, t1]}     by property; add node: p0-t1-3 for the links of one node
    nodes: {plane: 0, tier: t1}              likewise for nodes: h3, "p*-t1-0", [h0, h1]
    planes: 1                                a plane, several, or all
    optic: 4                                 whole optical modules of four links
    pick: random, count: 2                   take some of what matches; all without pick

Selecting nothing is an error, because a fault that hits nothing would look like a fabric that bears it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from testbed.document import validate_values
from testbed.document.yaml_tree import parse_tree
from testbed.errors import UsageError
from testbed.topology.element import Link, Node
from testbed.topology.naming import (
    LINK_GRAMMAR,
    LINK_SEPARATOR,
    PORT_GRAMMAR,
    PORT_SEPARATOR,
    Tier,
    parse_node_name,
)

if TYPE_CHECKING:
    from testbed.topology.clos import Clos

Pick = Literal["all", "first", "random"]

_GLOB_CHARACTERS: Final = frozenset("*?[")
_TIERS_JOINED: Final = ([Tier.HOST, Tier.T0], [Tier.T0, Tier.T1])


def _form(value: object) -> str:
    """Which form of a field was written, so that errors speak of that form only."""
    if isinstance(value, str | int):
        return "one"
    return "several" if isinstance(value, list) else "filter"


def _plane_form(value: object) -> str:
    return "number" if isinstance(value, int) else _form(value)


_PlaneIndex = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(min_length=1)]
_Planes = Annotated[
    Annotated[_PlaneIndex, Tag("one")] | Annotated[list[_PlaneIndex], Field(min_length=1), Tag("several")],
    Discriminator(_form),
]


class LinkFilter(BaseModel):
    """Links by property; all given properties must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    plane: _Planes | None = Field(default=None, description="Plane index, or a list of them.")
    between: Annotated[list[Tier], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="The two tiers a link joins, the lower first: [host, t0] or [t0, t1]."
    )
    node: _Name | None = Field(
        default=None, description="A node at either end: `p0-t1-3`, `h3`, or a glob such as `p*-t1-0`."
    )

    @model_validator(mode="after")
    def _check_something_is_selected(self) -> Self:
        if self.plane is None and self.between is None and self.node is None:
            raise ValueError("an empty filter selects nothing; give plane, between or node")
        if self.between is not None and self.between not in _TIERS_JOINED:
            # The order is fixed because a-to-b means from the lower end to the upper, whatever is written.
            written = ", ".join(self.between)
            raise ValueError(f"no link is written [{written}]: use [host, t0] or [t0, t1], lower tier first")
        return self


class NodeFilter(BaseModel):
    """Nodes by property; all given properties must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    plane: _Planes | None = Field(default=None, description="Plane index, or a list of them; switches only.")
    tier: Tier | None = Field(default=None, description="host, t0 or t1.")

    @model_validator(mode="after")
    def _check_something_is_selected(self) -> Self:
        if self.plane is None and self.tier is None:
            raise ValueError("an empty filter selects nothing; give plane or tier")
        if self.plane is not None and self.tier is Tier.HOST:
            raise ValueError("a host is in all planes: leave plane out, or select its port as a link (h3:0)")
        return self


class _Choice(BaseModel):
    """How many of what matches are taken."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    pick: Pick = Field(
        default="all",
        description="Take all that match, the first `count` in topology order, or `count` at random.",
    )
    count: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="How many to take; with pick first or random only, 1 when left out."
    )

    @model_validator(mode="after")
    def _check_count_has_a_meaning(self) -> Self:
        if self.count is not None and self.pick == "all":
            raise ValueError(f"count: {self.count} needs pick: first or pick: random")
        return self


class LinkSelector(_Choice):
    """Which links."""

    links: Annotated[
        Annotated[_Name, Tag("one")]
        | Annotated[list[_Name], Field(min_length=1), Tag("several")]
        | Annotated[LinkFilter, Tag("filter")],
        Discriminator(_form),
    ] = Field(
        description="A link (`p0-t0-0:4~p0-t1-0:0`), the port at one end (`h0:2`), a glob of either "
        "(`p0-t1-1:*`), a list of these, or a filter."
    )
    optic: Annotated[int, Field(ge=2, le=64)] | None = Field(
        default=None,
        description="Links of an optical module, which fail together: so many neighbouring ports of a T0 "
        "(for 4: ports 0 to 3, 4 to 7). Takes `count` whole modules of those that a matching link is in.",
    )


class NodeSelector(_Choice):
    """Which nodes."""

    nodes: Annotated[
        Annotated[_Name, Tag("one")]
        | Annotated[list[_Name], Field(min_length=1), Tag("several")]
        | Annotated[NodeFilter, Tag("filter")],
        Discriminator(_form),
    ] = Field(description="A node name, a glob of names (`p*-t1-0`), a list of these, or a filter.")


class PlaneSelector(_Choice):
    """Which planes."""

    planes: Annotated[
        Annotated[Literal["all"], Tag("one")]
        | Annotated[_PlaneIndex, Tag("number")]
        | Annotated[list[_PlaneIndex], Field(min_length=1), Tag("several")],
        Discriminator(_plane_form),
    ] = Field(description="A plane index, a list of them, or `all`.")


def parse_link_selector(text: str) -> LinkSelector:
    """The selector of a command line: names and globs with commas between, or the mapping a file would hold.

    Args:
        text: `h0:2`, `p0-t1-0:*,p0-t1-1:*`, or `{links: {plane: 0}, pick: random, count: 2}`.

    Raises:
        UsageError: neither of the two.
    """
    return validate_values(_selector_values(text, "links"), LinkSelector, "selector")


def parse_node_selector(text: str) -> NodeSelector:
    """The selector of a command line, as for links: `h3`, `h0,h1`, `{nodes: {plane: 0, tier: t1}}`.

    Raises:
        UsageError: neither names nor such a mapping.
    """
    return validate_values(_selector_values(text, "nodes"), NodeSelector, "selector")


def parse_plane_selector(text: str) -> PlaneSelector:
    """The selector of a command line, as for links: `1`, `0,2`, `all`, `{planes: all, pick: random}`.

    Raises:
        UsageError: neither numbers nor such a mapping.
    """
    values = _selector_values(text, "planes")
    names = values.get("planes")
    if isinstance(names, list):
        numbers = [int(name) if isinstance(name, str) and name.isdecimal() else name for name in names]
        values = {**values, "planes": "all" if numbers == ["all"] else numbers}
    return validate_values(values, PlaneSelector, "selector")


def select_links(clos: "Clos", selector: LinkSelector, seed: int) -> tuple[Link, ...]:
    """The links that a selector means, each once, in topology order.

    Args:
        clos: the fabric.
        selector: what is asked for.
        seed: decides what `pick: random` takes; equal seeds take the same.

    Raises:
        UsageError: a name that does not exist, nothing matches, or fewer match than are to be taken.
    """
    wanted = selector.links
    if isinstance(wanted, LinkFilter):
        matching = sorted(set(_filtered_link_ids(clos, wanted)))
    else:
        matching = _union(wanted, lambda name: _named_link_ids(clos, name), "link")
    if selector.optic is None:
        chosen = _choose(matching, selector, seed, "link", _written(wanted))
    else:
        modules = _modules(clos, matching, selector.optic)
        first = _choose(sorted(modules), selector, seed, "optical module", _written(wanted))
        chosen = sorted(link_id for one in first for link_id in modules[one])
    return tuple(clos.link(link_id) for link_id in chosen)


def _modules(clos: "Clos", matching: Sequence[int], size: int) -> dict[int, list[int]]:
    """Links by optical module, of the modules in which a matching link is; a key is the first link's id."""
    modules = {}
    for link_id in matching:
        link = clos.link(link_id)
        t0_port = link.upper if link.is_host_link else link.lower
        begin = t0_port.index - t0_port.index % size
        indices = range(begin, min(begin + size, t0_port.node.port_count))
        links = sorted(clos.port_id(t0_port.node, index) // 2 for index in indices)
        modules[links[0]] = links
    return modules


def select_planes(clos: "Clos", selector: PlaneSelector, seed: int) -> tuple[int, ...]:
    """The planes that a selector means, each once, in order.

    Args:
        clos: the fabric.
        selector: what is asked for.
        seed: decides what `pick: random` takes; equal seeds take the same.

    Raises:
        UsageError: a plane that does not exist, or fewer match than are to be taken.
    """
    wanted = None if selector.planes == "all" else selector.planes
    matching = sorted(set(_planes(clos, wanted)))
    return tuple(_choose(matching, selector, seed, "plane", _written(selector.planes)))


def select_nodes(clos: "Clos", selector: NodeSelector, seed: int) -> tuple[Node, ...]:
    """The nodes that a selector means, each once, in the order of their ids.

    Args:
        clos: the fabric.
        selector: what is asked for.
        seed: decides what `pick: random` takes; equal seeds take the same.

    Raises:
        UsageError: a name that does not exist, nothing matches, or fewer match than are to be taken.
    """
    wanted = selector.nodes
    if isinstance(wanted, NodeFilter):
        matching = sorted(_filtered_node_ids(clos, wanted))
    else:
        matching = _union(wanted, lambda name: (node.id for node in _named_nodes(clos, name)), "node")
    chosen = _choose(matching, selector, seed, "node", _written(wanted))
    return tuple(clos.node(node_id) for node_id in chosen)


def _selector_values(text: str, key: str) -> dict[str, Any]:
    stripped = text.strip()
    if stripped.startswith("{") or re.match(r"(links|nodes|planes|optic|pick|count):\s", stripped):
        tree, _ = parse_tree(stripped, "selector")
        if not isinstance(tree, dict):
            raise UsageError(f"selector {text!r}: expected a mapping with {key}")
        return tree
    names: list[Any] = [name.strip() for name in stripped.split(",")]
    return {key: names}


def _union(names: str | list[str], find: Callable[[str], Iterable[int]], what: str) -> list[int]:
    """Ids that the names mean; each must mean one, or a typo among several would pass unseen."""
    matching: set[int] = set()
    for name in [names] if isinstance(names, str) else names:
        found = set(find(name))
        if not found:
            raise UsageError(f"no {what} of this fabric matches {name}")
        matching |= found
    return sorted(matching)


def _choose(matching: Sequence[int], choice: _Choice, seed: int, what: str, written: str) -> Sequence[int]:
    if not matching:
        raise UsageError(f"no {what} of this fabric matches {written}")
    if choice.pick == "all":
        return matching
    count = choice.count or 1
    if count > len(matching):
        raise UsageError(f"{count} {what}s are to be taken, but only {len(matching)} match {written}")
    if choice.pick == "first":
        return matching[:count]
    return sorted(Random(seed).sample(matching, count))


def _written(value: object) -> str:
    """The selector as its author wrote it."""
    match value:
        case BaseModel():
            return _written(value.model_dump(exclude_none=True))
        case dict():
            return "{" + ", ".join(f"{key}: {_written(entry)}" for key, entry in value.items()) + "}"
        case list():
            return "[" + ", ".join(_written(entry) for entry in value) + "]"
    return str(value)


def _planes(clos: "Clos", wanted: int | list[int] | None) -> Iterable[int]:
    if wanted is None:
        return range(clos.spec.planes)
    planes = [wanted] if isinstance(wanted, int) else wanted
    for plane in planes:
        if plane >= clos.spec.planes:
            raise UsageError(f"plane {plane} does not exist: planes are numbered 0 to {clos.spec.planes - 1}")
    return planes


def _filtered_link_ids(clos: "Clos", wanted: LinkFilter) -> Iterator[int]:
    planes = set(_planes(clos, wanted.plane))
    tiers = [wanted.between] if wanted.between is not None else _TIERS_JOINED
    number = clos.numbering
    if wanted.node is None:
        for plane in planes:
            if [Tier.HOST, Tier.T0] in tiers:
                yield from range(plane, number.host_link_count, clos.spec.planes)
            if [Tier.T0, Tier.T1] in tiers:
                first = number.fabric_link_id(plane, 0, 0)
                yield from range(first, first + number.fabric_links_per_plane)
        return
    for node in _named_nodes(clos, wanted.node):
        for index in range(node.port_count):
            link_id = clos.port_id(node, index) // 2
            is_host_link = link_id < number.host_link_count
            if ([Tier.HOST, Tier.T0] if is_host_link else [Tier.T0, Tier.T1]) in tiers:
                plane = link_id % clos.spec.planes if node.plane is None else node.plane
                if plane in planes:
                    yield link_id


def _filtered_node_ids(clos: "Clos", wanted: NodeFilter) -> Iterator[int]:
    number = clos.numbering
    if wanted.tier is Tier.HOST:
        yield from range(number.switch_count, number.node_count)
        return
    for plane in set(_planes(clos, wanted.plane)):
        if wanted.tier is not Tier.T1:
            yield from range(number.t0_id(plane, 0), number.t0_id(plane, 0) + clos.spec.t0)
        if wanted.tier is not Tier.T0:
            yield from range(number.t1_id(plane, 0), number.t1_id(plane, 0) + clos.spec.t1)


def _is_glob(text: str) -> bool:
    return not _GLOB_CHARACTERS.isdisjoint(text)


def _named_nodes(clos: "Clos", name: str) -> Iterator[Node]:
    if not _is_glob(name):
        yield clos.node(name)
        return
    matches = re.compile(translate(name)).match
    yield from (node for node in clos.nodes() if matches(node.name))


def _named_link_ids(clos: "Clos", name: str) -> Iterator[int]:
    if parse_node_name(name) is not None:
        raise UsageError(f"{name} is a node, not a link; {name}{PORT_SEPARATOR}* selects all its links")
    one, separator, other = name.partition(LINK_SEPARATOR)
    if not separator and PORT_SEPARATOR not in one:
        raise UsageError(f"{name!r} names neither a port nor a link; write {PORT_GRAMMAR}, or {LINK_GRAMMAR}")
    if not _is_glob(name) and PORT_SEPARATOR in one and (not separator or PORT_SEPARATOR in other):
        yield clos.link(name).id
    elif separator:
        peers = {port_id ^ 1 for port_id in _port_ids(clos, one)}
        yield from (port_id // 2 for port_id in _port_ids(clos, other) if port_id in peers)
    else:
        yield from (port_id // 2 for port_id in _port_ids(clos, one))


def _port_ids(clos: "Clos", glob: str) -> Iterator[int]:
    """Ports that a name or glob means; a node without a port index stands for all its ports."""
    node_glob, separator, index_glob = glob.rpartition(PORT_SEPARATOR)
    if not separator:
        node_glob, index_glob = glob, "*"
    matches = re.compile(translate(index_glob)).match
    for node in _named_nodes(clos, node_glob):
        for index in range(node.port_count):
            if matches(str(index)):
                yield clos.port_id(node, index)
