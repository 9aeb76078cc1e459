"""Charts as files: SVG and PDF, drawn by matplotlib; where that is missing, the log says what to install."""

import io
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

from mrc_testbed.errors import PreflightError
from mrc_testbed.extras import from_extra
from mrc_testbed.report.chart import STYLES, Axis, Chart, Series, bar_width
from mrc_testbed.report.page import asset
from mrc_testbed.shown import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = ("svg", "pdf")
_WIDTH_INCHES: Final = 9.0
_HEIGHT_INCHES: Final = 2.9
_LANE_FULL: Final = 0.88
_HEADROOM: Final = 1.08
_SETTINGS: Final[Mapping[str, Any]] = {
    "svg.hashsalt": "mrc-testbed",  # ids are the same every time
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 9,
    "text.parse_math": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
}
_NO_DATES: Final[Mapping[str, dict[str, Any]]] = {
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
_LOG: Final = logging.getLogger(__name__)


def figure_files(charts: Sequence[Chart]) -> dict[str, bytes]:
    """The charts one above the other: format -> content of the file; empty without charts or matplotlib."""
    if not charts:
        return {}
    try:
        with from_extra("figures"):
            import matplotlib as mpl  # noqa: PLC0415 - slow to load
            from matplotlib.figure import Figure  # noqa: PLC0415
    except PreflightError as error:
        _LOG.warning("no figure.svg: %s", error.message)
        return {}
    # Settings of the machine would make the files differ; what its fonts lack, those of the reader may have.
    settings: Any = {**mpl.rcParamsDefault, **_SETTINGS}
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with mpl.rc_context(settings), warnings.catch_warnings(action="ignore"):
        size = _WIDTH_INCHES, _HEIGHT_INCHES * len(charts)
        drawn = Figure(figsize=size, layout="constrained")
        for chart, axes in zip(charts, drawn.subplots(len(charts), squeeze=False)[:, 0], strict=True):
            _draw(chart, axes)
        files = {}
        for kind in FORMATS:
            stream = io.BytesIO()
            drawn.savefig(stream, format=kind, metadata=_NO_DATES[kind])
            drawn.set_layout_engine("none")  # it has been laid out
            files[kind] = stream.getvalue()
    return {**files, "svg": _described(files["svg"].decode(), charts).encode()}


def _described(svg: str, charts: Sequence[Chart]) -> str:
    """The element alone, with a description for those who cannot see it."""
    label = escape("; ".join(chart.description for chart in charts))
    body = svg[svg.index("<svg ") :]
    return body.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


@cache
def _styles() -> tuple[tuple[str, Any], ...]:
    """Colour and dashes of each curve, as pages have them."""
    sheet = asset("charts.css")
    found = []
    colours, dashes = (
        re.findall(rf"--{kind}\d: ([^;]+);", sheet)[:STYLES]
        for kind in ("c", "d")  # light before dark
    )
    for colour, dash in zip(colours, dashes, strict=True):
        pattern = () if dash == "none" else tuple(map(float, dash.split()))
        found.append((colour, (0, pattern) if pattern else "-"))
    return tuple(found)


def _draw(chart: Chart, axes: "Axes") -> None:
    axes.set_title(chart.title, loc="left", pad=20 if chart.x.bands else 8)
    _shade(chart, axes)
    for index, series in enumerate(chart.series if chart.form != "lanes" else ()):
        _draw_series(chart, series, index, axes)
    for index, lane in enumerate(chart.lanes):
        floor = len(chart.lanes) - 1 - index
        roof = [0.0] * len(lane.series[0].y)
        for place, area in enumerate(lane.series):
            low, roof = roof, [below + (value or 0.0) for below, value in zip(roof, area.y, strict=True)]
            bottom, top = (
                [floor + _LANE_FULL * value / lane.full for value in (*each, each[-1])]
                for each in (low, roof)
            )
            label = area.name if index == 0 else None
            colour = _styles()[place][0]
            axes.fill_between(area.x, bottom, top, step="post", color=colour, linewidth=0, label=label)
    limit = chart.shown_limit
    if limit is not None:
        axes.axhline(limit.value, color="black", linestyle=":", linewidth=1)
        axes.annotate(limit.name, (1, limit.value), (-3, -10), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", fontsize=8)  # fmt: skip
    for spread in chart.spreads:
        if spread.low is not None and spread.high is not None:
            axes.vlines(spread.x, spread.low, spread.high, color=_styles()[0][0], alpha=0.35, linewidth=6)
        axes.hlines(spread.median, spread.x - 0.3, spread.x + 0.3, color=_styles()[0][0], linewidth=2)
        at = (spread.x, spread.median if spread.high is None else spread.high)
        value = chart.y.scale(spread.median)
        axes.annotate(value, at, (0, 4), textcoords="offset points", ha="center", fontsize=7)
    _scale(chart.x, axes.xaxis, axes.set_xlim, axes.set_xscale, chart.x.high)
    high = max([*chart.values, limit.value if limit else 0.0], default=0.0)
    _scale(chart.y, axes.yaxis, axes.set_ylim, axes.set_yscale, high)
    if chart.form == "lanes":
        names = [lane.name for lane in chart.lanes]
        axes.set_yticks([len(names) - 1 - index + _LANE_FULL / 2 for index in range(len(names))], names)
        axes.set_ylabel(chart.y.title)
    elif chart.form != "cells" and not chart.y.is_log:
        axes.set_ylim(bottom=min(0.0, *chart.values) if chart.values else 0.0, top=high * _HEADROOM or 1.0)
    axes.grid(axis="y", color="#e8ecf0", linewidth=0.8)
    axes.set_axisbelow(True)
    if chart.form != "cells" and any(series.name for series in chart.series):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def _draw_series(chart: Chart, series: Series, index: int, axes: "Axes") -> None:
    colour, dashes = _styles()[index % STYLES]
    name = series.name
    values = [float("nan") if value is None else value for value in series.y]
    match chart.form:
        case "steps":
            axes.stairs(values, series.x, baseline=None, color=colour, linestyle=dashes, label=name)
        case "bars":
            width = bar_width(len(chart.series))
            bars = axes.bar(series.x, values, width, color=colour, label=name)
            if len(series.x) * len(chart.series) <= 24:
                axes.bar_label(bars, [chart.y.scale(value) for value in values], fontsize=7)
        case "lines":
            marker = "o" if len(series.x) <= 60 else ""
            axes.plot(series.x, values, color=colour, linestyle=dashes, marker=marker, ms=3, label=name)
        case _:
            axes.plot(series.x, values, "o", color=colour, markersize=2.5, label=name)


def _shade(chart: Chart, axes: "Axes") -> None:
    """Faults with their names, and what was not part of the measurement."""
    if chart.x.measured is not None and chart.x.low is not None and chart.x.high is not None:
        for low, high in ((chart.x.low, chart.x.measured[0]), (chart.x.measured[1], chart.x.high)):
            if low < high:
                axes.axvspan(low, high, color="#5a6675", alpha=0.09, linewidth=0)
    for place, band in enumerate(chart.x.bands):
        colour = "#0a7a4b" if chart.form == "cells" else "#d98a00"
        for low, high in band.periods:
            axes.axvspan(low, high, color=colour, alpha=0.17, linewidth=0)
        if chart.form != "cells":
            axes.annotate(band.name, (band.periods[0][0], 1), (0, 2 + 9 * (place % 2)), fontsize=8,
                          xycoords=("data", "axes fraction"), textcoords="offset points")  # fmt: skip


def _scale(axis: Axis, drawn: Any, set_ends: Any, set_kind: Any, high: float | None) -> None:
    """Ends, ticks and title of an axis; values of a linear one are in one unit, which the title says."""
    if axis.is_log:
        set_kind("log")
    if axis.low is not None and axis.high is not None and axis.low < axis.high:
        set_ends(axis.low, axis.high)
    factor, unit = axis.scale.unit(high or 1.0)
    if axis.ticks:
        drawn.set_ticks([at for at, _ in axis.ticks], [name for _, name in axis.ticks])
        drawn.set_ticks([], minor=True)
        unit = ""
    elif axis.is_log:
        drawn.set_major_formatter(lambda value, _: axis.scale(value))
        drawn.set_minor_formatter(lambda _value, _: "")
        unit = ""
    else:
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - an extra

        ends = (axis.low or 0.0, axis.high if axis.high is not None else (high or 1.0))
        steps = MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]).tick_values(ends[0] / factor, ends[1] / factor)
        top = ends[1] if axis.high is not None else ends[1] * _HEADROOM
        shown = [step * factor for step in steps if ends[0] <= step * factor <= top]
        drawn.set_ticks(shown, [format_number(at / factor) for at in shown])
    title = f"{axis.title} ({unit})" if unit else axis.title
    drawn.set_label_text(title)
