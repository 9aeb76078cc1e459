"""Draws a panel of the report as SVG text: lines, stacked areas or lanes over time, faults shaded. Pure.

Colours come from the page's style sheet through classes, so one drawing serves light and dark; every
series also has its own dash pattern or order, so nothing depends on telling colours apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, Literal

from testbed.scenario.report.axis import SECONDS, Axis, linear_axis, log_axis
from testbed.shown import Scale, format_number

WIDTH: Final = 1080
HEIGHT: Final = 252
LEFT: Final = 84
RIGHT: Final = 1064
TOP: Final = 30
BOTTOM: Final = 206
TIME_TITLE: Final = "time since the end of warm-up"
_TITLE_X: Final = 13
_LIMIT_SHARE: Final = 0.5
_SAME_SHARE: Final = 0.01
"""Of the highest value: curves that are nowhere further apart lie on one another."""

_LABEL_ROWS: Final = 2
_LABEL_ROW_HEIGHT: Final = 12
_CHARACTER_WIDTH: Final = 6.4
_LANES_HEIGHT_MAX: Final = 320
_LANE_PITCH_MAX: Final = 40
_LANE_GAP: Final = 5

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
class Lane:
    """A strip of a panel with stacked areas of its own.

    Attributes:
        name: stands at its left.
        full: the value that fills its height; above 0.
        series: from the bottom up.
    """

    name: str
    full: float
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """A value that what is drawn cannot exceed, or is to reach."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram over time.

    Attributes:
        key: identifies it in the page.
        title: what it shows.
        quantity: what the vertical axis is called.
        note: how to read it; may be empty.
        form: lines on a linear axis from zero, lines on a logarithmic axis, areas on top of one another, or
            lanes below one another.
        series: in the order of the legend; areas from the bottom up; of lanes, what they have together.
        format: of its values.
        lanes: from the top down; none in other forms.
        limit: drawn where the values come near; None for none.
    """

    key: str
    title: str
    quantity: str
    note: str
    form: Literal["lines", "log-lines", "areas", "lanes"]
    series: tuple[Series, ...]
    format: Scale
    lanes: tuple[Lane, ...] = ()
    limit: Limit | None = None

    @property
    def silence(self) -> str:
        """Why there is nothing to see in it, in a few words; empty when there is."""
        known = [value for series in self.series for value in series.values if value is not None]
        highest = max(known, default=0.0)
        if highest == 0:
            return "0 all the time" if known else "nothing recorded"
        together = zip(*(series.values for series in self.series), strict=True)
        if self.form == "lines" and len(self.series) > 1 and all(_is_one(each, highest) for each in together):
            return f"the {len(self.series)} curves are the same, up to {self.format(highest)}"
        return ""


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
        quantity: what the axis is called.
        scale: of the axis.
    """

    edges: tuple[float, ...]
    axis: Axis
    bands: tuple[Band, ...]
    end: float
    quantity: str = TIME_TITLE
    scale: Scale = SECONDS

    def x(self, time: float) -> float:
        """Horizontal position of a time."""
        return self.axis.position(time, LEFT, RIGHT)


def draw_panel(panel: Panel, frame: Frame) -> str:
    """The panel as an SVG element with a description for those who cannot see it."""
    if panel.form == "lanes":
        content, bottom = _lanes(panel.lanes, frame)
        content.append(_title_beside(panel.quantity, bottom))
    else:
        axis, bottom = _value_axis(panel), BOTTOM
        draw = _areas if panel.form == "areas" else _lines
        limit = near_limit(panel.limit, _highest(panel.series))
        content = [
            *ticks_beside(axis, panel.format, panel.quantity),
            *draw_limit(limit, axis),
            *draw(panel.series, frame, axis),
        ]
    parts = [
        f'<svg class="panel" id="panel-{panel.key}" viewBox="0 0 {WIDTH} {bottom + HEIGHT - BOTTOM}" '
        f'role="img" tabindex="0" aria-label="{escape(_description(panel))}">',
        *shading(frame, bottom),
        *content,
        *ticks_below(frame.axis, frame.scale, frame.quantity, bottom),
        *fault_labels(frame),
        f'<line class="cursor" x1="0" x2="0" y1="{TOP}" y2="{bottom}"/>',
        f'<text class="cursor-time" x="0" y="{bottom + 18}" text-anchor="middle"></text>',
        "</svg>",
    ]
    return "\n".join(parts)


