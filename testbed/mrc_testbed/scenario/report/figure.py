"""The figure of a run: what its scenario's `figure:` asks for, from the recording. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import Final

from mrc_testbed.metrics.series import Reading
from mrc_testbed.report.chart import Axis, Chart, Form, ReferenceLine, Series, bar_chart, size_chart
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.operations_of_span import OperationsOfSpan
from mrc_testbed.scenario.measure.recording import AnyReading, FlowReading, NotMeasured, Recording, Span
from mrc_testbed.scenario.measure.series_rows import intervals
from mrc_testbed.scenario.report.panel import LOSSES, line_rate, time_axis
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.figure_spec import FigureKind, PlannedFigure
from mrc_testbed.scenario.spec.plan import PlannedWorkload
from mrc_testbed.shown import format_frequency, format_rate, format_share, format_time
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.job import slowest_of_each

_DOTS_MAX: Final = 600
"""Dots of a job at most; of more steps, the slowest of each few neighbours is drawn."""

_EDGE_SHARE: Final = 1e-5
"""Time that a published curve takes to change, as a share of the axis."""

_TITLES: Final[dict[FigureKind, str]] = {
    "goodput-over-time": "Goodput",
    "plane-share": "Share of each plane in what hosts send",
    "loss-rate": "Frames dropped and packets retransmitted",
    "step-time": "Step time",
    "job-throughput": "Job throughput",
    "per-flow": "Goodput of each flow",
    "by-size": "Bandwidth by message size",
}


def run_charts(recording: Recording, *, without: Collection[FigureKind] = ()) -> tuple[Chart, ...]:
    """The figure's charts; none when the scenario asks for none, or nothing was read."""
    if len(recording.readings) < 2:
        return ()
    wanted = [figure for figure in recording.plan.figure if figure.kind not in without]
    return tuple(
        replace(_chart(figure, recording), key=f"figure-{place}") for place, figure in enumerate(wanted)
    )


def step_chart(recording: Recording, job: str, word: str) -> Chart | None:
    """Chart of each step's time over time; None when nothing was read."""
    if len(recording.readings) < 2:
        return None
    workloads = [each for each in recording.plan.workloads if each.name == job]
    time = time_axis(recording, list(intervals(recording.readings)))
    axis = Axis(f"{word} time", format_time)
    title, steps = f"{word.capitalize()} time", list(_steps(workloads, recording))
    return Chart(title, "dots", time, axis, steps, f"job-{job}")


def _chart(figure: PlannedFigure, recording: Recording) -> Chart:
    title = figure.title or _TITLES[figure.kind]
    workloads = [each for each in recording.plan.workloads if each.name in figure.workloads]
    match figure.kind:
        case "per-flow":
            return bar_chart(
                title,
                "goodput",
                _per_flow(workloads, recording),
                format_rate,
                _nic_rate(workloads, recording),
            )
        case "by-size":
            return size_chart(title, "bandwidth", _by_size(workloads, recording), format_rate)
        case _:
            return _over_time(title, figure, workloads, recording)


def _over_time(
    title: str, figure: PlannedFigure, workloads: Sequence[PlannedWorkload], recording: Recording
) -> Chart:
    time = time_axis(recording, list(intervals(recording.readings)))
    sampled = _sampled(recording.readings, figure.every_ns, recording)
    form: Form = "lines"
    limit = None
    match figure.kind:
        case "goodput-over-time":
            flows = _sampled(recording.flow_readings, figure.every_ns, recording)
            axis, curves = Axis("goodput", format_rate), _goodput(figure, workloads, flows, recording)
            if figure.by == "total":
                hosts = [host for workload in workloads for host in workload.sources]
                limit = line_rate(recording.plan.topology, hosts)
            elif figure.by != "workload":
                limit = _nic_rate(workloads, recording)
        case "plane-share":
            axis, curves = Axis("share", format_share), _plane_shares(sampled, recording)
        case "loss-rate":
            axis, curves = Axis("per second", format_frequency), _losses(sampled, recording)
        case "step-time":
            form, axis, curves = "dots", Axis("step time", format_time), _steps(workloads, recording)
        case "job-throughput":
            axis = Axis("steps", format_frequency)
            curves = _operations_per_second(workloads, figure.every_ns, recording)
        case _:
            raise ValueError(figure.kind)
    drawn = [*curves]
    if published := _published(figure, drawn, time):
        drawn = [replace(each, name=each.name or "measured") for each in drawn] + [published]
    return Chart(title, form, time, axis, drawn, limit=limit)


def _published(figure: PlannedFigure, curves: Sequence[Series], time: Axis) -> Series | None:
    """The published curve; before its first change it is the mean of the run's own curves."""
    if not figure.published:
        return None
    first_ns, _ = figure.published[0]
    before = [
        value
        for curve in curves
        for at_ns, value in zip(curve.x, curve.y, strict=True)
        if 0 <= at_ns < first_ns and value is not None
    ]
    if not before or time.high is None:
        return None
    level = fmean(before)
    places, values = [0.0], [level]
    for at_ns, share in figure.published:
        if at_ns < time.high:
            places += [at_ns - _EDGE_SHARE * time.high, float(at_ns)]
            values += [values[-1], level * share]
    return Series("published", (*places, time.high), (*values, values[-1]))


def _nic_rate(workloads: Sequence[PlannedWorkload], recording: Recording) -> ReferenceLine | None:
    """Line rate of one host that sends."""
    return line_rate(recording.plan.topology, workloads[0].sources[:1])


