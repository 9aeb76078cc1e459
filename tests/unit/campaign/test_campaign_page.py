"""Plots of a campaign's cells: what is drawn, what is said of too few runs, and what is left out."""

import re
from collections.abc import Sequence

import pytest

from mrc_testbed.campaign.campaign_page import build_page, cell_sections
from mrc_testbed.campaign.cells import Cell, CellFigure, compare_cells
from mrc_testbed.campaign.execution import execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.summary import Summary
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.report.page import part
from mrc_testbed.scenario.spec.quantity import Dimension

KEY = "transport.window"
BASELINE = {KEY: "16"}


def cell(window, goodput, scenario="flap", **figures):
    return Cell(
        scenario,
        {KEY: window},
        {"passed": len(goodput)},
        is_exact=False,
        idle_rtt_ns=0,
        figures={"goodput(main)": CellFigure(Dimension.RATE, "more", dict(enumerate(goodput))), **figures},
    )


def built(*cells, baseline=BASELINE, varied=(KEY,)):
    """HTML of the sections, and their charts."""
    sections, charts = cell_sections(cells, compare_cells(cells, baseline), baseline, varied)
    return part("sections", sections), charts


def section(*cells, **options):
    return built(*cells, **options)[0]


def runs(middle, count):
    return [middle + 1e5 * index for index in range(count)]


def test_each_run_is_a_dot_and_each_cell_a_median():
    _, [chart] = built(cell("16", runs(1e8, 8)), cell("32", runs(2e8, 6)))
    [dots] = chart.series
    assert dots.y == (*runs(1e8, 8), *runs(2e8, 6))
    assert [round(x) for x in dots.x] == [0] * 8 + [1] * 6
    assert list(dots.x) == sorted(dots.x)
    assert [spread.x for spread in chart.spreads] == [0, 1]
    assert all(spread.low < spread.median < spread.high for spread in chart.spreads)
    assert [(band.name, band.periods) for band in chart.x.bands] == [("baseline", ((-0.5, 0.5),))]
    assert [name for _, name in chart.x.ticks] == ["1: 16", "2: 32"]
    assert (chart.x.title, chart.y.title) == (f"cell: {KEY}", "goodput(main)")


def test_a_cell_with_two_modes_says_so():
    html = section(cell("16", [*runs(1e8, 5), *runs(1.5e8, 3)]), cell("32", runs(2e8, 8)))
    assert "cell 1: two modes: 5 runs near 100 Mbit/s, 3 near 150 Mbit/s" in html
    assert html.count("two modes") == 1


def test_two_machines_are_not_two_modes_and_two_modes_of_one_name_it():
    slow_and_fast = dict(enumerate([*runs(1e8, 5), *runs(1.5e8, 7)]))

    def modes(machines: Sequence[str]) -> str:
        return CellFigure(Dimension.RATE, "more", slow_and_fast, dict(enumerate(machines))).modes

    assert modes(["w0"] * 5 + ["w1"] * 7) == ""
    assert modes(["w0"] * 9 + ["w1"] * 3) == "two modes on w0: 5 runs near 100 Mbit/s, 4 near 150 Mbit/s"


def test_a_shown_difference_is_said_below_the_plot():
    html = section(cell("16", runs(1e8, 8)), cell("32", runs(2e8, 8)), cell("64", runs(5e7, 8)))
    assert '<span class="better">cell 2: better</span>' in html
    assert '<span class="worse">cell 3: worse</span>' in html


