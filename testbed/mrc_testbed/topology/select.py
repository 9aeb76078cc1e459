"""Selection: the links, nodes or planes of a fabric that a selector means."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from itertools import product
from random import Random
from typing import Final

from pydantic import BaseModel

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link, Node
from mrc_testbed.topology.naming import (
    LINK_GRAMMAR,
    LINK_SEPARATOR,
    PORT_GRAMMAR,
    PORT_SEPARATOR,
    Tier,
    parse_node_name,
)
from mrc_testbed.topology.selector_spec import (
    TIERS_JOINED,
    Choice,
    LinkFilter,
    LinkSelector,
    NodeFilter,
    NodeSelector,
    PlaneSelector,
)

_GLOB_CHARACTERS: Final = frozenset("*?[")


def select_links(clos: Clos, selector: LinkSelector, seed: int) -> tuple[Link, ...]:
    """The links that a selector means, each once, in topology order.

    Args:
        seed: decides what `pick: random` takes; equal seeds take the same.
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


def _modules(clos: Clos, matching: Sequence[int], size: int) -> dict[int, list[int]]:
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


def select_planes(clos: Clos, selector: PlaneSelector, seed: int) -> tuple[int, ...]:
    """The planes that a selector means, each once, in order."""
    wanted = None if selector.planes == "all" else selector.planes
    matching = sorted(_indices(wanted, clos.spec.planes, "plane"))
    return tuple(_choose(matching, selector, seed, "plane", _written(selector.planes)))


def select_nodes(clos: Clos, selector: NodeSelector, seed: int) -> tuple[Node, ...]:
    """The nodes that a selector means, each once, in the order of their ids."""
    wanted = selector.nodes
    if isinstance(wanted, NodeFilter):
        matching = sorted(_filtered_node_ids(clos, wanted))
    else:
        matching = _union(wanted, lambda name: (node.id for node in _named_nodes(clos, name)), "node")
    chosen = _choose(matching, selector, seed, "node", _written(wanted))
    return tuple(clos.node(node_id) for node_id in chosen)


def _union(names: str | list[str], find: Callable[[str], Iterable[int]], what: str) -> list[int]:
    """Ids that the names mean; each must mean one, or a typo among several would pass unseen."""
    matching: set[int] = set()
    for name in [names] if isinstance(names, str) else names:
        found = set(find(name))
        if not found:
            raise UsageError(f"no {what} of this fabric matches {name}")
        matching |= found
    return sorted(matching)


def _choose(matching: Sequence[int], choice: Choice, seed: int, what: str, written: str) -> Sequence[int]:
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


def _indices(wanted: int | list[int] | None, count: int, what: str) -> set[int]:
    if wanted is None:
        return set(range(count))
    indices = {wanted} if isinstance(wanted, int) else set(wanted)
    if missing := [index for index in sorted(indices) if index >= count]:
        raise UsageError(f"{what} {missing[0]} does not exist: {what}s are numbered 0 to {count - 1}")
    return indices


def _filtered_link_ids(clos: Clos, wanted: LinkFilter) -> Iterator[int]:
    planes = _indices(wanted.plane, clos.spec.planes, "plane")
    pods = _indices(wanted.pod, clos.numbering.groups[1], "pod")
    number = clos.numbering
    if wanted.node is None:
        links: Iterable[int] = range(number.link_count)
    else:
        nodes = _named_nodes(clos, wanted.node)
        links = (clos.port_id(node, index) // 2 for node in nodes for index in range(node.port_count))
    for link_id in links:
        level, plane, lower, _ = number.link_place(link_id)
        is_joining = wanted.between in (None, TIERS_JOINED[level])
        if is_joining and plane in planes and _pod_below(clos, level, lower) in pods:
            yield link_id


def _pod_below(clos: Clos, level: int, lower: int) -> int:
    """The pod of the lower end of a link."""
    if level == 0:
        return clos.numbering.group(1, clos.numbering.row(lower))
    return _pod_of_switch(clos, level - 1, lower)


def _pod_of_switch(clos: Clos, level: int, index: int) -> int:
    """The pod of a switch below T2."""
    group = index // clos.numbering.group_sizes[level]
    return clos.numbering.group(1, group) if level == 0 else group


def _filtered_node_ids(clos: Clos, wanted: NodeFilter) -> Iterator[int]:
    number = clos.numbering
    tiers = clos.tiers if wanted.tier is None else [wanted.tier]
    pods = _indices(wanted.pod, number.groups[1], "pod")
    if wanted.tier is Tier.HOST:
        hosts = range(number.host_count)
        yield from (number.switch_count + host for host in hosts if _pod_below(clos, 0, host) in pods)
        return
    for plane, tier in product(_indices(wanted.plane, clos.spec.planes, "plane"), tiers):
        for index in range(number.switches[tier.level] if tier in clos.tiers else 0):
            if wanted.pod is None or (
                tier is not Tier.T2 and _pod_of_switch(clos, tier.level, index) in pods
            ):
                yield number.switch_id(tier.level, plane, index)


def _is_glob(text: str) -> bool:
    return not _GLOB_CHARACTERS.isdisjoint(text)


def _named_nodes(clos: Clos, name: str) -> Iterator[Node]:
    if not _is_glob(name):
        yield clos.node(name)
        return
    matches = re.compile(translate(name)).match
    yield from (node for node in clos.nodes() if matches(node.name))


def _named_link_ids(clos: Clos, name: str) -> Iterator[int]:
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


def _port_ids(clos: Clos, glob: str) -> Iterator[int]:
    """Ports that a name or glob means; a node without a port index stands for all its ports."""
    node_glob, separator, index_glob = glob.rpartition(PORT_SEPARATOR)
    if not separator:
        node_glob, index_glob = glob, "*"
    matches = re.compile(translate(index_glob)).match
    for node in _named_nodes(clos, node_glob):
        for index in range(node.port_count):
            if matches(str(index)):
                yield clos.port_id(node, index)
