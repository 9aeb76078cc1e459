"""Draws a panel of the report as SVG text: lines or stacked areas over time, faults shaded. Pure.

Colours come from the page's style sheet through classes, so one drawing serves light and dark; every
series also has its own dash pattern or order, so nothing depends on telling colours apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, Literal

from testbed.scenario.report_axis import Axis, Format, format_seconds, linear_axis, log_axis

WIDTH: Final = 1080
HEIGHT: Final = 236
LEFT: Final = 76
RIGHT: Final = 1064
TOP: Final = 30
BOTTOM: Final = 206
_LABEL_ROWS: Final = 2
_LABEL_ROW_HEIGHT: Final = 12
_CHARACTER_WIDTH: Final = 6.4

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One line or area of a panel.

    Attributes:
        name: for the legend.
        style: class of the style sheet that colours it.
        values: one per interval, drawn as a step over it; None leaves a gap.
    """

    name: str
    style: str
    values: Values


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram over time.

    Attributes:
        key: identifies it in the page.
        title: what it shows.
        note: how to read it; may be empty.
        form: lines on a linear axis from zero, lines on a logarithmic axis, or areas on top of one another.
        series: in the order of the legend; areas from the bottom up.
        format: of its values.
    """

    key: str
    title: str
    note: str
    form: Literal["lines", "log-lines", "areas"]
    series: tuple[Series, ...]
    format: Format


@dataclass(frozen=True, slots=True)
class Band:
    """When a fault acted.

    Attributes:
        fault_id: its label.
        start, end: of the fault as a whole, ns on the run's axis.
        periods: (start, end) of each occurrence.
    """

    fault_id: str
    start: float
    end: float
    periods: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """What all panels of a report share.

    Attributes:
        edges: (intervals + 1,) ns on the run's axis: interval i lies between edges i and i + 1.
        axis: of time.
        bands: of the faults.
        end: when the run ended; what follows is not part of the measurement.
    """

    edges: tuple[float, ...]
    axis: Axis
    bands: tuple[Band, ...]
    end: float

    def x(self, time: float) -> float:
        """Horizontal position of a time."""
        return self.axis.position(time, LEFT, RIGHT)


def draw_panel(panel: Panel, frame: Frame) -> str:
    """The panel as an SVG element with a description for those who cannot see it."""
    axis = _value_axis(panel)
    parts = [
        f'<svg class="panel" id="panel-{panel.key}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(_description(panel))}">',
        *_shading(frame),
        *_value_ticks(axis, panel.format),
        *(_areas(panel, frame, axis) if panel.form == "areas" else _lines(panel, frame, axis)),
        *_time_ticks(frame),
        *_labels(frame),
        f'<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{BOTTOM}"/>',
        f'<text class="cursor-time" x="0" y="{BOTTOM + 18}" text-anchor="middle"></text>',
        "</svg>",
    ]
    return "\n".join(parts)


def _value_axis(panel: Panel) -> Axis:
    columns = [[value for value in series.values if value is not None] for series in panel.series]
    if panel.form == "areas":
        stacked = zip(*(series.values for series in panel.series), strict=True)
        return linear_axis(0, max((sum(value or 0 for value in column) for column in stacked), default=0))
    values = [value for column in columns for value in column]
    if panel.form == "log-lines" and values and min(values) > 0:
        return log_axis(min(values), max(values))
    return linear_axis(0, max(values, default=0))


def _description(panel: Panel) -> str:
    """Title and range of each series."""
    texts = []
    for series in panel.series:
        known = [value for value in series.values if value is not None]
        texts.append(
            f"{series.name} from {panel.format(min(known))} to {panel.format(max(known))}"
            if known
            else f"{series.name}: nothing recorded"
        )
    return f"{panel.title} over time: {'; '.join(texts)}"


def _shading(frame: Frame) -> list[str]:
    warmup = frame.x(0)
    end = frame.x(frame.end)
    parts = []
    if warmup > LEFT:
        parts.append(_rect("outside", LEFT, warmup))
    if end < RIGHT:
        parts.append(_rect("outside", end, RIGHT))
    parts += [
        _rect("fault", frame.x(start), frame.x(end)) for band in frame.bands for start, end in band.periods
    ]
    return parts


def _rect(style: str, left: float, right: float) -> str:
    width = max(right - left, 1.0)
    return f'<rect class="{style}" x="{left:.1f}" y="{TOP}" width="{width:.1f}" height="{BOTTOM - TOP}"/>'


def _labels(frame: Frame) -> list[str]:
    """A bar from the first to the last occurrence of each fault with its id, in rows that do not collide."""
    parts: list[str] = []
    row_ends = [0.0] * _LABEL_ROWS
    for band in sorted(frame.bands, key=lambda band: band.start):
        left, right = frame.x(band.start), frame.x(band.end)
        row = next((row for row, end in enumerate(row_ends) if end <= left), _LABEL_ROWS - 1)
        row_ends[row] = max(right, left + _CHARACTER_WIDTH * len(band.fault_id)) + 6
        y = TOP - 4 - row * _LABEL_ROW_HEIGHT
        width = max(right - left, 2.0)
        parts.append(f'<rect class="fault-bar" x="{left:.1f}" y="{y}" width="{width:.1f}" height="3"/>')
        parts.append(f'<text class="fault-id" x="{left:.1f}" y="{y - 3}">{escape(band.fault_id)}</text>')
    return parts


def _value_ticks(axis: Axis, format_value: Format) -> list[str]:
    parts = []
    for tick in axis.ticks:
        y = axis.position(tick, BOTTOM, TOP)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{format_value(tick)}</text>'
        )
    return parts


def _time_ticks(frame: Frame) -> list[str]:
    parts = [f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>']
    for tick in frame.axis.ticks:
        x = frame.x(tick)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{BOTTOM}" y2="{BOTTOM + 4}"/>')
        text = format_seconds(tick)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{text}</text>')
    return parts


def _lines(panel: Panel, frame: Frame, axis: Axis) -> list[str]:
    return [
        f'<path class="line {series.style}" d="{_staircase(series.values, frame, axis)}"/>'
        for series in panel.series
    ]


def _staircase(values: Values, frame: Frame, axis: Axis) -> str:
    """A path with one horizontal piece per interval; a gap begins a new piece of path."""
    text = ""
    is_pen_down = False
    for (start, end), value in zip(pairwise(frame.edges), values, strict=True):
        if value is not None:
            y = axis.position(value, BOTTOM, TOP)
            text += f"V{y:.1f}" if is_pen_down else f"M{frame.x(start):.1f},{y:.1f}"
            text += f"H{frame.x(end):.1f}"
        is_pen_down = value is not None
    return text


def _areas(panel: Panel, frame: Frame, axis: Axis) -> list[str]:
    """Areas from the top of the stack down, each drawn to the bottom and covered by those below it."""
    parts: list[str] = []
    roof = [0.0] * (len(frame.edges) - 1)
    for series in panel.series:
        roof = [low + (value or 0.0) for low, value in zip(roof, series.values, strict=True)]
        if any(series.values):
            start, _, steps = _staircase(roof, frame, axis).partition(",")
            path = f"{start},{BOTTOM}V{steps}V{BOTTOM}Z"
            parts.append(f'<path class="area {series.style}" d="{path}"/>')
    return parts[::-1]
