"""Charts of variants side by side: bars, or lines over message sizes where an axis is one of sizes. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from testbed.campaign.row import SummaryRow
from testbed.errors import UsageError
from testbed.scenario.report.axis import Format, format_count, format_rate, format_share, format_time
from testbed.scenario.report.chart import Chart, bar_chart, size_chart
from testbed.scenario.spec.expression import parse_quantity
from testbed.scenario.spec.quantity import Dimension
from testbed.units import format_size_bytes, parse_size_bytes

_FORMATS: Final[dict[Dimension, Format]] = {
    Dimension.COUNT: format_count,
    Dimension.RATIO: format_share,
    Dimension.TIME: format_time,
    Dimension.RATE: format_rate,
    Dimension.SIZE: lambda value: format_size_bytes(round(value), 3),
}
_NAMES: Final[dict[Dimension, str]] = {
    Dimension.COUNT: "Counts",
    Dimension.RATIO: "Ratios",
    Dimension.TIME: "Times",
    Dimension.RATE: "Rates",
    Dimension.SIZE: "Sizes",
}


def variant_charts(row: SummaryRow) -> tuple[Chart, ...]:
    """What the variants measured: a chart per quantity over sizes, else per dimension; flows at the end."""
    if not row.variants or not any(run.measures for run in row.variants):
        return ()
    sizes = _size_axis(row)
    charts = _over_sizes(row, sizes) if sizes is not None else _side_by_side(row)
    return (*charts, *_flows(row))


def _size_axis(row: SummaryRow) -> str | None:
    """The axis whose values are all sizes; None when there is none with two."""
    for axis in row.variants[0].values:
        values = {run.values[axis] for run in row.variants}
        if len(values) > 1 and all(_bytes(value) is not None for value in values):
            return axis
    return None


def _bytes(value: str) -> int | None:
    try:
        return parse_size_bytes(value)
    except UsageError:
        return None


def _over_sizes(row: SummaryRow, sizes: str) -> Iterator[Chart]:
    for quantity in row.compare:
        curves: dict[str, dict[int, float]] = {}
        for run in row.variants:
            value, size_bytes = run.value(quantity), _bytes(run.values[sizes])
            others = [other for axis, other in run.values.items() if axis != sizes]
            if value is not None and size_bytes is not None:
                curves.setdefault("-".join(others), {})[size_bytes] = value
        yield size_chart(quantity, curves, _FORMATS[parse_quantity(quantity).dimension])


def _side_by_side(row: SummaryRow) -> Iterator[Chart]:
    by_dimension: dict[Dimension, list[str]] = {}
    for quantity in row.compare:
        by_dimension.setdefault(parse_quantity(quantity).dimension, []).append(quantity)
    for dimension, quantities in by_dimension.items():
        bars = {quantity: _values(row, quantity) for quantity in quantities}
        title = quantities[0] if len(quantities) == 1 else _NAMES[dimension]
        shown = {"": bars[quantities[0]]} if len(quantities) == 1 else bars
        yield bar_chart(title, shown, _FORMATS[dimension])


def _values(row: SummaryRow, quantity: str) -> dict[str, float]:
    found = ((run.name, run.value(quantity)) for run in row.variants)
    return {name: value for name, value in found if value is not None}


def _flows(row: SummaryRow) -> Iterator[Chart]:
    """A bar for each flow, where the scenario draws flows."""
    bars: dict[str, Mapping[str, float]] = {run.name: run.flows for run in row.variants if run.flows}
    if bars:
        yield bar_chart("Goodput of each flow", bars, format_rate)
