"""report.html: one run on one page. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from markupsafe import Markup

from mrc_testbed.drawing.svg import graph_svg
from mrc_testbed.metrics.histogram import BUCKET_COUNT, Histogram, bucket_lower_ns, merge
from mrc_testbed.metrics.series import Interval, summarize
from mrc_testbed.report.chart import Axis, Chart, Series
from mrc_testbed.report.page import Section, chart_cards, chart_data, html, page, part, render
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording, Span
from mrc_testbed.scenario.measure.series_rows import intervals
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.figure import run_charts, step_chart
from mrc_testbed.scenario.report.panel import build_panels, shown_intervals
from mrc_testbed.scenario.report.report_tables import (
    alerts,
    collective_table,
    expectation_table,
    fault_table,
    fidelity_table,
    flow_table,
    plane_table,
    provenance_table,
    tiles,
    transition_table,
)
from mrc_testbed.scenario.report.result import RunResult
from mrc_testbed.scenario.report.result_text import job_figures, job_headline, printed_table
from mrc_testbed.shown import format_share, format_time
from mrc_testbed.topology.resolve import resolve_topology

_BUCKETS_JOINED: Final = 4
"""Eight bars to the octave instead of 32: fine enough for the eye, and each has times enough."""

_NAMESPACE: Final = ' xmlns="http://www.w3.org/2000/svg"'
"""HTML does without it."""

_MARKS = {
    Status.PASSED: ("good", "\u2713"),
    Status.FAILED: ("bad", "\u2717"),
    Status.ERROR: ("bad", "!"),
    Status.ABORTED: ("warn", "!"),
    Status.UNTRUSTED: ("warn", "?"),
    Status.INTERRUPTED: ("warn", "!"),
}
_CONCLUSIVE = (Status.PASSED, Status.FAILED)


class _Strip(NamedTuple):
    """A job in a few figures and one sentence: first in every report."""

    name: str
    headline: str
    figures: Sequence[tuple[str, str]]
    chart: Chart | None


def build_report(result: RunResult) -> str:
    plan, verdict, recording = result.plan, result.verdict, result.recording
    # Step time stands at the head already.
    figure = run_charts(recording, without=["step-time"])
    panels = build_panels(recording, shown_intervals(recording.readings, plan.reading_interval_ns))
    distributions = build_distributions(recording)
    jobs = [
        _Strip(
            job.name,
            _capital(job_headline(result, job)),
            job_figures(job),
            step_chart(recording, job.name, job.word),
        )
        for job in result.jobs
    ]
    style, mark = _MARKS[verdict.status]
    sections = _sections(
        result, chart_cards(figure), chart_cards(panels, is_folding=True), chart_cards(distributions)
    )
    steps = [job.chart for job in jobs if job.chart is not None]
    body = render(
        "mrc_testbed.scenario.report",
        "report.html.j2",
        plan=plan,
        mark=mark,
        style=style,
        status=verdict.status.value,
        # What ended a run early, or makes it untrusted, stands in an alert of its own.
        reason=f"{_capital(verdict.reason).rstrip('.')}. " if verdict.status in _CONCLUSIVE else "",
        run_id=result.run_id,
        started=result.started.strftime("%Y-%m-%d %H:%M:%S UTC"),
        alerts=alerts(result),
        jobs=jobs,
        tiles=tiles(result),
        sections=sections,
        version=result.provenance.mrc_testbed,
        data=chart_data([*steps, *figure, *panels, *distributions]),
    )
    return page(f"{plan.scenario}: {verdict.status.value}", body)


def embedded_report(report: str, prefix: str) -> Markup:
    """Body of a report, for a page of several.

    Args:
        report: from `build_report`.
        prefix: of its anchors, which others have too.
    """
    inner = report.partition('<article class="run">')[2].rpartition("</article>")[0]
    for attribute in (' id="', ' href="#'):
        inner = inner.replace(attribute, attribute + prefix)  # texts have no quotes: they are escaped
    return html(inner.replace("<h1>", "<h2>").replace("</h1>", "</h2>"))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sections(result: RunResult, figure: str, panels: str, distributions: str) -> list[Section]:
    expectations = (("", each.document()) for each in result.verdict.outcomes)
    return [
        Section("figure", "Figure", figure),
        Section("expectations", "Expectations", expectation_table(expectations)),
        Section("faults", "Faults and recovery", fault_table(result)),
        Section("time", "Over time", panels),
        Section("latency", "Latency distribution", distributions),
        Section("planes", "Planes", plane_table(result)),
        Section("evs", "EV state changes by reason", transition_table(result)),
        Section("printed", "Printed by ranks", printed_table(result).html()),
        Section("collectives", "Collectives", collective_table(result)),
        Section("flows", "Flows", flow_table(result)),
        Section("fabric", "Fabric", fabric_drawing(result)),
        Section("fidelity", "Fidelity of the testbed", fidelity_table(result)),
        Section("provenance", "Provenance", provenance_table(result)),
    ]


def fabric_drawing(result: RunResult) -> Markup:
    """The fabric of a run; links and nodes that its faults hit stand out, all others fade.

    Each of those says in its tool-tip which faults these were. A large fabric is drawn as a sample.
    """
    clos = resolve_topology(result.plan.topology)
    reasons: dict[str, list[str]] = {}
    for fault in result.plan.faults:
        for place in (*fault.links, *fault.nodes):
            reasons.setdefault(place, []).append(f"{fault.fault_id} ({fault.kind})")
    marks = {place: ", ".join(dict.fromkeys(faults)) for place, faults in reasons.items()}
    links = [link.id for link in clos.links() if link.name in marks]
    drawing = graph_svg(clos, links, marks).replace(_NAMESPACE, "", 1)
    missing = sum(f'data-name="{escape(place)}"' not in drawing for place in marks)
    if not marks:
        note = "No fault was part of this run."
    else:
        note = "Thick: links that faults hit. Point at one for its name and its faults."
    if missing:
        note += f" {missing} of the {len(marks)} are not in this sample of the fabric."
    return part("drawing", note, html(drawing))


def build_distributions(recording: Recording) -> tuple[Chart, ...]:
    """RTT and message completion over the measured time; none of what was not measured.

    Both axes are logarithmic: the few slow ones, which percentiles are about, would be invisible otherwise.
    """
    try:
        span = recording.measured_span()
    except NotMeasured:
        return ()
    measured = [
        each
        for each in intervals(recording.readings)
        if span.start_ns <= each.start_ns and each.end_ns <= span.end_ns
    ]
    is_faulted = _fault_test(recording)
    calm = [each for each in measured if not is_faulted(each)]
    faulted = [each for each in measured if is_faulted(each)]
    picks: tuple[tuple[str, str, Callable[[Interval], Histogram]], ...] = (
        ("rtt-histogram", "Packet RTT", lambda each: merge(each.packet_rtt)),
        ("message-histogram", "Message completion time", lambda each: each.message_completion),
    )
    built = (
        _distribution(
            key, title, {"no fault": merge(map(pick, calm)), "during faults": merge(map(pick, faulted))}
        )
        for key, title, pick in picks
    )
    return tuple(chart for chart in built if chart.series)


def _fault_test(recording: Recording) -> Callable[[Interval], bool]:
    """Return a test of an interval: did a fault act in its middle, or pause between two occurrences?"""
    spans: list[Span] = []
    for fault in recording.plan.faults:
        try:
            spans.append(recording.fault_span(fault.fault_id))
        except NotMeasured:
            continue  # it never acted
    return lambda each: any(
        span.start_ns <= (each.start_ns + each.end_ns) // 2 < span.end_ns for span in spans
    )


def _distribution(key: str, title: str, parts: Mapping[str, Histogram]) -> Chart:
    shares = {name: found for part, histogram in parts.items() for name, found in _shares(part, histogram)}
    places = sorted({place for found in shares.values() for place in found})
    # Where no part has a time, one step without a value closes the gap.
    edges = sorted({edge for place in places for edge in (place, place + _BUCKETS_JOINED)})
    x = tuple(float(max(1, bucket_lower_ns(edge))) for edge in edges)
    series = tuple(
        Series(name, x, [found.get(edge) for edge in edges[:-1]]) for name, found in shares.items()
    )
    across = Axis(title, format_time, is_log=True)
    note = "Share of all times in each bar; both scales are logarithmic."
    up = Axis("share of all", format_share, is_log=True)
    return Chart(title, "steps", across, up, series, key, note)


def _shares(part: str, histogram: Histogram) -> Iterator[tuple[str, dict[int, float]]]:
    """Name with percentiles, and lowest bucket of each bar -> share of all times; nothing without times."""
    latency = summarize(histogram)
    if latency is None:
        return
    counts = histogram.counts()
    bars = {
        index: sum(counts[index : index + _BUCKETS_JOINED]) / latency.count
        for index in range(0, BUCKET_COUNT, _BUCKETS_JOINED)
    }
    times = (("p50", latency.p50_ns), ("p99", latency.p99_ns), ("p99.9", latency.p999_ns))
    percentiles = ", ".join(f"{ratio} {format_time(time_ns)}" for ratio, time_ns in times)
    yield (
        f"{part}: {percentiles}, {latency.count:,} times",
        {index: share for index, share in bars.items() if share},
    )
