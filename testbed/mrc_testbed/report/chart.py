"""Charts as data; assets/charts.js draws them in a browser, chart_file.py into files. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mrc_testbed.shown import Scale, format_size

STYLES: Final = 8
"""Colours and dashes that tell curves apart: --c0 and --d0 to --c7 and --d7 of assets/charts.css."""

SECONDS: Final = Scale(((1e9, "s"),))
"""Scale of a time axis, whose places are in ns."""

Form = Literal["steps", "lines", "dots", "bars", "lanes", "cells"]
Values = Sequence[float | None]

_LIMIT_SHARE: Final = 0.5
_SAME_SHARE: Final = 0.01
"""Share of the highest value within which two curves lie on one another."""
_DENSE: Final = 100
"""From so many values on, each is written with few digits."""
_BARS_SHARE: Final = 0.8
"""Share of the room between two categories that bars fill."""


@dataclass(frozen=True, slots=True)
class Band:
    """A shade behind the curves, such as a fault: (begin, end) of each time it acted, at least one."""

    name: str
    periods: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    title: str  # what it is called
    scale: Scale  # of its values
    # low, high: its ends; None: what the values need
    low: float | None = None
    high: float | None = None
    is_log: bool = False  # equal distances are equal factors
    ticks: tuple[tuple[float, str], ...] = ()  # places and their names; empty for round values
    bands: tuple[Band, ...] = ()  # faults, on an axis of time; of cells, what others are compared with
    # what lies outside it was not part of the measurement; None on an axis of anything but time
    measured: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, or one set of dots, bars or areas."""

    name: str  # for the legend; empty for none
    x: Sequence[float]  # ascending; of steps and areas the edges, one more than values
    y: Values  # values; None leaves a gap


@dataclass(frozen=True, slots=True)
class Lane:
    """A strip with stacked areas of its own."""

    name: str  # stands at its left
    full: float  # the value that fills its height; above 0
    series: tuple[Series, ...]  # from the bottom up


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A value that what is drawn cannot exceed, or is to reach."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its interval, which may be unknown, at a place of the horizontal axis."""

    x: float
    median: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Chart:
    title: str  # what it shows
    # steps (a value over each interval), lines, dots, bars, lanes of stacked areas, or cells: dots with their
    # median and interval
    form: Form
    # x, y: axes
    x: Axis
    y: Axis
    series: Sequence[Series]  # in the order of the legend; of lanes, what they have together
    key: str = ""  # names it in its page
    note: str = ""  # how to read it; may be empty
    limit: ReferenceLine | None = None  # drawn where the values come near
    lanes: tuple[Lane, ...] = ()  # from the top down
    spreads: tuple[Spread, ...] = ()  # of cells

    @property
    def values(self) -> list[float]:
        """All that are known."""
        return [value for each in self.series for value in each.y if value is not None]

    @property
    def shown_limit(self) -> ReferenceLine | None:
        """The limit, if values come so near that it can be drawn with them."""
        highest = max(self.values, default=0.0)
        near = self.limit is not None and highest >= _LIMIT_SHARE * self.limit.value > 0
        return self.limit if near else None

    @property
    def silence(self) -> str:
        """Why there is nothing to see in it, in a few words; empty when there is."""
        known = self.values
        highest = max(known, default=0.0)
        if highest == 0:
            return "0 all the time" if known else "nothing recorded"
        is_plain = self.form == "steps" and not self.y.is_log and len(self.series) > 1
        if is_plain and all(
            _is_one(each, highest) for each in zip(*(one.y for one in self.series), strict=True)
        ):
            return f"the {len(self.series)} curves are the same, up to {self.y.scale(highest)}"
        return ""

    @property
    def description(self) -> str:
        """Title, curves and their ranges, faults: for those who cannot see it."""
        is_over_time = self.x.measured is not None
        kind = (
            " over time" if is_over_time else ", histogram" if self.form == "steps" and self.x.is_log else ""
        )
        names = ", ".join(band.name for band in self.x.bands)
        faults = f"; faults: {names}" if is_over_time and names else ""
        return f"{self.title}{kind}: {'; '.join(map(self._range, self.series))}{faults}"

    def _range(self, series: Series) -> str:
        known = [value for value in series.y if value is not None]
        if not known:
            return f"{series.name} nothing recorded".strip()
        return f"{series.name} from {self.y.scale.range(min(known), max(known))}".strip()


