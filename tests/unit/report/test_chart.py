"""Charts as data: what they say of themselves, what a browser gets, what goes into files."""

import builtins
import json
import logging
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from mrc_testbed.bundle.bundle import is_plain_drawing
from mrc_testbed.report import chart_file
from mrc_testbed.report.chart import (
    SECONDS,
    STYLES,
    Axis,
    Band,
    Chart,
    Lane,
    ReferenceLine,
    Series,
    Spread,
    bar_chart,
    charts_json,
    size_chart,
)
from mrc_testbed.report.chart_file import figure_files
from mrc_testbed.report.page import asset, chart_cards
from mrc_testbed.shown import format_count, format_rate, format_share, format_time

EDGES = (-1e9, 0.0, 1e9, 2e9)
CUT = Band("cut", ((5e8, 1e9), (1.2e9, 1.3e9)))
TIME = Axis("time", SECONDS, -1e9, 2e9, bands=(CUT,), measured=(0.0, 2e9))
RATE = Axis("goodput", format_rate)


def steps(*columns: list[float | None], limit: ReferenceLine | None = None) -> Chart:
    series = [Series(f"s{place}", EDGES, values) for place, values in enumerate(columns)]
    return Chart("Goodput", "steps", TIME, RATE, series, "k", limit=limit)


def lanes() -> Chart:
    areas = (Series("BAD", EDGES, [0.0, 2.0, 1.0]), Series("SKIP", EDGES, [1.0, 1.0, 0.0]))
    strips = tuple(Lane(f"plane {plane}", 4.0, areas) for plane in range(2))
    return Chart("EVs", "lanes", TIME, Axis("EVs", format_count), areas, "evs", lanes=strips)


def cells() -> Chart:
    across = Axis("", format_count, -0.5, 1.5, ticks=((0, "1"), (1, "2")))
    dots = (Series("runs", (-0.2, 0.2, 1.0), (1e8, 1.2e8, 2e8)),)
    spreads = (Spread(0, 1.1e8, 1e8, 1.2e8), Spread(1, 2e8, None, None))
    return Chart("goodput(main)", "cells", across, Axis("", format_rate), dots, "c", spreads=spreads)


def histogram() -> Chart:
    bars = (Series("no fault", (1e3, 2e3, 4e3), [0.25, 0.75]),)
    x, y = Axis("RTT", format_time, is_log=True), Axis("share", format_share, is_log=True)
    return Chart("Packet RTT", "steps", x, y, bars, "h")


CHARTS = {
    "steps": steps([1e6, None, 2e6], [0.0, 1e6, 1e6], limit=ReferenceLine("line rate", 2.5e6)),
    "lines": Chart("$a_b$", "lines", TIME, RATE, [Series("", (0.0, 1e9, 2e9), (1.0, None, 2.0))]),
    "dots": Chart("Steps", "dots", TIME, Axis("time", format_time), [Series("job", (1e9,), (5e6,))]),
    "bars": bar_chart("bars", "goodput", {"mrc": {"a": 1e6, "b": 2e6}, "rocev2": {"b": 1e6}}, format_rate),
    "sizes": size_chart("sizes", "goodput", {"mrc": {65536: 1e6, 1 << 20: 2e6}}, format_rate),
    "lanes": lanes(),
    "cells": cells(),
    "histogram": histogram(),
    "nothing": steps([None, None, None]),
}


def data(*charts: Chart) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(charts_json(charts))
    return found


@pytest.mark.parametrize(
    ("columns", "silence"),
    [
        ([[0.0, 0.0, 0.0]], "0 all the time"),
        ([[None, None, None]], "nothing recorded"),
        ([[1e6, 2e6, 1e6], [1e6, 2.01e6, 1e6]], "the 2 curves are the same, up to 2.01 Mbit/s"),
        ([[1e6, 2e6, 1e6], [1e6, 1e6, 1e6]], ""),
        ([[1e6, 2e6, 1e6]], ""),
    ],
)
def test_a_chart_without_anything_to_see_is_folded(columns: list[list[float | None]], silence: str) -> None:
    chart = steps(*columns)
    assert chart.silence == silence
    assert ("<details>" in chart_cards([chart], is_folding=True)) == bool(silence)


@pytest.mark.parametrize(("highest", "is_drawn"), [(6e6, True), (5e6, True), (4e6, False)])
def test_the_limit_is_drawn_where_values_come_near(highest: float, is_drawn: bool) -> None:
    chart = steps([0.0, highest, None], limit=ReferenceLine("line rate", 10e6))
    [found] = data(chart)["charts"]
    assert found["limit"] == (["line rate", 10e6] if is_drawn else None)


