"""A report as people use it, from its file: charts that are drawn, read and zoomed by mouse and keys."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from chromium import Browser, Scheme, browsing

from mrc_testbed.metrics.exporter import exporter_running
from mrc_testbed.observe.run_reports import record_run, report_page
from mrc_testbed.report.chart import SECONDS, Axis, Band, Chart, ReferenceLine, Series, bar_chart, size_chart
from mrc_testbed.report.page import chart_cards, chart_data, page
from mrc_testbed.shown import format_rate, format_time

pytestmark = pytest.mark.root  # Chromium runs without its sandbox

SCENARIO = Path(__file__).parents[3] / "scenarios" / "t0-t1-flap.yaml"
RANGE = "(({u}) => [u.scales.x.min, u.scales.x.max])(document.querySelector('#chart-%s').chart)"
INKED = """(place => {
    const canvas = place.querySelector("canvas");
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
})"""


WRITTEN = """(place => {
    const found = [], context = CanvasRenderingContext2D.prototype, fillText = context.fillText;
    context.fillText = function (text, x, y) {
        const {width, actualBoundingBoxLeft} = this.measureText(text), left = x - actualBoundingBoxLeft;
        if (/fault|idle/.test(text)) found.push([text, left, left + width, y]);
        fillText.call(this, text, x, y);
    };
    place.chart.drawOver(place.chart.u);
    context.fillText = fillText;
    return [found, place.chart.u.bbox.top];
})(document.querySelector('figure.chart'))"""
"""Names of faults and of the limit, as drawn: text, left, right, baseline; and the top of the plot."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    line = [sys.executable, "-m", "mrc_testbed.cli", "run", str(SCENARIO), "--virtual", "--runs", str(folder)]
    subprocess.run(line, check=True, capture_output=True)
    return folder / "t0-t1-flap" / "latest" / "report.html"


@pytest.fixture(scope="module")
def program() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def browser(program: Browser, report: Path) -> Iterator[Browser]:
    """A browser with the report open; it meets no error and asks for nothing else."""
    program.console.clear()
    program.requested.clear()
    show(program, report)
    yield program
    assert program.console == []
    assert set(program.requested) - {"about:blank"} == {report.resolve().as_uri()}


def show(browser: Browser, report: Path, scheme: Scheme = "light", width: int = 1200) -> None:
    browser.open(report.resolve().as_uri(), scheme=scheme, width=width)
    browser.wait_for("[...document.querySelectorAll('figure.chart')].every(each => each.chart)")


def mouse(browser: Browser, kind: str, selector: str, share: float, **more: object) -> None:
    """Moves or presses the mouse over a chart, at a share of its width."""
    x, y = browser.value(
        f"""(() => {{
            const over = document.querySelector("{selector} .u-over");
            const box = over.getBoundingClientRect();
            return [box.x + {share} * box.width, box.y + box.height / 2];
        }})()"""
    )
    browser._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_in_both_colour_schemes(browser: Browser, report: Path, scheme: Scheme) -> None:
    show(browser, report, scheme)
    browser.value("document.querySelectorAll('details').forEach(each => each.open = true)")
    browser.wait_for(
        "[...document.querySelectorAll('figure.chart')].every(each => each.chart.u?.status === 1)"
    )
    shades = browser.value(f"[...document.querySelectorAll('figure.chart')].map({INKED})")
    assert len(shades) > 8
    assert min(shades) > 20  # a canvas without a chart has one


def test_the_exporter_serves_a_report_whose_charts_are_drawn(
    program: Browser, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path))
    run = report.resolve().parent
    record_run(tmp_path, run)
    program.console.clear()
    with exporter_running(port=0, pages={"runs": partial(report_page, tmp_path)}) as url:
        program.open(url.replace("/metrics", f"/runs/{run.name}"))
        program.wait_for("document.querySelectorAll('figure.chart').length > 8")
        program.wait_for("[...document.querySelectorAll('figure.chart')].every(each => each.chart)")
        assert program.value("window.origin") == "null"
    assert program.console == []


def test_the_cursor_shows_values_in_all_charts_over_time(browser: Browser) -> None:
    browser.value("document.querySelector('#chart-goodput').scrollIntoView()")
    mouse(browser, "mouseMoved", "#chart-goodput", 0.5)
    for name in ("goodput", "rtt", "losses"):
        browser.wait_for(f"document.querySelector('#chart-{name} output').textContent !== ''")
        at = browser.value(f"document.querySelector('#chart-{name} .at').textContent")
        assert at.endswith(" s")
    value = browser.value("document.querySelector('#chart-goodput output').textContent")
    assert value.endswith(" Mbit/s")
    assert browser.value("document.querySelector('#chart-rtt-histogram output').textContent") == ""


