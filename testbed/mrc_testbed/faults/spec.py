"""All kinds of fault, by the name a user writes: every class with a `kind` in kinds.py and node_kinds.py.

And what a fault as written means in one fabric: links, nodes, and its effects there. Pure.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from mrc_testbed.errors import UsageError
from mrc_testbed.faults import kinds, node_kinds
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.spec_base import AnyFault, BothWaysFault, Target, kind_of
from mrc_testbed.topology.clos import Clos


def kinds_of(module: ModuleType) -> list[type[AnyFault]]:
    """The kinds that a module defines, in its order."""
    return [
        model
        for model in vars(module).values()
        if isinstance(model, type)
        and issubclass(model, AnyFault)
        and model.__module__ == module.__name__
        and "kind" in model.model_fields
    ]


KINDS: Final[dict[str, type[AnyFault]]] = {
    kind_of(model): model for module in (kinds, node_kinds) for model in kinds_of(module)
}
"""The model of each kind."""

if TYPE_CHECKING:
    Fault = AnyFault
    FaultOrClear = AnyFault | node_kinds.Clear
else:
    Fault = Annotated[reduce(operator.or_, KINDS.values()), Field(discriminator="kind")]
    FaultOrClear = Annotated[Fault | node_kinds.Clear, Field(discriminator="kind")]


def own_fields(kind: str) -> list[str]:
    """Fields of a fault of that kind besides its id, start, end and selector, as a user writes them."""
    common = {*AnyFault.model_fields, "select", "kind"}
    if issubclass(KINDS[kind], BothWaysFault):
        common.add("direction")
    return [field.alias or name for name, field in KINDS[kind].model_fields.items() if name not in common]


def meaning(kind: str) -> str:
    return (KINDS[kind].__doc__ or "").partition("\n")[0]


def describe_condition(kind: str, links: Sequence[str], nodes: Sequence[str], clos: Clos) -> str:
    """A fault while it acts, in the past: `p0-t1-0 was away`, `4 links of p1-t1-1 were drained`."""
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


class SelectionError(UsageError):
    """The selector of a fault matches nothing, or what the fault cannot act on."""


def target_fault(fault: AnyFault, clos: Clos, pick_seed: int, seed: int) -> ScheduledFault:
    """The meaning of *fault* in the fabric *clos*, whenever it acts.

    Args:
        pick_seed: decides what `pick: random` takes.
        seed: 64 bits for decisions in the data plane.
    """
    fault.check_fabric(clos)
    try:
        links, nodes = fault.choose(clos, pick_seed)
    except UsageError as error:
        raise SelectionError(error.message, hint=error.hint) from error
    return ScheduledFault(
        fault_id=fault.id,
        kind=kind_of(type(fault)),
        detail=fault.detail,
        seed=seed,
        links=tuple(link.name for link in links),
        nodes=tuple(node.name for node in nodes),
        direction=fault.way,
        is_hidden=fault.is_hidden,
        effects=fault.effects(Target(clos, links, nodes, seed)),
    )
