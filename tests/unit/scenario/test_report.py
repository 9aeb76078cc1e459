"""The report as a page: whole, self-contained, harmless, and with every fault on every panel."""

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from scenario_text import FLAP
from virtual_trial import Trial

from mrc_agents.abi import EvState
from mrc_testbed.metrics.histogram import merge
from mrc_testbed.report.chart import ReferenceLine
from mrc_testbed.scenario.measure.verdict import Ending, Status, decide
from mrc_testbed.scenario.report.panel import POINTS_MAX, build_panels, line_rate, shown_intervals
from mrc_testbed.scenario.report.report_tables import expectation_table, transition_table
from mrc_testbed.scenario.report.result import RunResult
from mrc_testbed.scenario.report.run_page import build_distributions, build_report, fabric_drawing
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import READING_INTERVAL_NS
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.ev import decode_ev

VOID = {"meta", "br", "link", "img", "hr", "input"}
PANELS = ["goodput", "rtt", "evs", "planes", "message", "losses", "queues", "signals", "senders"]
HISTOGRAMS = ["rtt-histogram", "message-histogram"]


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

    def places(self) -> list[str]:
        """Keys of the charts that the page has places for."""
        return [a["data-chart"] or "" for tag, a in self.tags if tag == "figure"]


def data_of(text: str) -> dict[str, Any]:
    """Data that the page draws."""
    [data] = re.findall(r'<script type="application/json" class="charts">(.*?)</script>', text, re.DOTALL)
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return Trial(FLAP).execute(tmp_path_factory.mktemp("runs")).result


def test_the_page_is_well_formed_and_has_every_panel(result: RunResult) -> None:
    text = build_report(result)
    assert Page(text).places() == PANELS + HISTOGRAMS
    assert [chart["key"] for chart in data_of(text)["charts"]] == PANELS + HISTOGRAMS


def test_every_panel_shades_every_occurrence_and_names_the_fault(result: RunResult) -> None:
    text = build_report(result)
    data = data_of(text)
    axes = [data["axes"][chart["x"]] for chart in data["charts"] if chart["key"] in PANELS]
    assert len(axes) == len(PANELS)
    for axis in axes:
        [(name, periods)] = axis["bands"]
        assert name == "flap1"
        assert len(periods) == 4
    assert text.count("faults: flap1") == len(PANELS)


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
    assert "copyright notice and this permission notice" in text
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none';")


def test_the_policy_lets_the_script_of_the_page_run_and_no_other(result: RunResult) -> None:
    text = build_report(result)
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in text


def test_a_panel_describes_itself_in_words(result: RunResult) -> None:
    page = Page(build_report(result))
    labels = [a["aria-label"] for tag, a in page.tags if tag == "figure" and a.get("role") == "img"]
    assert len(labels) == len(PANELS + HISTOGRAMS)
    assert all(label and " over time: " in label for label in labels[: len(PANELS)])
    assert all(label and ", histogram: no fault: p50 " in label for label in labels[len(PANELS) :])


def test_every_panel_can_be_walked_with_the_keyboard(result: RunResult) -> None:
    page = Page(build_report(result))
    assert all(a.get("tabindex") == "0" for tag, a in page.tags if tag == "figure")


def test_without_scripts_the_page_says_so_and_has_its_tables(result: RunResult) -> None:
    page = Page(build_report(result))
    assert [tag for tag, _ in page.tags].count("noscript") == 1
    assert "Charts need JavaScript" in "".join(page.text)
    assert [tag for tag, _ in page.tags].count("table") >= 6


def test_what_is_held_is_drawn_where_there_is_flow_control(tmp_path: Path) -> None:
    lossless = FLAP.replace("port_rate: 5Mbit", "port_rate: 5Mbit, flow_control: pfc")
    panels = Page(build_report(Trial(lossless).execute(tmp_path).result)).places()
    assert panels[-6:] == ["queues", "signals", "held", "senders", *HISTOGRAMS]


