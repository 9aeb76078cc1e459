"""Charts of variants side by side: bars, or lines over message sizes where an axis is one of sizes. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from testbed.campaign.row import SummaryRow
from testbed.campaign.side_by_side import VariantRun
from testbed.errors import UsageError
from testbed.report.chart import Chart, bar_chart, size_chart
from testbed.scenario.measure.expectation import FORMATS
from testbed.scenario.spec.expression import parse_quantity
from testbed.scenario.spec.expression_tree import Quantity
from testbed.shown import Scale, format_rate
from testbed.units import parse_size_bytes

_WINDOWS: Final = (None, "before", "during", "after", "from")
"""In the order of time."""


def variant_charts(row: SummaryRow) -> tuple[Chart, ...]:
    """Charts of the variants: one per quantity, its windows side by side; flows at the end."""
    if not row.variants or not any(run.measures for run in row.variants):
        return ()
    sizes = size_axis(row.variants)
    charts = _over_sizes(row, sizes) if sizes is not None else _side_by_side(row)
    return (*charts, *_flows(row))


def in_order(names: Sequence[str]) -> tuple[str, ...]:
    """Quantities, those of one kind together, before left of during."""
    quantities = [parse_quantity(name) for name in names]
    kinds = list(dict.fromkeys(map(_base, quantities)))
    return tuple(
        map(str, sorted(quantities, key=lambda each: (kinds.index(_base(each)), _WINDOWS.index(each.window))))
    )


def size_axis(runs: Sequence[VariantRun]) -> str | None:
    """The axis whose values are all sizes; None when there is none with two."""
    for axis in runs[0].values:
        values = {run.values[axis] for run in runs}
        if len(values) > 1 and all(size_of(value) is not None for value in values):
            return axis
    return None


def size_of(value: str) -> int | None:
    """Bytes of the value of an axis; None if it is no size."""
    try:
        return parse_size_bytes(value)
    except UsageError:
        return None


def _base(quantity: Quantity) -> str:
    return str(replace(quantity, window=None, fault_id=None, stretch_ns=None))


def _window(quantity: Quantity) -> str:
    return str(quantity).removeprefix(_base(quantity)).strip()


def _scale(quantity: Quantity) -> Scale:
    """Scale of a quantity's values; of a count that has a unit, with that."""
    return Scale(((1, quantity.kind.unit),)) if quantity.kind.unit else FORMATS[quantity.dimension]


def _over_sizes(row: SummaryRow, sizes: str) -> Iterator[Chart]:
    for name in row.compare:
        curves: dict[str, dict[int, float]] = {}
        for run in row.variants:
            value, size_bytes = run.value(name), size_of(run.values[sizes])
            others = [other for axis, other in run.values.items() if axis != sizes]
            if value is not None and size_bytes is not None:
                curves.setdefault("-".join(others), {})[size_bytes] = value
        quantity = parse_quantity(name)
        yield size_chart(name, _base(quantity), curves, _scale(quantity))


def _side_by_side(row: SummaryRow) -> Iterator[Chart]:
    by_kind: dict[str, list[Quantity]] = {}
    for name in row.compare:
        quantity = parse_quantity(name)
        by_kind.setdefault(_base(quantity), []).append(quantity)
    for base, quantities in by_kind.items():
        bars = {_window(quantity): _values(row, str(quantity)) for quantity in quantities}
        title = str(quantities[0]) if len(quantities) == 1 else base
        shown = {"": bars.popitem()[1]} if len(quantities) == 1 else bars
        yield bar_chart(title, base, shown, _scale(quantities[0]))


def _values(row: SummaryRow, quantity: str) -> dict[str, float]:
    found = ((run.name, run.value(quantity)) for run in row.variants)
    return {name: value for name, value in found if value is not None}


def _flows(row: SummaryRow) -> Iterator[Chart]:
    """A bar for each flow, where the scenario draws flows."""
    bars: dict[str, Mapping[str, float]] = {run.name: run.flows for run in row.variants if run.flows}
    if bars:
        yield bar_chart("Goodput of each flow", "goodput", bars, format_rate)