def _value_axis(panel: Panel) -> Axis:
    columns = [[value for value in series.values if value is not None] for series in panel.series]
    if panel.form == "areas":
        stacked = zip(*(series.values for series in panel.series), strict=True)
        return linear_axis(
            0, max((sum(value or 0 for value in column) for column in stacked), default=0), scale=panel.format
        )
    values = [value for column in columns for value in column]
    if panel.form == "log-lines" and values and min(values) > 0:
        return log_axis(min(values), max(values))
    highest = max(values, default=0)
    limit = near_limit(panel.limit, highest)
    return linear_axis(0, max(highest, limit.value if limit else 0), scale=panel.format)


def _is_one(values: Sequence[float | None], highest: float) -> bool:
    """Whether curves do not differ visibly at a place."""
    known = [value or 0.0 for value in values]
    return max(known) - min(known) <= _SAME_SHARE * highest


def _highest(drawn: Sequence[Series]) -> float:
    return max((value for series in drawn for value in series.values if value is not None), default=0)


def near_limit(limit: Limit | None, highest: float) -> Limit | None:
    """*limit*, if values up to *highest* come so near that it can be drawn with them."""
    return limit if limit is not None and highest >= _LIMIT_SHARE * limit.value > 0 else None


def draw_limit(limit: Limit | None, axis: Axis) -> list[str]:
    """A line across the drawing, with its name."""
    if limit is None:
        return []
    y = axis.position(limit.value, BOTTOM, TOP)
    return [
        f'<line class="limit" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
        f'<text class="limit" x="{RIGHT - 4}" y="{y + 13:.1f}" text-anchor="end">{escape(limit.name)}</text>',
    ]


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


def shading(frame: Frame, bottom: int = BOTTOM) -> list[str]:
    """Behind the curves: warm-up, what came after the run, every occurrence of a fault."""
    warmup = frame.x(0)
    end = frame.x(frame.end)
    parts = []
    if warmup > LEFT:
        parts.append(_rect("outside", LEFT, warmup, bottom))
    if end < RIGHT:
        parts.append(_rect("outside", end, RIGHT, bottom))
    for band in frame.bands:
        outline = "".join(_band_piece(frame.x(start), frame.x(end), bottom) for start, end in band.periods)
        parts.append(f'<path class="fault" d="{outline}"/>')
    return parts


def _band_piece(left: float, right: float, bottom: int) -> str:
    """One period of a fault as a piece of a path: a flap has hundreds, in each panel."""
    width = max(right - left, 1.0)
    return f"M{left:.1f},{TOP}h{width:.1f}V{bottom}h-{width:.1f}z"


def _rect(style: str, left: float, right: float, bottom: int) -> str:
    width = max(right - left, 1.0)
    return f'<rect class="{style}" x="{left:.1f}" y="{TOP}" width="{width:.1f}" height="{bottom - TOP}"/>'


def fault_labels(frame: Frame) -> list[str]:
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


def ticks_beside(axis: Axis, scale: Scale, quantity: str) -> list[str]:
    """A line across the drawing for each tick of a vertical axis, their labels, and the axis' title.

    Values of a linear axis are in one unit, which the title says; those of a logarithmic one have their own.
    """
    factor, unit = (1.0, "") if axis.is_log else scale.unit(axis.high)
    parts = [_title_beside(f"{quantity} ({unit})" if unit else quantity)]
    for tick in axis.ticks:
        y = axis.position(tick, BOTTOM, TOP)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{scale(tick) if axis.is_log else format_number(tick / factor)}</text>"
        )
    return parts


