"""One figure of a campaign's cells side by side: runs as dots, median, interval, baseline shaded. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from testbed.campaign.figures import format_figure
from testbed.campaign.statistics import Estimate
from testbed.scenario.measure.expectation import format_value
from testbed.scenario.report.axis import Axis, linear_axis
from testbed.scenario.spec.quantity import Dimension

_WIDTH: Final = 400
_HEIGHT: Final = 214
_LEFT: Final = 70
_RIGHT: Final = 394
_TOP: Final = 10
_BOTTOM: Final = 186
_SPREAD_MAX: Final = 9.0
_MARK_MAX: Final = 16.0
_NUMBER_WIDTH: Final = 18
_FROM_ZERO_BELOW: Final = 0.5
"""An axis begins at zero when the least value is below this share of the greatest."""


@dataclass(frozen=True, slots=True)
class CellPoint:
    """A cell in a chart.

    Attributes:
        number: of the cell, below the axis.
        values: of its runs, in the base unit.
        found: their median and interval.
        is_baseline: whether others are compared with it.
        note: what the comparison with the baseline, or the number of runs, comes to; empty for nothing.
    """

    number: int
    values: tuple[float, ...]
    found: Estimate
    is_baseline: bool
    note: str


@dataclass(frozen=True, slots=True)
class CellChart:
    """One figure in all cells that measured it; at least one value."""

    title: str
    dimension: Dimension
    points: tuple[CellPoint, ...]

    @property
    def notes(self) -> dict[str, list[int]]:
        """What is said -> of which cells."""
        found: dict[str, list[int]] = {}
        for point in self.points:
            if point.note:
                found.setdefault(point.note, []).append(point.number)
        return found


def draw_cell_chart(chart: CellChart) -> str:
    """The chart as an SVG element with a description for those who cannot see it."""
    axis = _axis([value for point in chart.points for value in point.values])
    room = (_RIGHT - _LEFT) / len(chart.points)
    return "\n".join(
        [
            f'<svg class="panel plain" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(_description(chart))}">',
            *_baseline(chart, room),
            *_ticks(axis, chart.dimension),
            *(
                part
                for place, point in enumerate(chart.points)
                for part in _point(point, _LEFT + room * (place + 0.5), room, axis)
            ),
            *_numbers(chart, room),
            "</svg>",
        ]
    )


def _axis(values: Sequence[float]) -> Axis:
    low, high = min(values), max(values)
    return linear_axis(0 if 0 <= low < _FROM_ZERO_BELOW * high else low, high, 4)


def _description(chart: CellChart) -> str:
    cells = [
        f"cell {point.number}: {format_figure(point.found.median, chart.dimension)}" for point in chart.points
    ]
    return f"{chart.title}, medians: {', '.join(cells)}"


def _ticks(axis: Axis, dimension: Dimension) -> Iterator[str]:
    step = axis.ticks[1] - axis.ticks[0]
    digits = max(3, 1 + math.ceil(math.log10(max(abs(axis.low), abs(axis.high)) / step)))
    for tick in axis.ticks:
        y = axis.position(tick, _BOTTOM, _TOP)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        text = format_value(tick, dimension, digits)
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    yield f'<line class="axis" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BOTTOM}" y2="{_BOTTOM}"/>'


def _baseline(chart: CellChart, room: float) -> Iterator[str]:
    for place, point in enumerate(chart.points):
        if point.is_baseline:
            yield (
                f'<rect class="ground" x="{_LEFT + room * place:.1f}" y="{_TOP}" width="{room:.1f}" '
                f'height="{_BOTTOM - _TOP}"/>'
            )


def _numbers(chart: CellChart, room: float) -> Iterator[str]:
    every = math.ceil(_NUMBER_WIDTH / room)
    for place, point in enumerate(chart.points):
        if place % every == 0:
            x = _LEFT + room * (place + 0.5)
            yield f'<text x="{x:.1f}" y="{_BOTTOM + 16}" text-anchor="middle">{point.number}</text>'


def _point(point: CellPoint, x: float, room: float, axis: Axis) -> Iterator[str]:
    def height(value: float) -> float:
        return axis.position(value, _BOTTOM, _TOP)

    found = point.found
    spread, mark = min(_SPREAD_MAX, room / 4), min(_MARK_MAX, room * 0.4)
    if found.low is not None and found.high is not None:
        top, bottom = height(found.high), height(found.low)
        yield f'<path class="interval" d="M{x:.1f},{top:.1f}V{bottom:.1f}"/>'
        yield f'<path class="line c0" d="M{x - mark / 2:.1f},{top:.1f}h{mark:.1f}"/>'
        yield f'<path class="line c0" d="M{x - mark / 2:.1f},{bottom:.1f}h{mark:.1f}"/>'
    for index, value in enumerate(point.values):
        aside = 0.0 if len(point.values) == 1 else (2 * index / (len(point.values) - 1) - 1) * spread
        yield f'<circle class="dot c1" cx="{x + aside:.1f}" cy="{height(value):.1f}" r="2"/>'
    yield f'<path class="median" d="M{x - mark:.1f},{height(found.median):.1f}h{2 * mark:.1f}"/>'