def test_a_chart_describes_itself_with_its_faults() -> None:
    assert steps([1e6, None, 2e6]).description == "Goodput over time: s0 from 1 to 2 Mbit/s; faults: cut"
    assert histogram().description == "Packet RTT, histogram: no fault from 25 to 75 %"


def test_a_browser_gets_every_value_and_gap() -> None:
    found = data(CHARTS["steps"])
    [chart] = found["charts"]
    [[name, x, y], _] = chart["series"]
    assert (name, found["xs"][x], y) == ("s0", list(EDGES), [1e6, None, 2e6])
    axis = found["axes"][chart["x"]]
    assert (axis["units"], axis["low"], axis["high"]) == ([[1e9, "s"]], -1e9, 2e9)
    assert axis["bands"] == [["cut", [[5e8, 1e9], [1.2e9, 1.3e9]]]]
    assert axis["measured"] == [0.0, 2e9]
    assert found["axes"][chart["y"]]["title"] == "goodput"


def test_what_charts_have_in_common_stands_once() -> None:
    found = data(CHARTS["steps"], replace(CHARTS["steps"], key="other"), CHARTS["lanes"])
    assert [axis["title"] for axis in found["axes"]] == ["time", "goodput", "EVs"]
    assert found["xs"] == [list(EDGES)]
    assert [chart["key"] for chart in found["charts"]] == ["k", "other", "evs"]


def test_many_values_are_written_with_fewer_digits() -> None:
    places = tuple(float(place) for place in range(201))
    curve = Series("s", places, [1e6 / 3] * 200)
    [chart] = data(Chart("t", "steps", TIME, RATE, [curve]))["charts"]
    assert set(chart["series"][0][2]) == {333300}


def test_bars_of_a_group_stand_side_by_side() -> None:
    first, second = CHARTS["bars"].series
    assert [*first.x, *second.x] == pytest.approx([-0.2, 0.8, 1.2])


def test_names_cannot_become_markup() -> None:
    hostile = "</script><b onx='\">&"
    chart = bar_chart(hostile, hostile, {hostile: {hostile: 1.0}}, format_rate)
    assert "<" not in charts_json([chart])
    assert data(chart)["charts"][0]["series"][0][0] == hostile
    assert "<b" not in chart_cards([replace(chart, key=hostile, note=hostile)])
    [svg] = [figure_files([chart])["svg"].decode()]
    assert is_plain_drawing(svg)
    assert hostile in "".join(ET.fromstring(svg).itertext())  # noqa: S314 - it is our own


def test_a_title_may_have_letters_that_no_font_of_the_machine_has() -> None:
    chart = replace(CHARTS["steps"], title="\u4e00 \U0001f600")
    assert chart.title in figure_files([chart])["svg"].decode()


@pytest.mark.parametrize("form", CHARTS)
def test_every_form_goes_into_files_that_a_bundle_may_hold(form: str) -> None:
    chart = CHARTS[form]
    files = figure_files([chart])
    assert files["pdf"].startswith(b"%PDF-")
    svg = files["svg"].decode()
    assert is_plain_drawing(svg)
    root = ET.fromstring(svg)  # noqa: S314 - it is our own
    texts = {"".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")}
    assert chart.title in texts
    assert {series.name for series in chart.series if form not in ("cells", "nothing")} <= texts | {""}
    assert {band.name for band in chart.x.bands} <= texts
    assert {chart.y.scale(spread.median) for spread in chart.spreads} <= texts
    assert root.get("aria-label") == chart.description


def test_files_are_the_same_every_time() -> None:
    charts = list(CHARTS.values())
    assert figure_files(charts) == figure_files(charts)
    assert figure_files([]) == {}


def test_without_matplotlib_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name, name=name)
        return load(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with caplog.at_level(logging.WARNING):
        assert figure_files([CHARTS["steps"]]) == {}
    [record] = caplog.records
    assert record.message.endswith("it comes with mrc-testbed[figures]")
    assert "\n" not in record.message


def test_files_have_the_colours_and_dashes_of_pages() -> None:
    styles = chart_file._styles()
    assert len({colour for colour, _ in styles}) == len({str(dashes) for _, dashes in styles}) == STYLES
    light = asset("charts.css").partition("@media")[0]
    assert all(colour in light for colour, _ in styles)


def test_nothing_depends_on_colour_alone() -> None:
    assert len(set(re.findall(r"--d\d: ([^;]+);", asset("charts.css")))) == STYLES