def _title_beside(text: str, bottom: int = BOTTOM) -> str:
    place = f"translate({_TITLE_X},{(TOP + bottom) / 2:.0f}) rotate(-90)"
    return f'<text class="axis-title" transform="{place}" text-anchor="middle">{escape(text)}</text>'


def ticks_below(axis: Axis, scale: Scale, quantity: str, bottom: int = BOTTOM) -> list[str]:
    """A horizontal axis with its ticks, their labels and its title, as beside a drawing."""
    factor, unit = (1.0, "") if axis.is_log else scale.unit(axis.high)
    parts = [f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{bottom}" y2="{bottom}"/>']
    for tick in axis.ticks:
        x = axis.position(tick, LEFT, RIGHT)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        text, anchor = scale(tick) if axis.is_log else format_number(tick / factor), "middle"
        if x + len(text) * _CHARACTER_WIDTH / 2 > WIDTH - 4:
            x, anchor = WIDTH, "end"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="{anchor}">{text}</text>')
    parts.append(title_below(f"{quantity} ({unit})" if unit else quantity, bottom))
    return parts


def title_below(text: str, bottom: int = BOTTOM) -> str:
    """The title of a horizontal axis."""
    place = f'x="{(LEFT + RIGHT) / 2:.0f}" y="{bottom + 36}"'
    return f'<text class="axis-title" {place} text-anchor="middle">{escape(text)}</text>'


def _lines(drawn: Sequence[Series], frame: Frame, axis: Axis) -> list[str]:
    return [
        f'<path class="line {series.style}" d="{_staircase(series.values, frame, axis, BOTTOM, TOP)}"/>'
        for series in drawn
    ]


def _staircase(values: Values, frame: Frame, axis: Axis, bottom: float, top: float) -> str:
    """A path with a horizontal piece for as long as a value stays; a gap begins a new piece of path."""
    text = level = ""
    end_x = 0.0
    for (start, end), value in zip(pairwise(frame.edges), values, strict=True):
        if value is None:
            text += f"H{end_x:.1f}" if level else ""
            level = ""
            continue
        y = f"{axis.position(value, bottom, top):.1f}"
        if not level:
            text += f"M{frame.x(start):.1f},{y}"
        elif y != level:
            text += f"H{end_x:.1f}V{y}"
        level, end_x = y, frame.x(end)
    return f"{text}H{end_x:.1f}" if level else text


def _areas(
    stack: Sequence[Series], frame: Frame, axis: Axis, bottom: int = BOTTOM, top: int = TOP
) -> list[str]:
    """Areas from the top of the stack down, each drawn to the bottom and covered by those below it."""
    parts: list[str] = []
    roof = [0.0] * (len(frame.edges) - 1)
    for series in stack:
        roof = [low + (value or 0.0) for low, value in zip(roof, series.values, strict=True)]
        if any(series.values):
            start, _, steps = _staircase(roof, frame, axis, bottom, top).partition(",")
            path = f"{start},{bottom}V{steps}V{bottom}Z"
            parts.append(f'<path class="area {series.style}" d="{path}"/>')
    return parts[::-1]


def _lanes(lanes: Sequence[Lane], frame: Frame) -> tuple[list[str], int]:
    """The strips, each with its name, a ground, and areas that cover it; and where the last one ends."""
    parts = []
    pitch = min(_LANE_PITCH_MAX, _LANES_HEIGHT_MAX // len(lanes))
    height = pitch - _LANE_GAP
    for index, lane in enumerate(lanes):
        top = TOP + index * pitch
        bottom = top + height
        parts.append(
            f'<text class="tick" x="{LEFT - 8}" y="{top + height / 2 + 4:.1f}" text-anchor="end">'
            f"{escape(lane.name)}</text>"
        )
        parts.append(f'<rect class="ground" x="{LEFT}" y="{top}" width="{RIGHT - LEFT}" height="{height}"/>')
        axis = Axis(0, lane.full, (), is_log=False)
        parts += _areas(lane.series, frame, axis, bottom, top)
    return parts, TOP + len(lanes) * pitch
