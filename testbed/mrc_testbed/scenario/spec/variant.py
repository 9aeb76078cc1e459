"""Variants: one scenario run several times with some fields changed, and compared. Pure.

    variants:
      transport:
        mrc: {}
        roce: {transport.kind: rocev2, topology.planes: 1}
      size:
        64KiB: {workloads.ring.size: 64KiB}
        4MiB: {workloads.ring.size: 4MiB}
      fault:
        flap: {}
        none: {faults.flap1: null}

Every value of an axis is combined with every value of the others; `roce-4MiB-flap` is one of these eight.
Null in place of a workload or fault leaves it out.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from mrc_testbed.errors import UsageError, did_you_mean

VARIANTS_MAX: Final = 64
"""Limit of one scenario: more is a campaign's matrix."""

ROOTS: Final = ("topology", "transport", "workloads", "faults")
"""Parts of a scenario that can be varied; `workloads` and `faults` are followed by a name or an id."""

NAMED: Final = {"workloads": "name", "faults": "id"}
"""Lists among them -> the field that names an entry."""

AXIS_PATTERN: Final = r"^[a-z][a-z0-9_]{0,31}$"
VALUE_PATTERN: Final = r"^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$"


def _check_key(key: str) -> str:
    root, *rest = key.split(".")
    if root not in ROOTS:
        raise UsageError(f"{key}: begins with {', '.join(ROOTS)}{did_you_mean(root, ROOTS)}")
    named = root in NAMED
    if len(rest) < (2 if named else 1) or not all(rest):
        example = "faults.flap1.down" if root == "faults" else "workloads.main.size"
        raise UsageError(f"{key}: names no field; write it like {example if named else f'{root}.planes'}")
    return key


def _check_changed_key(key: str) -> str:
    root, _, name = key.partition(".")
    is_entry = root in NAMED and name and "." not in name
    return key if is_entry else _check_key(key)


def _check_axis(values: object) -> object:
    """Refuse an axis whose changes stand where its values belong."""
    for key, value in values.items() if isinstance(values, dict) else ():
        if "." in str(key) and not isinstance(value, dict):
            raise UsageError(f"one level is missing: AXIS: {{VALUE: {{{key}: {value}}}}}")
    return values


VariedKey = Annotated[str, AfterValidator(_check_key)]
ChangedKey = Annotated[str, AfterValidator(_check_changed_key)]
"""A field, or a whole workload or fault, which null leaves out."""

Changes = dict[ChangedKey, JsonValue]
Axis = Annotated[
    dict[Annotated[str, Field(pattern=VALUE_PATTERN)], Changes],
    Field(min_length=1),
    BeforeValidator(_check_axis),
]
Axes = dict[Annotated[str, Field(pattern=AXIS_PATTERN)], Axis]


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the runs that a scenario with variants stands for."""

    values: Mapping[str, str]  # axis -> value, in the order of the file
    changes: Mapping[str, JsonValue]  # dotted key -> what stands there in place of what the file says

    @property
    def name(self) -> str:
        """Its values, joined: `roce-4MiB`."""
        return "-".join(self.values.values())


def variants_of(axes: Mapping[str, Mapping[str, Changes]]) -> tuple[Variant, ...]:
    """Every combination, the first axis varying slowest; empty for no axes."""
    if not axes:
        return ()
    variants = []
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        changes: Changes = {}
        for axis, value in chosen.items():
            changes |= axes[axis][value]
        variants.append(Variant(chosen, changes))
    return tuple(variants)
