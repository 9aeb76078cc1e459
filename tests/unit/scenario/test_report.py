"""The report as a page: whole, self-contained, harmless, and with every fault on every panel."""

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from scenario_text import FLAP
from simulated_lab import SimulatedLab

from agents.abi import EvState
from testbed.metrics.histogram import merge
from testbed.scenario.execution import execute
from testbed.scenario.measure.verdict import Ending, Status, decide
from testbed.scenario.report.axis import Axis, linear_axis, log_axis
from testbed.scenario.report.distribution import build_distributions
from testbed.scenario.report.expectation_table import JudgedExpectation, expectation_table
from testbed.scenario.report.fabric import fabric_drawing
from testbed.scenario.report.line_rate import line_rate
from testbed.scenario.report.page import build_report
from testbed.scenario.report.panel import POINTS_MAX, build_panels, shown_intervals
from testbed.scenario.report.panel_drawing import Band, Frame, Limit, Panel, Series, draw_panel
from testbed.scenario.report.result import RunResult
from testbed.scenario.report.table import transition_table
from testbed.scenario.spec.load import load_scenario
from testbed.scenario.spec.plan import READING_INTERVAL_NS
from testbed.scenario.spec.resolve import resolve
from testbed.shown import format_rate

VOID = {"meta", "br", "link", "img", "hr", "input"}
PANELS = ["goodput", "rtt", "evs", "planes", "message", "losses", "senders"]


