"""All kinds of fault, by the name a user writes: every class with a `kind` in kinds.py and node_kinds.py."""

import operator
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from mrc_testbed.faults import kinds, node_kinds
from mrc_testbed.faults.spec_base import AnyFault, BothWaysFault, kind_of


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