def _is_one(values: Iterable[float | None], highest: float) -> bool:
    """Check that curves do not differ visibly at a place."""
    known = [value or 0.0 for value in values]
    return max(known) - min(known) <= _SAME_SHARE * highest


def size_chart(title: str, quantity: str, curves: Mapping[str, Mapping[int, float]], scale: Scale) -> Chart:
    """A chart of values over message sizes.

    Args:
        curves: name -> bytes -> value.
    """
    sizes = sorted({float(size) for values in curves.values() for size in values}) or [1.0]
    ticks = tuple((size, format_size(size)) for size in sizes)
    # A little room on both sides, so that dots at the ends are whole.
    x = Axis("message size", format_size, sizes[0] / 1.2, sizes[-1] * 1.2, is_log=True, ticks=ticks)
    drawn = tuple(Series(name, *_columns(values)) for name, values in curves.items())
    return Chart(title, "lines", x, Axis(quantity, scale), drawn)


def _columns(values: Mapping[int, float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    sizes = sorted(values)
    return tuple(map(float, sizes)), tuple(values[size] for size in sizes)


def bar_chart(
    title: str,
    quantity: str,
    bars: Mapping[str, Mapping[str, float]],
    scale: Scale,
    limit: ReferenceLine | None = None,
) -> Chart:
    """A chart of bars in groups.

    Args:
        bars: name in the legend (empty for none) -> category -> value.
    """
    categories = list(dict.fromkeys(category for values in bars.values() for category in values))
    x = Axis("", Scale(((1, ""),)), -0.5, len(categories) - 0.5, ticks=tuple(enumerate(categories)))
    width = bar_width(len(bars))
    series = []
    for index, (name, values) in enumerate(bars.items()):
        aside = (index - (len(bars) - 1) / 2) * width
        places = [categories.index(category) + aside for category in values]
        series.append(Series(name, tuple(places), tuple(values.values())))
    return Chart(title, "bars", x, Axis(quantity, scale), tuple(series), limit=limit)


def bar_width(series_count: int) -> float:
    """Width of a bar where categories are 1 apart."""
    return _BARS_SHARE / max(1, series_count)


def charts_json(charts: Iterable[Chart]) -> str:
    """Charts for charts.js: what several have in common stands once; no markup within can end it early."""
    axes: dict[Axis, int] = {}
    places: dict[tuple[float, ...], int] = {}
    drawn = [_chart_json(chart, axes, places) for chart in charts]
    xs = [[_short(x, 9) for x in each] for each in places]
    found = {"axes": [_axis_json(each) for each in axes], "xs": xs, "charts": drawn}
    return json.dumps(found, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _axis_json(axis: Axis) -> dict[str, object]:
    return {
        "title": axis.title,
        "units": axis.scale.units,
        "low": axis.low,
        "high": axis.high,
        "log": axis.is_log,
        "ticks": axis.ticks,
        "bands": [[band.name, band.periods] for band in axis.bands],
        "measured": axis.measured,
    }


def _chart_json(
    chart: Chart, axes: dict[Axis, int], places: dict[tuple[float, ...], int]
) -> dict[str, object]:
    """One chart; axes and places are numbers, given to those that are new."""

    def series_json(each: Series) -> list[object]:
        return [each.name, places.setdefault(tuple(each.x), len(places)), _written(each.y)]

    limit = chart.shown_limit
    return {
        "key": chart.key,
        "form": chart.form,
        "x": axes.setdefault(chart.x, len(axes)),
        "y": axes.setdefault(chart.y, len(axes)),
        "series": [series_json(each) for each in chart.series],
        "limit": limit and [limit.name, limit.value],
        "lanes": [
            [lane.name, lane.full, [series_json(each) for each in lane.series]] for lane in chart.lanes
        ],
        "spreads": [[each.x, each.median, each.low, each.high] for each in chart.spreads],
        "barWidth": bar_width(len(chart.series)),
    }


def _written(values: Values) -> list[float | None]:
    """The values; of many, each with as many digits as the eye can tell apart."""
    digits = 4 if len(values) > _DENSE else 7
    return [None if value is None else _short(value, digits) for value in values]


def _short(value: float, digits: int) -> float:
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short
