"""Conditions that end a run early: `host_saturated for 5s`, `qp_errors > 0`. Pure.

    condition = ( "host_saturated" | expectation ) [ "for" duration ]

The expectation may use counts without a window: they are looked at with every sample, from time 0 on. A
condition fires once it has held for its duration, or at once without one.
"""

import re
from dataclasses import dataclass
from typing import Final

from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.expression_tree import Comparison
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.units import parse_duration_ns

HOST_SATURATED: Final = "host_saturated"


@dataclass(frozen=True, slots=True)
class AbortCondition:
    """When to end a run early."""

    text: str  # as written
    comparison: Comparison | None  # what to evaluate with every sample; None for `host_saturated`
    for_ns: int  # how long it must hold without a gap


def parse_abort(text: str) -> AbortCondition:
    """The condition that *text* states."""
    condition, for_, duration = text.strip().partition(" for ")
    for_ns = parse_duration_ns(duration.strip()) if for_ else 0
    if condition == HOST_SATURATED:
        return AbortCondition(text, None, for_ns)
    if re.fullmatch(r"[a-z_]+", condition):
        raise UsageError(
            f"column 1: nothing is called {condition!r}{did_you_mean(condition, [HOST_SATURATED])} "
            f"(known: {HOST_SATURATED}, or a comparison such as 'qp_errors > 0')"
        )
    comparison = parse_expectation(condition)
    for quantity in comparison.quantities():
        if quantity.dimension is not Dimension.COUNT or quantity.window or quantity.name == "wrong_bytes":
            raise UsageError(
                f"column {quantity.column}: '{quantity}' is only known after the run; "
                "an abort condition compares counts that grow while it goes on"
            )
    return AbortCondition(text, comparison, for_ns)