class Page(HTMLParser):
    """Checks that elements nest, and collects what is asked for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def classes(self, name: str) -> int:
        return sum(name in (attributes.get("class") or "").split() for _, attributes in self.tags)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    lab = SimulatedLab(resolve(load_scenario(FLAP)))
    return execute(lab.plan, FLAP, lab.world, lab, tmp_path_factory.mktemp("runs")).result


def test_the_page_is_well_formed_and_has_every_panel(result: RunResult) -> None:
    page = Page(build_report(result))
    panels = [attributes["id"] for tag, attributes in page.tags if attributes.get("class") == "panel"]
    assert panels == [f"panel-{key}" for key in PANELS]


def test_every_panel_shades_every_occurrence_and_names_the_fault(result: RunResult) -> None:
    page = Page(build_report(result))
    shades = [attributes["d"] for _, attributes in page.tags if attributes.get("class") == "fault"]
    assert [(shade or "").count("M") for shade in shades] == [4] * len(PANELS)
    assert page.classes("fault-bar") == len(PANELS)
    assert "".join(page.text).count("flap1") >= len(PANELS)


def test_the_page_asks_nobody_for_anything(result: RunResult) -> None:
    text = build_report(result)
    page = Page(text)
    assert not [tag for tag, attributes in page.tags if {"src", "action"} & set(attributes)]
    anchors = {attributes.get("id") for _, attributes in page.tags}
    links = [attributes["href"] or "" for _, attributes in page.tags if "href" in attributes]
    assert links
    assert all(link.startswith("#") and link[1:] in anchors for link in links)
    assert "http" not in text.replace("http-equiv", "")
    assert "@import" not in text
    assert "url(" not in text
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")


def test_a_panel_describes_itself_in_words(result: RunResult) -> None:
    page = Page(build_report(result))
    labels = [
        a["aria-label"]
        for tag, a in page.tags
        if tag == "svg" and a.get("role") == "img" and (a["class"] or "").startswith("panel")
    ]
    assert len(labels) == len(PANELS) + 2
    assert all(label and " over time: " in label for label in labels[: len(PANELS)])
    assert all(label and ", histogram: no fault: p50 " in label for label in labels[len(PANELS) :])


def test_every_panel_can_be_walked_with_the_keyboard(result: RunResult) -> None:
    page = Page(build_report(result))
    assert sum(a.get("tabindex") == "0" for tag, a in page.tags if tag == "svg") == len(PANELS)


def test_queues_and_signals_are_drawn_where_ports_have_a_rate(tmp_path: Path) -> None:
    shaped = FLAP.replace("  seed: 42\n", "  seed: 42\n  topology: {port_rate: 100Mbit, flow_control: pfc}\n")
    lab = SimulatedLab(resolve(load_scenario(shaped)))
    drawn = execute(lab.plan, shaped, lab.world, lab, tmp_path).result
    page = Page(build_report(drawn))
    panels = [attributes["id"] for tag, attributes in page.tags if attributes.get("class") == "panel"]
    assert panels[-4:] == ["panel-queues", "panel-signals", "panel-held", "panel-senders"]


def test_goodput_of_workloads_that_share_their_hosts_is_reported_apart(tmp_path: Path) -> None:
    first = "    - {name: main, kind: sendrecv, shift: 4, size: 1MiB, warmup: 500ms, duration: 4s}\n"
    both = FLAP.replace(first, first + first.replace("main", "half").replace("duration: 4s", "duration: 2s"))
    lab = SimulatedLab(resolve(load_scenario(both)))
    recording = execute(lab.plan, both, lab.world, lab, tmp_path).result.recording
    goodput = build_panels(recording, shown_intervals(recording.readings, READING_INTERVAL_NS))[0]
    assert [series.name for series in goodput.series] == ["all senders", "main", "half"]
    ends = [[value for value in series.values if value is not None][-10] for series in goodput.series]
    assert ends[0] == pytest.approx(ends[1], rel=0.01)
    assert ends[2] == 0


def test_each_plane_has_a_lane_of_its_ev_states(result: RunResult) -> None:
    recording = result.recording
    panel = next(
        one
        for one in build_panels(recording, shown_intervals(recording.readings, READING_INTERVAL_NS))
        if one.key == "evs"
    )
    assert [lane.name for lane in panel.lanes] == ["plane 0", "plane 1", "plane 2", "plane 3"]
    bad = [max(value or 0 for value in lane.series[0].values) for lane in panel.lanes]
    assert bad[0] > 0
    assert bad[1:] == [0, 0, 0]  # the fault was in plane 0
    assert bad[0] < panel.lanes[0].full
    assert max(value or 0 for value in panel.series[0].values) == bad[0]


def test_why_evs_changed_is_counted_by_plane(result: RunResult) -> None:
    events = list(result.recording.ev_transitions())
    text = " ".join(Page(transition_table(result)).text)
    left = sum(event.after is EvState.ASSUMED_BAD for event in events)
    assert left > 0
    assert re.search(rf"GOOD \u2192 ASSUMED_BAD\s+loss\s+{left}\s+\u2013\s+\u2013\s+\u2013\s+{left}\b", text)


def test_histograms_tell_times_during_faults_from_others(result: RunResult) -> None:
    recording = result.recording
    rtt, message = build_distributions(recording)
    assert (rtt.key, message.key) == ("rtt-histogram", "message-histogram")
    span = recording.measured_span()
    everything = merge(recording.interval(span).packet_rtt).count
    counts = [int(outline.name.split(", ")[-1].split()[0].replace(",", "")) for outline in rtt.outlines]
    assert len(counts) == 2
    assert sum(counts) == pytest.approx(everything, rel=0.05)
    for outline in rtt.outlines:
        assert sum(share for _, _, share in outline.bars) == pytest.approx(1)
        assert all(low < high for low, high, _ in outline.bars)


def test_links_that_faults_hit_stand_out_in_the_fabric(result: RunResult) -> None:
    page = Page(fabric_drawing(result))
    (fault,) = result.plan.faults
    marked = {a["data-name"] for _, a in page.tags if a.get("class") == "link marked"}
    assert marked == set(fault.links)
    assert "".join(page.text).count("flap1 (link-flap)") == len(fault.links)
    assert len(page.open) == 0


def test_every_expectation_stands_with_its_reason(result: RunResult) -> None:
    text = "".join(Page(build_report(result)).text)
    for outcome in result.verdict.outcomes:
        assert outcome.text in text
    assert text.count("\u2713 pass") - text.count("\u2713 passed") == 4


def test_names_from_outside_cannot_become_markup(result: RunResult) -> None:
    hostile = "</script><script>alert(1)</script><b onx='\">&"
    plan = dataclasses.replace(result.plan, description=hostile, scenario=hostile)
    ending = Ending(Status.ERROR, hostile)
    changed = dataclasses.replace(
        result, plan=plan, verdict=decide(result.verdict.outcomes, (hostile,), ending), run_id=hostile
    )
    text = build_report(changed)
    assert "<b onx" not in text
    assert "<script>alert" not in text
    assert hostile in "".join(Page(text).text)


def test_a_run_that_measured_nothing_still_has_a_page(tmp_path: Path) -> None:
    lab = SimulatedLab(resolve(load_scenario(FLAP)))
    lab.fail["prepare"] = KeyboardInterrupt()
    empty = execute(lab.plan, FLAP, lab.world, lab, tmp_path).result
    page = Page(build_report(empty))
    assert page.classes("panel") == 0
    assert "The run did not come to its end: interrupted." in "".join(page.text)


def test_a_run_that_ended_in_warm_up_still_has_panels(tmp_path: Path) -> None:
    lab = SimulatedLab(resolve(load_scenario(FLAP)))
    lab.clock.interrupt_at_ns = lab.clock.now_ns() + 300_000_000
    short = execute(lab.plan, FLAP, lab.world, lab, tmp_path).result
    assert Page(build_report(short)).classes("panel") == len(PANELS)


def test_a_report_is_small(result: RunResult) -> None:
    assert len(build_report(result)) < 200_000


def test_long_runs_are_thinned_without_losing_counts(result: RunResult) -> None:
    first, last = result.recording.readings[0], result.recording.readings[-1]
    step_ns = (last.time_ns - first.time_ns) // 5000
    crowded = [dataclasses.replace(first, time_ns=first.time_ns + index * step_ns) for index in range(5000)]
    shown = shown_intervals([*crowded, last], READING_INTERVAL_NS)
    assert len(shown) <= POINTS_MAX + 1
    total = sum(host.acknowledged_bytes for each in shown for host in each.hosts.values())
    assert total == sum(
        last.hosts[name].acknowledged_bytes - first.hosts[name].acknowledged_bytes for name in last.hosts
    )


def frame(*bands: Band) -> Frame:
    return Frame((0.0, 50.0, 100.0), Axis(0, 100, (0, 50, 100), is_log=False), bands, 100.0)


def test_a_gap_breaks_the_line() -> None:
    panel = Panel("k", "t", "q", "", "lines", (Series("s", "c0", [None, 5.0]),), format_rate)
    path = re.search(r'class="line c0" d="([^"]*)"', draw_panel(panel, frame()))
    assert path is not None
    assert path.group(1).startswith("M574.0,")
    assert path.group(1).count("H") == 1


def test_a_value_is_drawn_over_its_whole_interval() -> None:
    panel = Panel("k", "t", "q", "", "lines", (Series("s", "c0", [0.0, 10.0]),), format_rate)
    path = re.search(r'class="line c0" d="([^"]*)"', draw_panel(panel, frame()))
    assert path is not None
    assert path.group(1) == "M84.0,206.0H574.0V30.0H1064.0"


def test_areas_stack() -> None:
    series = (Series("low", "bad", [1.0, 1.0]), Series("high", "skip", [1.0, 1.0]))
    panel = Panel("k", "t", "q", "", "areas", series, format_rate)
    drawn = re.findall(r'class="area (\w+)" d="M84.0,206V([0-9.]+)', draw_panel(panel, frame()))
    assert drawn == [("skip", "30.0"), ("bad", "118.0")], (
        "the upper area is drawn first, the lower one over it"
    )


@pytest.mark.parametrize(
    ("columns", "silence"),
    [
        ([[0.0, 0.0]], "0 all the time"),
        ([[None, None]], "nothing recorded"),
        ([[1e6, 2e6], [1e6, 2.01e6]], "the 2 curves are the same, up to 2.01 Mbit/s"),
        ([[1e6, 2e6], [1e6, 1e6]], ""),
        ([[1e6, 2e6]], ""),
    ],
)
def test_a_panel_without_anything_to_see_is_folded(columns: list[list[float | None]], silence: str) -> None:
    series = tuple(Series(str(place), "c0", values) for place, values in enumerate(columns))
    assert Panel("k", "t", "q", "", "lines", series, format_rate).silence == silence


@pytest.mark.parametrize(("highest", "is_drawn"), [(6e6, True), (5e6, True), (4e6, False)])
def test_the_line_rate_is_drawn_where_values_come_near(highest: float, is_drawn: bool) -> None:
    limit = Limit("line rate", 10e6)
    panel = Panel("k", "t", "q", "", "lines", (Series("s", "c0", [0.0, highest]),), format_rate, limit=limit)
    drawn = draw_panel(panel, frame())
    assert ("line rate" in drawn) is is_drawn
    assert "q (Mbit/s)" in drawn


def test_the_line_rate_is_what_the_ports_of_the_senders_can_send() -> None:
    spec = resolve(load_scenario(FLAP)).topology.model_copy(update={"port_rate": 10_000_000})
    assert line_rate(spec, ["h0", "h1"]) == Limit("line rate", 2 * spec.planes * 10e6)
    assert line_rate(spec, ["h0", "h1"], plane=0) == Limit("line rate", 2 * 10e6)
    assert line_rate(spec.model_copy(update={"port_rate": None}), ["h0"]) is None


def test_an_expectation_is_a_bar_with_its_limit() -> None:
    found = {
        "text": "goodput(main) >= 90% of goodput(main) before f", "passed": False, "reason": "why",
        "dimension": "rate", "left": 45e6, "right": 90e6, "measured": {"goodput(main) before f": 100e6},
    }  # fmt: skip
    page = Page(expectation_table([JudgedExpectation.load(found, "mrc")]))
    text = " ".join(page.text)
    assert "FAIL" in text
    assert "45 Mbit/s" in text
    assert "\u2265 90 Mbit/s" in text
    assert "goodput(main) before f: 100 Mbit/s" in text
    widths = [float(a["width"] or 0) for tag, a in page.tags if tag == "rect"]
    assert widths == [180.0, 90.0]
    assert [a["d"] for tag, a in page.tags if a.get("class") == "limit"] == ["M180.0,1v20"]


def test_labels_of_neighbouring_faults_do_not_collide() -> None:
    bands = [Band(f"fault-{index}", index, index + 1.0, ((index, index + 1.0),)) for index in (10, 12)]
    panel = Panel("k", "t", "q", "", "lines", (Series("s", "c0", [1.0, 1.0]),), format_rate)
    heights = re.findall(r'class="fault-id" x="[0-9.]+" y="(\d+)"', draw_panel(panel, frame(*bands)))
    assert len(set(heights)) == 2


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, (0, 20, 40, 60, 80, 100)),
        (0, 7.3, (0, 2, 4, 6, 8)),
        (0, 0, (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (-1, 12, (-5, 0, 5, 10, 15)),
    ],
)
def test_linear_ticks_are_round(low: float, high: float, ticks: tuple[float, ...]) -> None:
    axis = linear_axis(low, high)
    assert axis.ticks == pytest.approx(ticks)
    assert axis.low <= low
    assert axis.high >= high


@pytest.mark.parametrize(("low", "high"), [(31, 31), (3e4, 9e4), (1e3, 1e9), (1, 1.01)])
def test_log_ticks_enclose_the_values(low: float, high: float) -> None:
    axis = log_axis(low, high)
    assert axis.low <= low < axis.high
    assert high <= axis.high
    assert len(axis.ticks) >= 2
    positions = [axis.position(tick, 0, 1) for tick in axis.ticks]
    assert positions == sorted(positions)
