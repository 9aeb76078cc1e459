"""Sentence with the factor between variants. Pure."""

from collections.abc import Sequence
from typing import Final

from testbed.campaign.side_by_side import VariantRun
from testbed.campaign.variant_chart import size_axis, size_of
from testbed.scenario.measure.expectation import format_measured
from testbed.scenario.spec.expression import parse_quantity
from testbed.scenario.spec.quantity import Dimension
from testbed.shown import format_number

_VERBS: Final = {Dimension.TIME: "took", Dimension.RATE: "kept"}
_TELLING: Final = ("during", "after", None, "from", "before")
"""Windows, the most telling of a comparison first."""

_EQUAL_RATIO: Final = 1.05


def factor_sentence(compare: Sequence[str], runs: Sequence[VariantRun]) -> str:
    """Such as `mrc kept 2.9 steps/s, roce 0.21 steps/s: 13.8 times (job_throughput(train) during gray)`.

    Of several quantities, the first of those that tell most: during a fault before others. Of several sizes,
    the largest. Empty where fewer than two variants have measured anything that is better one way.

    Args:
        compare: quantities that they are compared by.
        runs: of the variants.
    """
    named = [name for name in compare if parse_quantity(name).kind.better is not None]
    axis = size_axis(runs) if runs else None
    if axis is not None:
        largest = max(size_of(run.values[axis]) or 0 for run in runs)
        runs = [run for run in runs if size_of(run.values[axis]) == largest]
    for name in sorted(named, key=lambda each: _TELLING.index(parse_quantity(each).window)):
        values = {run.name: value for run in runs if (value := run.value(name)) is not None}
        if len(values) > 1 and any(values.values()):
            return _sentence(name, values)
    return ""


def _sentence(name: str, values: dict[str, float]) -> str:
    quantity = parse_quantity(name)
    ordered = sorted(values, key=lambda each: values[each], reverse=quantity.kind.better == "more")
    best, worst = ordered[0], ordered[-1]
    low, high = sorted((values[best], values[worst]))
    if low > 0 and high / low < _EQUAL_RATIO:
        return f"{name} is the same in all {len(values)} variants, within 5 %"
    verb = "kept" if quantity.kind.unit else _VERBS.get(quantity.dimension, "had")
    shown = [format_measured(values[each], quantity) for each in (best, worst)]
    factor = f": {format_number(high / low)} times" if low > 0 else ""
    return f"{best} {verb} {shown[0]}, {worst} {shown[1]}{factor} ({name})"