def test_the_first_figure_that_the_campaign_names_and_that_differs_is_the_headline():
    same = {"retransmits": CellFigure(Dimension.COUNT, "less", dict.fromkeys(range(8), 3.0))}
    cells = [cell("16", runs(1e8, 8), **same), cell("32", runs(2e8, 8), **same)]
    summary = Summary("c", "", (KEY,), (), named=("retransmits", "goodput(main)"))
    html = build_page(summary, cells, BASELINE)
    reference = rf"the goodput\(main\) of flap {KEY}=16 \(median of runs\)"
    found = re.search(rf"<p>flap {KEY}=32: (\S+) times \((\S+) to (\S+)\) {reference}</p>", html)
    assert found is not None
    assert 1.9 < float(found[2]) <= float(found[1]) <= float(found[3]) < 2.1
    assert " times (" not in build_page(summary, cells[:1], BASELINE)


def test_too_few_runs_have_no_interval_and_say_how_many_more_would_do():
    html, [chart] = built(
        *(cell(window, runs(1e8 * place, 2)) for place, window in enumerate(("16", "32", "64"), 1))
    )
    assert "interval, 4 more would do" in html
    assert "cells 2 to 3: too few runs to tell, 4 more would do" in html
    assert [(spread.low, spread.high) for spread in chart.spreads] == [(None, None)] * 3


def test_a_figure_that_never_differs_is_left_out():
    same = {"wrong_bytes": CellFigure(Dimension.COUNT, "less", {1: 0.0, 2: 0.0})}
    _, charts = built(cell("16", [1e8, 2e8], **same), cell("32", [3e8, 4e8], **same))
    assert [chart.title for chart in charts] == ["goodput(main)"]


def test_scenarios_have_plots_of_their_own():
    html, charts = built(*(cell(w, runs(1e8, 2), scenario) for scenario in ("a", "b") for w in ("16", "32")))
    assert [chart.key for chart in charts] == ["cells-1-goodput(main)", "cells-2-goodput(main)"]
    assert all(f'data-chart="{chart.key}"' in html for chart in charts)
    assert "Figures of b" in html
    assert "cell 4: too few runs to tell" in html.partition("Figures of b")[2]


def test_variants_that_are_run_once_have_their_own_page_only():
    assert not section(cell("16", [1e8]), cell("32", [2e8]), baseline={}, varied=())


def test_a_run_that_measured_nothing_is_a_cell_without_dots():
    empty = Cell("flap", {KEY: "64"}, {"untrusted": 2}, is_exact=False, idle_rtt_ns=0, figures={})
    html, [chart] = built(cell("16", runs(1e8, 2)), empty)
    assert len(chart.values) == 2
    assert "2 untrusted" in html


def test_times_are_listed_by_cell():
    kept = {"times(packet_rtt)": Histogram.of_times([10] * 99 + [40]), "times(none)": Histogram()}
    timed = Cell("flap", {KEY: "16"}, {"passed": 2}, is_exact=False, idle_rtt_ns=0, figures={}, times=kept)
    html = section(timed, cell("32", [1e8, 2e8]))
    assert (
        '<td data-label="times">times(packet_rtt)</td><td data-label="count" class="number">100</td>' in html
    )
    assert 'class="number">40 ns</td></tr>' in html
    assert "times(none)" not in html


@pytest.mark.parametrize("count", [1, 3, 40])
def test_nothing_is_drawn_outside(count):
    _, [chart] = built(*(cell(str(place), runs(1e8 * (1 + place), 7)) for place in range(count)), baseline={})
    assert all(chart.x.low < x < chart.x.high for x in chart.series[0].x)
    assert (chart.y.low, chart.y.high) == (None, None)  # what the values need


def test_what_a_file_says_is_text_in_the_page():
    html = section(cell("<b>", runs(1e8, 2)), cell("&", runs(2e8, 2)), baseline={KEY: "<b>"})
    assert "<b>" not in html.replace("<b></b>", "")
    assert "&lt;b&gt;" in html


def test_the_report_of_a_campaign_has_them(files, stage):
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))
    execute_campaign(folder, stage, progress=lambda _: None)
    page = (folder.path / "report.html").read_text()
    assert "<h2>Cells</h2>" in page
    assert "times(message_completion)" in page
    assert 'name="viewport"' in page
    assert " src=" not in page