def test_goodput_of_workloads_that_share_their_hosts_is_reported_apart(tmp_path: Path) -> None:
    first = "    - {name: main, kind: sendrecv, shift: 4, size: 1MiB, warmup: 500ms, duration: 4s}\n"
    half = first.replace("main", "half").replace("1MiB", "4KiB").replace("duration: 4s", "duration: 2s")
    both = FLAP.replace(first, first + half)
    recording = Trial(both).execute(tmp_path).result.recording
    goodput = build_panels(recording, shown_intervals(recording.readings, READING_INTERVAL_NS))[0]
    assert [series.name for series in goodput.series] == ["all senders", "main", "half"]
    ends = [[value for value in series.y if value is not None][-10] for series in goodput.series]
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
    bad = [max(value or 0 for value in lane.series[0].y) for lane in panel.lanes]
    assert bad[0] > 0
    assert bad[1:] == [0, 0, 0]  # the fault was in plane 0
    assert bad[0] < panel.lanes[0].full
    assert max(value or 0 for value in panel.series[0].y) == bad[0]


def test_why_evs_changed_is_counted_by_plane(result: RunResult) -> None:
    events = list(result.recording.ev_transitions())
    text = " ".join(Page(transition_table(result)).text)
    planes = [decode_ev(event.entropy).plane for event in events if event.after is EvState.ASSUMED_BAD]
    counts = [str(planes.count(plane) or "\u2013") for plane in range(4)]
    assert planes.count(0) > len(planes) / 2
    assert re.search(
        r"GOOD \u2192 ASSUMED_BAD\s+loss\s+" + r"\s+".join([*counts, str(len(planes))]) + r"\b", text
    )


def test_histograms_tell_times_during_faults_from_others(result: RunResult) -> None:
    recording = result.recording
    rtt, message = build_distributions(recording)
    assert (rtt.key, message.key) == ("rtt-histogram", "message-histogram")
    span = recording.measured_span()
    everything = merge(recording.interval(span).packet_rtt).count
    counts = [int(series.name.split(", ")[-1].split()[0].replace(",", "")) for series in rtt.series]
    assert len(counts) == 2
    assert sum(counts) == pytest.approx(everything, rel=0.05)
    for series in rtt.series:
        assert sum(share or 0 for share in series.y) == pytest.approx(1)
        assert len(series.x) == len(series.y) + 1
        assert list(series.x) == sorted(set(series.x))


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
    assert text.count("\u2713 held") == 4


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
    trial = Trial(FLAP)
    trial.fail["prepare"] = KeyboardInterrupt()
    page = Page(build_report(trial.execute(tmp_path).result))
    assert page.places() == []
    assert "The run did not come to its end: interrupted." in "".join(page.text)


def test_a_run_that_ended_in_warm_up_still_has_panels(tmp_path: Path) -> None:
    trial = Trial(FLAP)
    trial.clock.interrupt_at_ns = 300_000_000
    assert Page(build_report(trial.execute(tmp_path).result)).places() == PANELS


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


def test_the_line_rate_is_what_the_ports_of_the_senders_can_send() -> None:
    spec = resolve(load_scenario(FLAP)).topology.model_copy(update={"port_rate": 10_000_000})
    assert line_rate(spec, ["h0", "h1"]) == ReferenceLine("line rate", 2 * spec.planes * 10e6)
    assert line_rate(spec, ["h0", "h1"], plane=0) == ReferenceLine("line rate", 2 * 10e6)
    assert line_rate(spec.model_copy(update={"port_rate": None}), ["h0"]) is None


def test_an_expectation_is_a_bar_with_its_limit() -> None:
    found = {
        "text": "goodput(main) >= 90% of goodput(main) before f", "passed": False, "reason": "why",
        "dimension": "rate", "left": 45e6, "right": 90e6, "measured": {"goodput(main) before f": 100e6},
    }  # fmt: skip
    page = Page(expectation_table([("mrc", found)]))
    text = " ".join(page.text)
    assert "\u2717 failed" in text
    assert "45 Mbit/s" in text
    assert "\u2265 90 Mbit/s" in text
    assert "goodput(main) before f: 100 Mbit/s" in text
    widths = [float(a["width"] or 0) for tag, a in page.tags if tag == "rect"]
    assert widths == [180.0, 90.0]
    assert [a["d"] for tag, a in page.tags if a.get("class") == "limit"] == ["M180.0,1v20"]
