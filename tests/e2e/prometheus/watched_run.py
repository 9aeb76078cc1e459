"""A run as those see it who watch it: in a browser, with `top`, in Grafana, and afterwards in its report."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from chromium import Browser, browsing
from dashboard_files import load_dashboards
from observed_lab import Command, ObservedLab, Run, write
from waiting import DEADLINE_S, poll_until

FLAP = "flap-of-cable-7"
INTERRUPTED = 130
_KEEP_EVENTS = """(() => {
    window.seenEvents = [];  // the list itself drops its oldest lines
    new MutationObserver(() => seenEvents.push(...[...document.querySelectorAll("#tail li")].map(
        each => each.textContent))).observe(document.querySelector("#tail"), { childList: true });
})()"""

_BANDS: Final = "{}.chart.model.x.bands.map(([name]) => name)"
"""Names of the faults that a chart shades."""


@dataclass(frozen=True)
class ReportPage:
    """A report as a browser shows it."""

    ids_by_panel: list[list[str]]  # ids of faults over each panel
    rows: list[str]  # text of the rows of tables
    links: list[str]  # hints of the links in the picture of the fabric
    cursor_times: list[str]  # what the cursor says after the keys End and Home
    cursor_value: str  # goodput under the cursor
    is_cursor_left: bool  # after the key Escape
    backgrounds: set[str]  # colours of the page, light and dark
    requested: set[str]  # addresses that it asked for


@dataclass(frozen=True)
class WatchedRun:
    """The observations of a run."""

    run: Run  # what it left
    page_faults: list[str]  # ids in the page's list of faults
    page_windows: list[str]  # ids of the windows in the page's plot of goodput
    page_events: list[str]  # lines that the page's list of events had, some of them several times
    top: dict[str, Any]  # the picture of `top --once -o json`
    windows: dict[str, tuple[str, str]]  # dashboard -> id and kind of the fault whose window it draws
    report: ReportPage  # of the run


def watch(observed: ObservedLab, link: str) -> WatchedRun:
    """Runs a scenario in which *link* flaps, interrupts it when the flap was seen everywhere."""
    command = observed.command
    fault = {"id": FLAP, "at": "1s", "for": "600s", "kind": "link-flap", "every": "1s", "down": "300ms"}
    scenario = command.write_scenario(
        "watched", [write("h0", "h3", "610s")], [{**fault, "select": {"links": link}}]
    )
    with browsing() as browser, _serving(command) as url:
        browser.open(url)
        browser.wait_for("document.querySelector('#status').textContent === 'live'")
        browser.value(_KEEP_EVENTS)
        with command.running(scenario) as running:
            browser.wait_for("document.querySelector('#faults b')")
            top = command.succeeds("top", "--once", "-i", "100ms", "-n", command.lab, "-o", "json")
            windows = _windows(observed)
            browser.wait_for("document.querySelector('#goodput-plot').chart.model.x.bands.length")
            faults = _texts(browser, "#faults b")
            plotted = browser.value(_BANDS.format("document.querySelector('#goodput-plot')"))
            browser.wait_for(f"seenEvents.some(text => text.includes({json.dumps(FLAP)}))")
            events = browser.value("seenEvents")
            running.process.send_signal(signal.SIGINT)
            assert running.process.wait(DEADLINE_S) == INTERRUPTED
        browser.wait_for("!document.querySelector('#faults b')")
        assert browser.console == []
        run = running.finished()
        report = _read_report(browser, run.folder / "report.html")
        assert browser.console == []
    return WatchedRun(run, faults, plotted, events, json.loads(top), windows, report)


def _windows(observed: ObservedLab) -> dict[str, tuple[str, str]]:
    """The queries of each dashboard that draw windows of faults, when there is one."""
    found = {}
    for name, dashboard in load_dashboards().items():
        (annotation,) = dashboard["annotations"]["list"]
        assert annotation["titleFormat"] == "{{fault_id}}"
        expression = annotation["expr"].replace("$lab", observed.command.lab)
        [labels] = poll_until(partial(_at_one, observed, expression), what=expression)
        found[name] = labels["fault_id"], labels["kind"]
    return found


def _at_one(observed: ObservedLab, expression: str) -> list[dict[str, str]]:
    return [labels for labels, value in observed.prometheus.query(expression) if value == 1]


@contextmanager
def _serving(command: Command) -> Iterator[str]:
    """Address of the page, as long as the context lasts."""
    with subprocess.Popen(
        command.line("serve", "-n", command.lab),
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def _texts(browser: Browser, selector: str) -> list[str]:
    query = f"document.querySelectorAll({json.dumps(selector)})"
    found: list[str] = browser.value(f"[...{query}].map(each => each.textContent)")
    return found


def _read_report(browser: Browser, path: Path) -> ReportPage:
    browser.requested.clear()
    browser.open(path.as_uri())
    overtime = "[...document.querySelectorAll('#time figure.chart')]"
    ids = browser.value(f"{overtime}.map(place => {_BANDS.format('place')})")
    rows, links = _texts(browser, "tbody tr"), _texts(browser, "svg.fabric title")
    browser.value("document.querySelector('#chart-goodput').focus()")
    times = []
    for key in ("End", "Home"):
        browser.press(key)
        times += _texts(browser, "#chart-goodput .at")
    (value, *_) = _texts(browser, "#chart-goodput output")
    browser.press("Escape")
    is_left = browser.value("document.querySelector('#chart-goodput .at').textContent !== ''")
    background = "getComputedStyle(document.body).backgroundColor"
    backgrounds = {browser.value(background)}
    browser.emulate("dark")
    backgrounds.add(browser.value(background))
    return ReportPage(ids, rows, links, times, value, is_left, backgrounds, set(browser.requested))
