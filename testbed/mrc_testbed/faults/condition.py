"""Phrases for a fault while it acts: `p0-t1-0 was away`, `4 links of p1-t1-1 were drained`. Pure."""

from collections.abc import Sequence

from mrc_testbed.faults.spec import KINDS
from mrc_testbed.topology.clos import Clos


def describe_condition(kind: str, links: Sequence[str], nodes: Sequence[str], clos: Clos) -> str:
    """Place and condition, in the past."""
    place, is_several = _place(KINDS[kind].selects, links, nodes, clos)
    condition = KINDS[kind].condition
    return f"{place} {condition.replace('was ', 'were ', 1) if is_several else condition}"


def _place(selects: str, links: Sequence[str], nodes: Sequence[str], clos: Clos) -> tuple[str, bool]:
    """The subject of the phrase, and True if it is plural."""
    if nodes:
        return (nodes[0], False) if len(nodes) == 1 else (f"{len(nodes)} nodes", True)
    found = [clos.link(name) for name in links]
    planes = sorted({link.plane for link in found})
    if selects == "plane":
        return (f"plane {planes[0]}", False) if len(planes) == 1 else (f"{len(planes)} planes", True)
    if len(planes) == 1 and len(found) == sum(link.plane == planes[0] for link in clos.links()):
        return f"plane {planes[0]}", False
    if len(found) == 1:
        return f"link {found[0].name}", False
    ends = [{str(link.lower.node.name), str(link.upper.node.name)} for link in found]
    common = sorted(set.intersection(*ends))
    return f"{len(found)} links{f' of {common[0]}' if common else ''}", True