def test_dragging_zooms_all_charts_over_time_and_a_double_click_takes_it_back(browser: Browser) -> None:
    whole = browser.value(RANGE % "goodput")
    browser.value("document.querySelector('#chart-goodput').scrollIntoView()")
    button = {"button": "left", "clickCount": 1}
    mouse(browser, "mouseMoved", "#chart-goodput", 0.25)
    mouse(browser, "mousePressed", "#chart-goodput", 0.25, **button)
    mouse(browser, "mouseMoved", "#chart-goodput", 0.5, button="left")
    mouse(browser, "mouseReleased", "#chart-goodput", 0.5, **button)
    length = whole[1] - whole[0]
    for name in ("goodput", "evs", "losses"):
        browser.wait_for(f"{RANGE % name}[0] > {whole[0]}")
        low, high = browser.value(RANGE % name)
        assert (low - whole[0]) / length == pytest.approx(0.25, abs=0.01)
        assert (high - whole[0]) / length == pytest.approx(0.5, abs=0.01)
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            mouse(browser, kind, "#chart-goodput", 0.5, button="left", clickCount=count)
    browser.wait_for(f"JSON.stringify({RANGE % 'losses'}) === '{str(whole).replace(' ', '')}'")


def test_a_chart_is_read_and_zoomed_with_the_keyboard_alone(browser: Browser) -> None:
    whole = browser.value(RANGE % "goodput")
    browser.value("document.querySelector('#chart-goodput').focus()")
    seen = []
    for key in ("Home", "ArrowRight", "End"):
        browser.press(key)
        seen.append(browser.value("document.querySelector('#chart-goodput .at').textContent"))
    assert len(set(seen)) == 3
    press = (
        "document.querySelector('#chart-goodput').dispatchEvent(new KeyboardEvent('keydown', {key: '%s'}))"
    )
    browser.value(press % "+")
    browser.wait_for(f"{RANGE % 'rtt'}[0] > {whole[0]}")
    browser.value(press % "0")
    browser.wait_for(f"{RANGE % 'rtt'}[0] === {whole[0]}")
    browser.press("Escape")
    assert browser.value("document.querySelector('#chart-goodput .at').textContent") == ""


def test_charts_fit_a_narrow_screen_and_paper(browser: Browser, report: Path) -> None:
    show(browser, report, width=400)
    assert browser.value("document.documentElement.scrollWidth") == 400
    browser.emulate("dark", media="print")
    browser.wait_for("matchMedia('print').matches")
    canvases = "[...document.querySelectorAll('figure.chart canvas')]"
    widths = browser.value(f"{canvases}.map(each => each.getBoundingClientRect().width)")
    assert max(widths) <= 400
    browser.emulate("light")


def test_names_of_faults_and_of_a_limit_do_not_overlap(program: Browser, tmp_path: Path) -> None:
    ends = ((7.15e9, 7.3e9), (9.2e9, 9.4e9), (9.5e9, 9.6e9), (9.7e9, 9.8e9))
    bands = tuple(Band(f"a long name of fault {number}", (each,)) for number, each in enumerate(ends))
    time = Axis("time", SECONDS, 0.0, 10e9, bands=bands, measured=(0.0, 10e9))
    rtts = [Series("", (0.0, 5e9, 1e10), (1e6, 2e6, 3e6))]
    rtt = Axis("RTT", format_time, is_log=True)
    chart = Chart("RTT", "lines", time, rtt, rtts, "rtt", limit=ReferenceLine("idle", 5.9e6))
    file = tmp_path / "page.html"
    file.write_text(page("chart", f"<article>{chart_cards([chart])}{chart_data([chart])}</article>"))
    program.open(file.as_uri())
    program.wait_for("document.querySelector('figure.chart').chart?.u?.status === 1")
    written, top = program.value(WRITTEN)
    limits = [line for line in written if line[0].startswith("idle")]
    assert [baseline > top for *_, baseline in limits] == [True], written
    names = [line for line in written if not line[0].startswith("idle")]
    assert len(names) >= 2
    for text, left, right, baseline in names:
        others = [each for each in names if each[0] != text and each[3] == baseline]
        assert all(right <= other[1] or other[2] <= left for other in others), names


def test_charts_with_nothing_or_little_in_them_are_drawn_too(program: Browser, tmp_path: Path) -> None:
    time, rate = Axis("time", SECONDS, 0.0, 10e9, measured=(0.0, 10e9)), Axis("rate", format_rate)
    gap, rtt = [Series("a", (1e9, 2e9), (None, None))], Axis("RTT", format_time, is_log=True)
    charts = [
        replace(bar_chart("bars", "rate", {}, format_rate), key="bars"),
        replace(size_chart("sizes", "rate", {"a": {65536: 1e6}}, format_rate), key="sizes"),
        Chart("none", "dots", time, rate, [], "dots"),
        Chart("empty", "lines", time, rate, [Series("", (), ())], "lines"),
        Chart("gap", "lines", time, rate, gap, "gap"),
        Chart("negative", "lines", time, rate, [Series("", (1e9, 2e9), (-1.0, 1.0))], "negative"),
        Chart("same", "steps", time, rtt, [Series("", (0.0, 1e9), (5e6,))], "same"),
    ]
    file = tmp_path / "page.html"
    file.write_text(page("charts", f"<article>{chart_cards(charts)}{chart_data(charts)}</article>"))
    program.console.clear()
    program.open(file.as_uri())
    places = "[...document.querySelectorAll('figure.chart')]"
    program.wait_for(f"{places}.every(each => each.chart?.u?.status === 1)")
    for key in ("End", "+", "0", "ArrowLeft", "Escape"):
        event = f"new KeyboardEvent('keydown', {{key: '{key}'}})"
        program.value(f"{places}.forEach(each => each.dispatchEvent({event}))")
    assert program.console == []