def _sampled(readings: Sequence[AnyReading], every_ns: int, recording: Recording) -> list[AnyReading]:
    """Readings at or first after each multiple of *every_ns* on the run's axis, and the last one.

    Regular readings are due at whole multiples of 100 ms; those at the edges of faults are passed over.
    """
    kept: list[AnyReading] = []
    due_ns = None
    for reading in readings:
        time_ns = recording.relative_ns(reading.time_ns)
        if due_ns is None or time_ns >= due_ns:
            kept.append(reading)
            due_ns = (time_ns // every_ns + 1) * every_ns
    return kept


def _goodput(
    figure: PlannedFigure,
    workloads: Sequence[PlannedWorkload],
    readings: Sequence[FlowReading],
    recording: Recording,
) -> Iterable[Series]:
    """Goodput of each group of flows."""
    groups: dict[str, list[Flow]] = {}
    for workload in workloads:
        for flow in workload.flows:
            groups.setdefault(_group(figure, flow, workload), []).append(flow)

    for name, flows in groups.items():
        sent = [sum(each.acknowledged_bytes.get(flow, 0) for flow in flows) for each in readings]
        rates_bps = [
            (after - before) * 8e9 / (later.time_ns - earlier.time_ns)
            for (before, after), (earlier, later) in zip(pairwise(sent), pairwise(readings), strict=True)
        ]
        yield Series(name if len(groups) > 1 else "", _middles(readings, recording), rates_bps)


def _middles(readings: Sequence[AnyReading], recording: Recording) -> list[float]:
    """The time in the middle between each two readings."""
    return [
        float(recording.relative_ns((earlier.time_ns + later.time_ns) // 2))
        for earlier, later in pairwise(readings)
    ]


def _group(figure: PlannedFigure, flow: Flow, workload: PlannedWorkload) -> str:
    match figure.by:
        case "total":
            return "all"
        case "workload":
            return workload.name
        case "host":
            return flow.source
        case "flow":
            return _flow_name(flow, workload)


def _flow_name(flow: Flow, workload: PlannedWorkload) -> str:
    qp = f" qp {flow.qp_index}" if any(each.qp_index for each in workload.flows) else ""
    return f"{flow.source} to {flow.target}{qp}"


def _plane_shares(readings: Sequence[Reading], recording: Recording) -> Iterable[Series]:
    sent = [each.plane_tx_bytes for each in intervals(readings)]
    for plane in range(recording.plan.topology.planes):
        shares = [planes[plane] / sum(planes) if sum(planes) else None for planes in sent]
        yield Series(f"plane {plane}", _middles(readings, recording), shares)


def _losses(readings: Sequence[Reading], recording: Recording) -> Iterable[Series]:
    for name, count in LOSSES.items():
        paces = [count(each) * 1e9 / each.duration_ns for each in intervals(readings)]
        yield Series(name, _middles(readings, recording), paces)


def _steps(workloads: Sequence[PlannedWorkload], recording: Recording) -> Iterable[Series]:
    for workload in workloads:
        operations = recording.operations.get(workload.name, ())
        slowest = list(slowest_of_each(operations, _DOTS_MAX, lambda each: each.step_ns))
        ends = [float(recording.relative_ns(each.end_ns)) for each in slowest]
        yield Series(
            workload.name if len(workloads) > 1 else "", ends, [float(each.step_ns) for each in slowest]
        )


def _operations_per_second(
    workloads: Sequence[PlannedWorkload], every_ns: int, recording: Recording
) -> Iterable[Series]:
    start_ns, last_ns = recording.readings[0].time_ns, recording.readings[-1].time_ns
    zero_ns = start_ns - recording.relative_ns(start_ns)
    first = -(-(start_ns - zero_ns) // every_ns)
    edges_ns = [zero_ns + k * every_ns for k in range(first, (last_ns - zero_ns) // every_ns + 1)]
    spans = [Span(low_ns, high_ns) for low_ns, high_ns in pairwise(edges_ns)]
    for workload in workloads:
        found = [OperationsOfSpan.of(recording, workload.name, span, with_overlapping=True) for span in spans]
        yield Series(
            workload.name if len(workloads) > 1 else "",
            [(span.start_ns + span.end_ns) / 2 - zero_ns for span in spans],
            [each.per_second() if len(each) else None for each in found],
        )


def _per_flow(workloads: Sequence[PlannedWorkload], recording: Recording) -> dict[str, dict[str, float]]:
    """Workload -> flow -> goodput over the workload's measured time."""
    bars: dict[str, dict[str, float]] = {}
    for workload in workloads:
        try:
            rates = recording.flow_rates_bps(workload.name, recording.workload_span(workload.name))
        except NotMeasured:
            continue
        name = workload.name if len(workloads) > 1 else ""
        bars[name] = {_flow_name(flow, workload): rate for flow, rate in rates.items()}
    return bars


def _by_size(workloads: Sequence[PlannedWorkload], recording: Recording) -> dict[str, dict[int, float]]:
    """Kind of workload -> message size -> bus bandwidth or goodput over its measured time."""
    values: dict[str, dict[int, float]] = {}
    for workload in workloads:
        quantity = "goodput" if workload.collective is None else "busbw"
        try:
            value = Measurement(recording).measure(parse_quantity(f"{quantity}({workload.name})"))
        except NotMeasured:
            continue
        values.setdefault(workload.kind, {})[workload.size_bytes] = value
    return values
