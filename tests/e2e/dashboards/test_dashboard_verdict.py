"""The judgement of drawn dashboards: each kind of finding is found, and a good panel has none."""

from math import inf, nan
from typing import Any

import pytest
from answers import Answer, as_drawn
from scenes import Scene
from verdict import Finding, of_answers, of_buckets, of_drawing

Series = list[tuple[dict[str, str], list[tuple[float, float]]]]
PANEL = {"title": "Goodput", "type": "timeseries", "targets": [{"refId": "A"}]}
GOOD: Series = [({"node": "h0"}, [(1, 5.0), (2, 7.0)])]
SEEN: dict[str, Any] = {
    "cut": [], "texts": ["Goodput", "12.3 ms", "20261127T140800Z-361375"], "ticks": ["0 s", "5 ms"],
    "links": ["http://127.0.0.1:9847/runs/x"], "exceptions": [], "isDescribed": True,
}  # fmt: skip


def answer(series: Series, legend: str = "{{node}}") -> Answer:
    return Answer("mrc_x", {"refId": "A", "legendFormat": legend}, series)


def sentences(by_scene: dict[str, list[Answer]], panel: dict[str, Any] | None = None) -> list[str]:
    return [found.sentence for found in of_answers("overview", panel or PANEL, by_scene)]


def test_a_panel_with_data_that_moves_is_good() -> None:
    assert sentences({"flap": [answer(GOOD)], "calm": [answer([])]}) == []


@pytest.mark.parametrize("series", [[], [({"node": "h0"}, [(1, nan), (2, inf)])]])
def test_a_query_must_return_something_in_one_of_the_scenes(series: Series) -> None:
    (nothing, _) = sentences({"flap": [answer(series)]})
    assert nothing == "the query A returns nothing: mrc_x"


def test_a_series_has_the_labels_that_its_legend_shows() -> None:
    (found,) = sentences({"flap": [answer(GOOD, "{{node}}: {{link}}")]})
    assert "the label 'link'" in found


def test_a_time_series_shows_a_difference_in_one_of_the_scenes() -> None:
    flat = [answer([({"node": "h0"}, [(1, 5.0), (2, 5.0)])])]
    assert "never shows a difference" in sentences({"flap": flat})[0]
    assert sentences({"flap": flat, "incast": [answer(GOOD)]}) == []
    assert sentences({"flap": flat}, {**PANEL, "type": "stat"}) == []


def test_buckets_are_cumulative_and_end_with_infinity() -> None:
    good: Series = [({"le": "+Inf"}, [(1, 5.0)]), ({"le": "0.5"}, [(1, 3.0)])]
    assert list(of_buckets(answer(good))) == []
    assert "no bucket +Inf" in next(of_buckets(answer(good[1:])))
    falls: Series = [({"le": "+Inf"}, [(1, 2.0)]), ({"le": "0.5"}, [(1, 3.0)])]
    (sentence,) = of_buckets(answer(falls))
    assert sentence == "the bucket up to 0.5 s holds more than the one up to inf s"
    (found,) = sentences({"flap": [answer(falls, "{{le}}")]}, {**PANEL, "type": "heatmap"})
    assert found == sentence


def test_a_good_drawing_has_no_finding() -> None:
    assert list(of_drawing("overview", PANEL, "flap", SEEN)) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cut": ["Message completion"]}, "the text 'Message completion' is cut"),
        ({"texts": ["{{node}}"]}, "a template is left: '{{node}}'"),
        ({"texts": ["123456"]}, "the number '123456' has more than four digits"),
        ({"texts": ["1,234,567"]}, "the number '1,234,567' has more than four digits"),
        ({"ticks": ["0", "1", "1"]}, "two ticks of an axis are called '1'"),
        ({"links": ["/d/mrc-${board}"]}, "a template is left in the link '/d/mrc-${board}'"),
        ({"exceptions": ["TypeError: x"]}, "TypeError: x"),
        ({"isDescribed": False}, "it does not show that it has a description"),
    ],
)
def test_a_finding_about_a_drawing(change: dict[str, Any], sentence: str) -> None:
    assert list(of_drawing("overview", PANEL, "flap", SEEN | change)) == [
        Finding("overview", "Goodput", "flap", sentence)
    ]


def test_a_line_has_a_gap_where_prometheus_has_no_value() -> None:
    scene = Scene("flap", "lab", 10.0, 13.0)
    drawn = as_drawn(answer([({"node": "h0"}, [(10, 1.0), (12, nan), (13, 4.0)])]), scene)
    (line,) = drawn["series"]
    assert line == {
        "labels": {"node": "h0"},
        "times": [10_000, 11_000, 12_000, 13_000],
        "values": [1.0, None, None, 4.0],
    }
