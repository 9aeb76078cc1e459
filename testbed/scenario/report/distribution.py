"""Histograms of the report: how often which time occurred, with faults and without. Pure.

Both axes are logarithmic: the few slow ones, which percentiles are about, would be invisible otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from testbed.metrics.histogram import BUCKET_COUNT, Histogram, bucket_lower_ns, merge
from testbed.metrics.series import Interval, summarize
from testbed.scenario.measure.recording import NotMeasured, Recording, Span
from testbed.scenario.measure.series import intervals
from testbed.scenario.report.axis import Axis, log_axis
from testbed.scenario.report.panel_drawing import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    ticks_below,
    ticks_beside,
)
from testbed.shown import format_share, format_time

_BUCKETS_JOINED: Final = 4
"""Eight bars to the octave instead of 32: fine enough for the eye, and each has times enough."""


@dataclass(frozen=True, slots=True)
class Outline:
    """One histogram of a drawing.

    Attributes:
        name: for the legend, with its percentiles.
        style: class of the style sheet.
        bars: (lower, upper) in ns and share of all times, ascending; bars without times are left out.
    """

    name: str
    style: str
    bars: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class Distribution:
    """One drawing.

    Attributes:
        key: identifies it in the page.
        title: what it shows.
        outlines: at least one, each with a bar at least.
    """

    key: str
    title: str
    outlines: tuple[Outline, ...]


def build_distributions(recording: Recording) -> tuple[Distribution, ...]:
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
    built = []
    for key, title, pick in picks:
        outlines = [
            outline
            for name, style, part in (("no fault", "c0", calm), ("during faults", "c1", faulted))
            if (outline := _outline(name, style, merge(map(pick, part)))) is not None
        ]
        if outlines:
            built.append(Distribution(key, title, tuple(outlines)))
    return tuple(built)


def _fault_test(recording: Recording) -> Callable[[Interval], bool]:
    """Whether a fault acted in the middle of an interval, or was in a pause between two occurrences."""
    spans: list[Span] = []
    for fault in recording.plan.faults:
        try:
            spans.append(recording.fault_span(fault.fault_id))
        except NotMeasured:
            continue  # it never acted
    return lambda each: any(
        span.start_ns <= (each.start_ns + each.end_ns) // 2 < span.end_ns for span in spans
    )


def _outline(name: str, style: str, histogram: Histogram) -> Outline | None:
    latency = summarize(histogram)
    if latency is None:
        return None
    bars = []
    counts = histogram.counts()
    for index in range(0, BUCKET_COUNT, _BUCKETS_JOINED):
        count = sum(counts[index : index + _BUCKETS_JOINED])
        if count:
            edges = bucket_lower_ns(index), bucket_lower_ns(index + _BUCKETS_JOINED)
            bars.append((*edges, count / latency.count))
    times = (("p50", latency.p50_ns), ("p99", latency.p99_ns), ("p99.9", latency.p999_ns))
    percentiles = ", ".join(f"{ratio} {format_time(time_ns)}" for ratio, time_ns in times)
    return Outline(f"{name}: {percentiles}, {latency.count:,} times", style, tuple(bars))


def draw_distribution(distribution: Distribution) -> str:
    """The drawing as an SVG element with a description for those who cannot see it."""
    bars = [bar for outline in distribution.outlines for bar in outline.bars]
    across = log_axis(max(1, min(low for low, _, _ in bars)), max(high for _, high, _ in bars))
    upward = log_axis(min(share for _, _, share in bars), max(share for _, _, share in bars))
    described = "; ".join(outline.name for outline in distribution.outlines)
    parts = [
        f'<svg class="panel plain" id="{distribution.key}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(f"{distribution.title}, histogram: {described}")}">',
        *ticks_beside(upward, format_share, "share of all"),
        *(
            f'<path class="line {outline.style}" d="{_steps(outline.bars, across, upward)}"/>'
            for outline in distribution.outlines
        ),
        *ticks_below(across, format_time, distribution.title),
        "</svg>",
    ]
    return "\n".join(parts)


def _steps(bars: Sequence[tuple[int, int, float]], across: Axis, upward: Axis) -> str:
    """The roofs of neighbouring bars joined into one path; a gap goes down to the ground."""
    text = ""
    end_ns = -1
    for low_ns, high_ns, share in bars:
        left, right = (f"{across.position(max(1, edge), LEFT, RIGHT):.1f}" for edge in (low_ns, high_ns))
        y = f"{upward.position(share, BOTTOM, TOP):.1f}"
        if low_ns != end_ns:
            text += f"{f'V{BOTTOM}' if text else ''}M{left},{BOTTOM}"
        text += f"V{y}H{right}"
        end_ns = high_ns
    return f"{text}V{BOTTOM}"
