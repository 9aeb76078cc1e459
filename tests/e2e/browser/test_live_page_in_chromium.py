"""The live page as people use it: links broken by mouse and keys, paths, colour schemes, no token."""

import contextlib
import os
import re
import threading
from collections.abc import Iterator

import pytest
from chromium import Browser, Scheme, browsing
from own_lab import lab_up

from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.live.control import ClearRequest, FaultRequest
from mrc_testbed.live.feed import Feed
from mrc_testbed.live.server import LiveServer, live_server
from mrc_testbed.topology.path import build_path
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.operation_record import OperationRecord

pytestmark = pytest.mark.root

SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2)
LINK = "p0-t0-0:2~p0-t1-0:0"
ON_LINK = f'path.link[data-name="{LINK}"]'
INTERVAL_NS = 100_000_000
STOPS_MAX = 200
CONTRAST_MIN = 4.5  # WCAG 2.1, 1.4.3


@pytest.fixture(scope="module")
def served() -> Iterator[LiveServer]:
    """The page of a lab of the module's own."""
    with (
        lab_up(SPEC, f"b{os.getpid()}") as name,
        Feed(name, INTERVAL_NS) as feed,
        live_server(feed) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def program() -> Iterator[Browser]:
    """A browser for all tests."""
    with browsing() as browser:
        yield browser


@pytest.fixture
def browser(program: Browser, served: LiveServer) -> Iterator[Browser]:
    """A browser that meets no error and is sent nowhere else; the lab is left without faults."""
    program.console.clear()
    program.requested.clear()
    yield program
    served.control.clear(ClearRequest())
    here = ("http://127.0.0.1:", "data:", "about:")
    assert [url for url in program.requested if not url.startswith(here)] == []
    assert program.console == []


def open_page(browser: Browser, served: LiveServer, scheme: Scheme = "light", *, token: bool = True) -> None:
    """Opens the page and waits for the first snapshot."""
    browser.open(served.url if token else f"http://{served.host}/", scheme=scheme)
    browser.wait_for("document.querySelectorAll('#fabric path.link[data-state]').length > 0")


def wait_for_state(browser: Browser, state: str) -> None:
    browser.wait_for(f"document.querySelector('{ON_LINK}').dataset.state === '{state}'")


def text_of(browser: Browser, selector: str) -> str:
    found: str = browser.value(f"document.querySelector('{selector}').textContent")
    return found


def tab_to(browser: Browser, selector: str) -> None:
    """Presses Tab until the focus is there."""
    for _ in range(STOPS_MAX):
        browser.press("Tab")
        if browser.value(f"document.activeElement.matches('{selector}')"):
            return
    pytest.fail(f"Tab does not reach {selector}")


def test_a_link_is_cut_by_mouse_and_the_fault_taken_back(browser: Browser, served: LiveServer) -> None:
    open_page(browser, served)
    drawn = browser.value(
        "[...document.querySelectorAll('#fabric path.link')].map(link => link.dataset.name).sort()"
    )
    assert drawn == sorted(link.name for link in served.feed.clos.links())
    wait_for_state(browser, "up")
    assert "half of the busiest link" in text_of(browser, "#legend")  # no port has a rate
    assert browser.value("document.querySelector('#target').value") == ""
    browser.click(ON_LINK)
    assert browser.value("document.querySelector('#target').value") == f"link {LINK}"
    assert f"{LINK}: up" in text_of(browser, "#target-facts")
    browser.value("document.querySelector('#seconds').value = 300")
    browser.click("#act button")
    wait_for_state(browser, "down")
    browser.wait_for("document.querySelector('#faults b')")
    fault_id = text_of(browser, "#faults b")
    browser.wait_for(f"document.querySelector('#answer').textContent === 'fault {fault_id} added'")
    assert LINK in text_of(browser, "#faults li")
    browser.wait_for(f"document.querySelector('#tail').textContent.includes('fault {fault_id} (link-down)')")
    shaded = "document.querySelector('#goodput-plot').chart.model.x.bands"
    browser.wait_for(f"{shaded}.some(([name]) => name === '{fault_id}')")
    assert text_of(browser, "text.sign.down") == "\u2715"
    browser.click("#faults button")
    wait_for_state(browser, "up")
    browser.wait_for(f"document.querySelector('#answer').textContent === 'cleared {fault_id}'")


def test_a_link_is_cut_with_the_keyboard_alone(browser: Browser, served: LiveServer) -> None:
    open_page(browser, served)
    tab_to(browser, ON_LINK)
    assert browser.value("getComputedStyle(document.activeElement).filter") != "none"  # a ring of light
    browser.press("Enter")
    assert browser.value("document.querySelector('#target').value") == f"link {LINK}"
    tab_to(browser, "#act button")
    browser.press("Enter")
    wait_for_state(browser, "down")
    assert browser.value(f"document.querySelector('{ON_LINK}').getAttribute('aria-label')").endswith("down")
    tab_to(browser, "#clear")
    browser.press(" ")
    wait_for_state(browser, "up")


def test_a_gray_switch_and_a_drained_plane_are_marked_until_they_are_cleared(
    browser: Browser, served: LiveServer
) -> None:
    open_page(browser, served)
    switch, plane = 'g.node[data-name="p0-t1-1"]', 'rect.plane[data-plane="1"]'
    for element, target, kind in ((switch, "node p0-t1-1", "blackhole"), (plane, "plane 1", "drain")):
        browser.value(f"document.querySelector('{element}').dispatchEvent(new MouseEvent('click'))")
        assert browser.value("document.querySelector('#target').value") == target
        browser.value("document.querySelector('#seconds').value = 300")
        browser.value(f"document.querySelector('#kind').value = '{kind}'")
        browser.click("#act button")
        browser.wait_for(f"document.querySelector('{element}').dataset.state === 'impaired'")
    assert browser.value("document.querySelectorAll('g.node[data-state=impaired]').length") == 1
    browser.click("#clear")
    for element in (switch, plane):
        browser.wait_for(f"document.querySelector('{element}').dataset.state === 'up'")


def test_a_plane_is_chosen_by_its_name(browser: Browser, served: LiveServer) -> None:
    open_page(browser, served)
    browser.click("text.plane-name")
    browser.wait_for("document.querySelector('#target').value.startsWith('plane ')")


def test_a_flap_marks_its_link_with_the_number_of_outages(browser: Browser, served: LiveServer) -> None:
    open_page(browser, served)
    browser.click(ON_LINK)
    browser.value("document.querySelector('#seconds').value = 300")
    browser.value("document.querySelector('#kind').value = 'link-flap'")
    browser.click("#act button")
    browser.wait_for("/^. [0-9]+\u00d7$/.test(document.querySelector('text.sign')?.textContent)")
    wait_for_state(browser, "impaired")
    assert browser.value(f"document.querySelector('{ON_LINK}').classList.contains('flapping')")


def test_events_are_filtered_by_kind(browser: Browser, served: LiveServer) -> None:
    open_page(browser, served)
    served.control.inject(FaultRequest(kind="link-down", link=LINK, seconds=300))
    browser.wait_for("document.querySelector('#tail li.fault') && document.querySelector('#tail li.link')")
    # not by mouse: the list of faults above it grows, and moves it
    browser.value("document.querySelector('#kinds input[name=link]').click()")
    assert browser.value("document.querySelectorAll('#tail li.link').length") == 0
    assert browser.value("document.querySelectorAll('#tail li.fault').length") > 0
    clock = browser.value("document.querySelector('#tail time').textContent")
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", clock)


def test_plots_show_values_under_the_cursor_and_what_is_zoomed_into_stays(
    browser: Browser, served: LiveServer
) -> None:
    open_page(browser, served)
    plot = "document.querySelector('#goodput-plot')"
    browser.wait_for(f"{plot}.chart.u?.data[0].length > 5")
    browser.value(f"{plot}.focus()")
    browser.press("End")
    for name in ("goodput", "rtt"):
        browser.wait_for(f"document.querySelector('#{name}-plot output').textContent !== ''")
        assert text_of(browser, f"#{name}-plot .at")
    browser.press("Escape")
    browser.wait_for(f"{plot}.querySelector('output').textContent === ''")
    zoom = "(({u}) => [u.scales.x.min, u.scales.x.max])(document.querySelector('#rtt-plot').chart)"
    browser.value(f"(({{group, u}}) => group.zoomTo([u.data[0][1], u.data[0][4]]))({plot}.chart)")
    browser.wait_for(f"JSON.stringify({zoom}) === JSON.stringify({plot}.chart.group.zoom)")
    seen = browser.value(zoom)
    points = browser.value(f"{plot}.chart.u.data[0].length")
    browser.wait_for(f"{plot}.chart.u.data[0].length > {points}")
    assert browser.value(zoom) == seen


def test_a_job_stands_above_all_else(browser: Browser, served: LiveServer) -> None:
    collective = Collective("all-reduce", ("h0", "h3"), 4096, "float32", "sum", 1, compute_ns=1000)
    shown = OperationPublisher(lab_paths(served.feed.lab).folder)
    with contextlib.closing(shown):
        now_ns = monotonic_ns()
        for begin_ns in range(now_ns - 2 * 10**9, now_ns - 10**8, 10**8):
            end_ns = begin_ns + 10**8
            shown.completed("train", collective, OperationRecord(begin_ns, begin_ns, end_ns, 0, 1, 0, "h3"))
        open_page(browser, served)
        browser.wait_for("document.querySelector('#jobs h2')?.textContent === 'Job train'")
        figures = text_of(browser, "#jobs dl")
        assert "100 ms" in figures
        assert "h3, last in 100 %" in figures
        assert browser.value("document.querySelector('#jobs figure').chart.model.series[0].y.length") == 19
    browser.wait_for("document.querySelector('#jobs h2') === null")


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_is_wider_than_the_window(browser: Browser, served: LiveServer, width: int) -> None:
    browser.open(served.url, width=width)
    browser.wait_for("document.querySelectorAll('#fabric path.link[data-state]').length > 0")
    assert browser.value("document.documentElement.scrollWidth") == width


def test_two_hosts_show_the_paths_between_them(browser: Browser, served: LiveServer) -> None:
    open_page(browser, served)
    for host in ("h0", "h3"):
        browser.click(f'g.node.host[data-name="{host}"]')
    browser.wait_for("document.querySelectorAll('#paths li').length === 4")
    traced = browser.value(
        "[...document.querySelectorAll('path.link.traced')].map(link => link.dataset.name).sort()"
    )
    clos = served.feed.clos
    near, far = clos.node("h0").index, clos.node("h3").index
    paths = [build_path(clos, near, far, plane, uplink) for plane in range(2) for uplink in range(2)]
    assert traced == sorted({link.name for path in paths for link in path.links})
    browser.click("#paths button")
    assert browser.value("document.querySelectorAll('path.link.traced').length") == len(paths[0].links)
    browser.click("#unmark")
    browser.wait_for("document.querySelectorAll('path.link.traced').length === 0")


def test_without_the_token_the_page_only_shows(browser: Browser, served: LiveServer) -> None:
    open_page(browser, served, token=False)
    assert "lacks the token" in text_of(browser, "#answer")
    browser.click(ON_LINK)
    browser.click("#act button")
    browser.wait_for("document.querySelector('#answer').className === 'bad'")
    assert "token" in text_of(browser, "#answer")
    assert served.control.clear(ClearRequest()) == []
    # what was refused is the only thing that went wrong
    assert [line for line in browser.console if "401" not in line] == []
    browser.console.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_colour_schemes(
    browser: Browser, served: LiveServer, scheme: Scheme
) -> None:
    open_page(browser, served, scheme)
    pairs = browser.value(
        """(() => {
            const shown = [...document.querySelectorAll("body *")].filter(each =>
                !(each instanceof SVGElement) && each.offsetParent && [...each.childNodes].some(
                    node => node.nodeType === Node.TEXT_NODE && node.textContent.trim()));
            const ground = (each) => {
                for (; each; each = each.parentElement) {
                    const colour = getComputedStyle(each).backgroundColor;
                    if (!/, 0\\)$/.test(colour)) return colour;
                }
                return "rgb(255, 255, 255)";
            };
            return shown.map(each => [each.tagName, getComputedStyle(each).color, ground(each)]);
        })()"""
    )
    assert len(pairs) > 20
    poor = [each for each in pairs if contrast(each[1], each[2]) < CONTRAST_MIN]
    assert poor == []
    is_dark = luminance(browser.value("getComputedStyle(document.body).backgroundColor")) < 0.2
    assert is_dark == (scheme == "dark")


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two CSS colours. Source: WCAG 2.1, relative luminance and contrast ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    channels = [float(each) / 255 for each in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.slow("the page tries again after seconds")
@pytest.mark.ci
def test_a_page_goes_on_when_its_server_was_away(browser: Browser, served: LiveServer) -> None:
    lab_name = served.feed.lab
    with Feed(lab_name, INTERVAL_NS) as feed, live_server(feed) as first:
        browser.open(first.url)
        browser.wait_for("document.querySelector('#status').textContent === 'live'")
        port = int(first.host.rpartition(":")[2])
    browser.wait_for("document.querySelector('#status').textContent.includes('does not answer')")
    with Feed(lab_name, INTERVAL_NS) as feed, live_server(feed, port=port):
        browser.wait_for("document.querySelector('#status').textContent === 'live'")
        open_page(browser, served)
    browser.console.clear()  # of requests that nobody answered


def test_figures_that_are_old_are_called_so(browser: Browser, served: LiveServer) -> None:
    go_on = threading.Event()
    with Feed(served.feed.lab, INTERVAL_NS) as feed, live_server(feed) as server:
        open_page(browser, server)
        browser.wait_for("document.querySelector('#age').hidden")
        step = feed._step
        feed._step = lambda: step() if go_on.wait() else None  # type: ignore[method-assign]
        try:
            browser.wait_for(
                "/^The figures are [1-9][0-9]* s old.$/.test(document.querySelector('#age').innerText)"
            )
            open_page(browser, server)  # who comes now is notified at once
            browser.wait_for("!document.querySelector('#age').hidden")
        finally:
            go_on.set()
        browser.wait_for("document.querySelector('#age').hidden")
