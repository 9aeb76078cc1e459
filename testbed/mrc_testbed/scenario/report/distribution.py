"""Histograms of the report: how often which time occurred, with faults and without. Pure.

Both axes are logarithmic: the few slow ones, which percentiles are about, would be invisible otherwise.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mrc_testbed.metrics.histogram import BUCKET_COUNT, Histogram, bucket_lower_ns, merge
from mrc_testbed.metrics.series import Interval, summarize
from mrc_testbed.report.chart import Axis, Chart, Series
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording, Span
from mrc_testbed.scenario.measure.series_rows import intervals
from mrc_testbed.shown import format_share, format_time

_BUCKETS_JOINED: Final = 4
"""Eight bars to the octave instead of 32: fine enough for the eye, and each has times enough."""


def build_distributions(recording: Recording) -> tuple[Chart, ...]:
    """RTT and message completion over the measured time; none of what was not measured."""
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
