"""Charts for figures: curves over time, dots, lines over sizes, and bars, as SVG text. Pure.

Several charts one above the other make a figure. Colours come from the style sheet of reports, which a figure
that is a file of its own carries with it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Final, Literal

from testbed.scenario.report.axis import Axis, linear_axis, log_axis
from testbed.scenario.report.panel_drawing import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Frame,
    Limit,
    draw_limit,
    fault_labels,
    near_limit,
    shading,
    ticks_below,
    ticks_beside,
    title_below,
)
from testbed.shown import Scale, format_size

STYLES: Final = 8
"""Line styles c0 to c7 of the style sheet."""

_TITLE_HEIGHT: Final = 26
_LEGEND_ROW_HEIGHT: Final = 17
_CHARACTER_WIDTH: Final = 6.6
_SAMPLE_WIDTH: Final = 32
_BAR_SHARE: Final = 0.8
"""Of the room between two categories that bars fill."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line, set of dots or set of bars.

    Attributes:
        name: for the legend; empty for none.
        points: (x, y), x ascending; y None leaves a gap. Of bars x is the place of the category.
    """

    name: str
    points: Sequence[tuple[float, float | None]]


@dataclass(frozen=True, slots=True)
class Chart:
    """One diagram.

    Attributes:
        title: what it shows.
        quantity: what the vertical axis is called.
        form: lines over time, dots over time, lines with dots over sizes on a logarithmic axis, or bars.
        curves: in the order of the legend.
        format: of values.
        frame: axis of time with the faults; None where x is no time.
        categories: names under bars; empty otherwise.
        limit: drawn where the values come near; None for none.
        top: value that the axis reaches at least.
    """

    title: str
    quantity: str
    form: Literal["lines", "dots", "sizes", "bars"]
    curves: tuple[Curve, ...]
    format: Scale
    frame: Frame | None = None
    categories: tuple[str, ...] = ()
    limit: Limit | None = None
    top: float = 0.0


def draw_figure(charts: Sequence[Chart], *, is_file: bool) -> str:
    """The charts one above the other as one SVG element.

    Args:
        charts: from the top down.
        is_file: it stands alone, so it carries the style sheet and a background; else it goes into a report.
    """
    y = 0.0
    parts: list[str] = []
    for chart in charts:
        drawn, height = _draw(chart)
        parts += [f'<g class="panel" transform="translate(0,{y:.0f})">', *drawn, "</g>"]
        y += height
    label = escape("; ".join(_description(chart) for chart in charts))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {WIDTH} {y:.0f}" role="img" '
        f'aria-label="{label}">'
        if is_file
        else f'<svg class="figure" viewBox="0 0 {WIDTH} {y:.0f}" role="img" aria-label="{label}">'
    )
    if is_file:
        background = f'<rect class="background" width="{WIDTH}" height="{y:.0f}"/>'
        parts = [f"<style>{escape(_style_sheet())}</style>", background, *parts]
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def size_chart(
    title: str,
    quantity: str,
    curves: Mapping[str, Mapping[int, float]],
    scale: Scale,
    limit: Limit | None = None,
) -> Chart:
    """A chart of values over message sizes.

    Args:
        title: what it shows.
        quantity: what the vertical axis is called.
        curves: name -> bytes -> value.
        scale: of the values.
        limit: of the values.
    """
    drawn = tuple(Curve(name, sorted(values.items())) for name, values in curves.items())
    return Chart(title, quantity, "sizes", drawn, scale, limit=limit)


def bar_chart(
    title: str,
    quantity: str,
    bars: Mapping[str, Mapping[str, float]],
    scale: Scale,
    limit: Limit | None = None,
) -> Chart:
    """A chart of bars in groups.

    Args:
        title: what it shows.
        quantity: what the vertical axis is called.
        bars: name in the legend (empty for none) -> category -> value.
        scale: of the values.
        limit: of the values.
    """
    categories = tuple(dict.fromkeys(category for values in bars.values() for category in values))
    curves = tuple(
        Curve(name, [(float(categories.index(category)), value) for category, value in values.items()])
        for name, values in bars.items()
    )
    return Chart(title, quantity, "bars", curves, scale, categories=categories, limit=limit)


def _style_sheet() -> str:
    return resources.files("testbed.scenario.report").joinpath("assets", "report.css").read_text("utf-8")


def _values(chart: Chart) -> list[float]:
    return [value for curve in chart.curves for _, value in curve.points if value is not None]


def _description(chart: Chart) -> str:
    """Title and range of each curve."""
    texts = []
    for curve in chart.curves:
        known = [value for _, value in curve.points if value is not None]
        name = f"{curve.name} " if curve.name else ""
        texts.append(
            f"{name}from {chart.format(min(known))} to {chart.format(max(known))}"
            if known
            else f"{name}nothing recorded"
        )
    return f"{chart.title}: {', '.join(texts)}"


def _draw(chart: Chart) -> tuple[list[str], float]:
    """The chart, its upper left corner at the origin, and its height."""
    legend, legend_height = _legend(chart)
    head = _TITLE_HEIGHT + legend_height
    highest = max([*_values(chart), chart.top])
    limit = near_limit(chart.limit, highest)
    axis = linear_axis(0, max(highest, limit.value if limit else 0), scale=chart.format)
    scaled = [*ticks_beside(axis, chart.format, chart.quantity), *draw_limit(limit, axis)]
    parts = [
        f'<text class="title" x="{LEFT}" y="18">{escape(chart.title)}</text>',
        f'<g transform="translate(0,{_TITLE_HEIGHT})">',
        *legend,
        "</g>",
        f'<g transform="translate(0,{head})">',
    ]
    if chart.frame is not None:
        parts += [
            *shading(chart.frame),
            *scaled,
            *_over_time(chart, chart.frame, axis),
            *ticks_below(chart.frame.axis, chart.frame.scale, chart.frame.quantity),
            *fault_labels(chart.frame),
        ]
    elif chart.form == "bars":
        parts += [*scaled, *_bars(chart, axis)]
    else:
        parts += [*scaled, *_over_sizes(chart, axis), title_below("message size")]
    return [*parts, "</g>"], head + HEIGHT + 8


def _legend(chart: Chart) -> tuple[list[str], int]:
    """Sample and name of each curve, in as many rows as it takes, and their height."""
    parts: list[str] = []
    x, row = float(LEFT), 0
    named = [(index, curve.name) for index, curve in enumerate(chart.curves) if curve.name]
    for index, name in named:
        width = _SAMPLE_WIDTH + _CHARACTER_WIDTH * len(name) + 14
        if x + width > RIGHT and x > LEFT:
            x, row = float(LEFT), row + 1
        y = 7 + row * _LEGEND_ROW_HEIGHT
        style = f"c{index % STYLES}"
        if chart.form == "bars":
            parts.append(f'<rect class="bar {style}" x="{x:.1f}" y="{y - 5}" width="26" height="10"/>')
        elif chart.form == "dots":
            parts.append(f'<circle class="dot {style}" cx="{x + 13:.1f}" cy="{y}" r="3"/>')
        else:
            parts.append(f'<path class="line {style}" d="M{x:.1f},{y}h26"/>')
        parts.append(f'<text class="name" x="{x + _SAMPLE_WIDTH:.1f}" y="{y + 4}">{escape(name)}</text>')
        x += width
    return parts, (row + 1) * _LEGEND_ROW_HEIGHT if named else 0


def _over_time(chart: Chart, frame: Frame, axis: Axis) -> Iterator[str]:
    for index, curve in enumerate(chart.curves):
        places = [(frame.x(x), None if y is None else axis.position(y, BOTTOM, TOP)) for x, y in curve.points]
        if chart.form == "dots":
            yield from _dots(places, index)
        else:
            yield _line(places, index)


def _over_sizes(chart: Chart, axis: Axis) -> Iterator[str]:
    sizes = sorted({x for curve in chart.curves for x, _ in curve.points}) or [1.0]
    sizes_axis = log_axis(sizes[0], sizes[-1] if sizes[-1] > sizes[0] else 2 * sizes[0])
    for size in sizes:
        x = sizes_axis.position(size, LEFT, RIGHT)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{BOTTOM}" y2="{BOTTOM + 4}"/>'
        yield _tick_text(x, format_size(size))
    yield _base_line()
    for index, curve in enumerate(chart.curves):
        places = [
            (sizes_axis.position(x, LEFT, RIGHT), None if y is None else axis.position(y, BOTTOM, TOP))
            for x, y in curve.points
        ]
        yield _line(places, index)
        yield from _dots(places, index)


def _bars(chart: Chart, axis: Axis) -> Iterator[str]:
    room = (RIGHT - LEFT) / max(1, len(chart.categories))
    in_group = Counter(place for curve in chart.curves for place, value in curve.points if value is not None)
    width = room * _BAR_SHARE / max(in_group.values(), default=1)
    drawn: Counter[float] = Counter()
    for index, curve in enumerate(chart.curves):
        for place, value in curve.points:
            if value is None:
                continue
            x = LEFT + room * (place + 0.5) + (drawn[place] - in_group[place] / 2) * width
            drawn[place] += 1
            y = axis.position(value, BOTTOM, TOP)
            yield (
                f'<rect class="bar c{index % STYLES}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{BOTTOM - y:.1f}"/>'
            )
            text = chart.format(value)
            if len(text) * _CHARACTER_WIDTH < width + 8:
                yield f'<text x="{x + width / 2:.1f}" y="{y - 4:.1f}" text-anchor="middle">{text}</text>'
    longest = max((len(name) for name in chart.categories), default=0) * _CHARACTER_WIDTH
    for place, name in enumerate(chart.categories):
        if longest <= room or place % (1 + int(longest / room)) == 0:
            yield _tick_text(LEFT + room * (place + 0.5), name)
    yield _base_line()


def _base_line() -> str:
    return f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>'


def _tick_text(x: float, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{BOTTOM + 18}" text-anchor="middle">{escape(text)}</text>'


def _line(places: Sequence[tuple[float, float | None]], index: int) -> str:
    """A path from point to point; a gap begins a new piece of it."""
    text = ""
    is_pen_down = False
    for x, y in places:
        if y is not None:
            text += f"{'L' if is_pen_down else 'M'}{x:.1f},{y:.1f}"
        is_pen_down = y is not None
    return f'<path class="line c{index % STYLES}" d="{text}"/>'


def _dots(places: Sequence[tuple[float, float | None]], index: int) -> Iterator[str]:
    for x, y in places:
        if y is not None:
            yield f'<circle class="dot c{index % STYLES}" cx="{x:.1f}" cy="{y:.1f}" r="2.4"/>'
