"""What the panels of a report show: values over time from the readings of a run. Pure.

Long runs are thinned by joining neighbouring intervals, which is exact for rates and for percentiles:
histograms are added, never averaged.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agents.abi import EvState
from testbed.metrics.histogram import Histogram, merge
from testbed.metrics.series import Interval, QueueGroup, Reading, add_hosts
from testbed.scenario.measure.recording import NotMeasured, Recording
from testbed.scenario.measure.series import EV_STATES, intervals, workload_goodput_bps
from testbed.scenario.report.axis import linear_axis
from testbed.scenario.report.line_rate import line_rate
from testbed.scenario.report.panel_drawing import Band, Frame, Lane, Panel, Series, Values
from testbed.scenario.spec.plan import Plan
from testbed.shown import format_count, format_frequency, format_rate, format_size, format_time

POINTS_MAX = 480
_SHORTEST_SHARE = 5  # of the usual interval: readings at edges of faults
"""Shorter intervals, as between the reading at a fault's edge and the next regular one, are joined with the
next: a rate over two milliseconds is noise."""

_SENDERS_SHOWN_MAX = 6
_QUEUE_NAMES: dict[QueueGroup, str] = {
    "nic": "NICs",
    "t0_down": "T0 to hosts",
    "t0_up": "T0 to T1",
    "t1": "T1 to T0",
}
_RATIOS = (0.5, 0.99, 0.999)
_EV_STYLES = ((EvState.ASSUMED_BAD, "bad"), (EvState.DENIED, "denied"), (EvState.SKIP, "skip"))
_RATIO_NAMES = ("p50", "p99", "p99.9")


def build_frame(recording: Recording, shown: Sequence[Interval]) -> Frame:
    """The time axis of a run and the bands of its faults; *shown* has at least one interval."""
    edges = [recording.relative_ns(each.start_ns) for each in shown[:1]]
    edges += [recording.relative_ns(each.end_ns) for each in shown]
    end_ns = _end_ns(recording)
    bands = []
    for fault in recording.plan.faults:
        periods = tuple(
            (
                float(recording.relative_ns(occurrence.applied.before_ns)),
                float(
                    end_ns
                    if occurrence.cleared is None
                    else recording.relative_ns(occurrence.cleared.after_ns)
                ),
            )
            for occurrence in recording.occurrences(fault.fault_id)
        )
        if periods:
            bands.append(Band(fault.fault_id, periods[0][0], periods[-1][1], periods))
    axis = linear_axis(edges[0], max(edges[-1], end_ns), 10, is_tight=True)
    return Frame(tuple(edges), axis, tuple(bands), end_ns)


def shown_intervals(readings: Sequence[Reading], usual_ns: int) -> list[Interval]:
    """Intervals between readings, at most about POINTS_MAX; readings are usually *usual_ns* apart."""
    if len(readings) < 2:
        return []
    length_ns = readings[-1].time_ns - readings[0].time_ns
    spacing_ns = max(usual_ns // _SHORTEST_SHARE, length_ns // POINTS_MAX)
    kept = [readings[0]]
    for reading in readings[1:]:
        if reading.time_ns - kept[-1].time_ns >= spacing_ns:
            kept.append(reading)
    if kept[-1] is not readings[-1]:
        kept[max(1, len(kept) - 1) :] = [readings[-1]]
    return list(intervals(kept))


def build_panels(recording: Recording, shown: Sequence[Interval]) -> tuple[Panel, ...]:
    """The panels of a report, most telling first."""
    plan = recording.plan
    panels = [
        _goodput(recording, shown),
        _latency("rtt", "Packet RTT", "RTT", shown, lambda each: merge(each.packet_rtt)),
        _ev_states(plan, shown),
        _planes(plan, shown),
        _latency("message", "Message completion time", "time", shown, lambda each: each.message_completion),
        _losses(shown),
    ]
    if plan.topology.is_shaped:
        panels += [_queues(shown), _signals(shown)]
    if plan.topology.flow_control != "none":
        panels.append(_paused(shown))
    senders = _senders(plan, shown)
    return (*panels, senders) if len(senders.series) > 1 else tuple(panels)


def _goodput(recording: Recording, shown: Sequence[Interval]) -> Panel:
    series = [Series("all senders", "c0", [_rate(each, _acked(each)) for each in shown])]
    if len(recording.plan.workloads) > 1:
        series += [
            Series(
                workload.name,
                f"c{1 + index % 5}",
                [_workload_rate(recording, workload.name, each) for each in shown],
            )
            for index, workload in enumerate(recording.plan.workloads)
        ]
    note = "Payload acknowledged for the first time; retransmissions do not count."
    limit = line_rate(recording.plan.topology, _senders_of(recording.plan))
    return Panel("goodput", "Goodput", "goodput", note, "lines", tuple(series), format_rate, limit=limit)


def _workload_rate(recording: Recording, workload: str, each: Interval) -> int | None:
    """Goodput of a workload in an interval; where flows were not read twice, with its two neighbours."""
    rate = workload_goodput_bps(recording, workload, each)
    if rate is not None:
        return rate
    length_ns = each.end_ns - each.start_ns
    wider = replace(each, start_ns=each.start_ns - length_ns, end_ns=each.end_ns + length_ns)
    return workload_goodput_bps(recording, workload, wider)


def _senders(plan: Plan, shown: Sequence[Interval]) -> Panel:
    hosts = _senders_of(plan)
    rates = {host: [_rate(each, each.hosts[host].acknowledged_bytes) for each in shown] for host in hosts}
    if len(hosts) <= _SENDERS_SHOWN_MAX:
        series = [Series(host, f"c{index % 6}", rates[host]) for index, host in enumerate(hosts)]
        note = "One line per sending host."
    else:
        columns = [sorted(column) for column in zip(*rates.values(), strict=True)]
        ranks = (("fastest", -1), ("median", len(hosts) // 2), ("slowest", 0))
        series = [
            Series(name, f"c{index}", [column[rank] for column in columns])
            for index, (name, rank) in enumerate(ranks)
        ]
        note = f"The fastest, the median and the slowest of {len(hosts)} sending hosts in each interval."
    limit = line_rate(plan.topology, hosts[:1])
    return Panel(
        "senders", "Goodput by sender", "goodput", note, "lines", tuple(series), format_rate, limit=limit
    )


def _senders_of(plan: Plan) -> list[str]:
    return list(dict.fromkeys(host for workload in plan.workloads for host in workload.sources))


def _latency(
    key: str, title: str, quantity: str, shown: Sequence[Interval], pick: Callable[[Interval], Histogram]
) -> Panel:
    rows = [pick(each).percentiles_ns(_RATIOS) for each in shown]
    series = tuple(
        Series(name, f"c{index}", [None if row is None else row[index] for row in rows])
        for index, name in enumerate(_RATIO_NAMES)
    )
    note = "Percentiles of all times recorded in each interval; logarithmic scale."
    return Panel(key, title, quantity, note, "log-lines", series, format_time)


def _ev_states(plan: Plan, shown: Sequence[Interval]) -> Panel:
    """A lane per plane, as high as the plane has EVs: what is not covered is GOOD."""

    def in_states(planes: Sequence[int]) -> tuple[Series, ...]:
        return tuple(
            Series(
                state.name,
                style,
                [float(sum(each.ev_states.get((plane, state), 0) for plane in planes)) for each in shown],
            )
            for state, style in _EV_STYLES
        )

    planes = range(plan.topology.planes)
    lanes = []
    for plane in planes:
        total = max(
            (sum(each.ev_states.get((plane, state), 0) for state in EV_STATES) for each in shown), default=0
        )
        lanes.append(Lane(f"plane {plane}", float(max(1, total)), in_states([plane])))
    note = "Share of each plane's EVs that carry no data, stacked by state; the rest is GOOD."
    return Panel(
        "evs",
        "EV states by plane",
        "share of EVs",
        note,
        "lanes",
        in_states(planes),
        format_count,
        tuple(lanes),
    )


def _planes(plan: Plan, shown: Sequence[Interval]) -> Panel:
    series = tuple(
        Series(f"plane {plane}", f"c{plane % 6}", [_rate(each, each.plane_tx_bytes[plane]) for each in shown])
        for plane in range(plan.topology.planes)
    )
    note = "Everything that hosts send into each plane, headers and retransmissions included."
    limit = line_rate(plan.topology, _senders_of(plan), plane=0)
    return Panel("planes", "Sent by plane", "sent", note, "lines", series, format_rate, limit=limit)


def _per_second(shown: Sequence[Interval], count: Callable[[Interval], int]) -> Values:
    return [count(each) * 1e9 / (each.end_ns - each.start_ns) for each in shown]


def _losses(shown: Sequence[Interval]) -> Panel:
    series = (
        Series(
            "dropped by faults",
            "c0",
            _per_second(shown, lambda each: each.port_drops["link_down"] + each.port_drops["loss"]),
        ),
        Series(
            "dropped by full queues",
            "c1",
            _per_second(shown, lambda each: each.port_drops["queue_full"] + each.port_drops["pool_empty"]),
        ),
        Series("retransmitted", "c2", _per_second(shown, _retransmits)),
    )
    note = "Dropped EV probes are among the drops."
    return Panel("losses", "Drops and retransmissions", "packets", note, "lines", series, format_frequency)


def _queues(shown: Sequence[Interval]) -> Panel:
    series = tuple(
        Series(name, f"c{index}", [each.deepest_queue_bytes.get(group) for each in shown])
        for index, (group, name) in enumerate(_QUEUE_NAMES.items())
    )
    note = "Data queued at the port that has most of it, at the moment of each reading."
    return Panel("queues", "Peak queue depth", "queued", note, "lines", series, format_size)


def _signals(shown: Sequence[Interval]) -> Panel:
    series = (
        Series("marked (ECN)", "c0", _per_second(shown, lambda each: each.ecn_marks)),
        Series("trimmed", "c1", _per_second(shown, lambda each: each.trims)),
    )
    note = "Packets that ports marked or cut to their headers, over all ports."
    return Panel("signals", "Congestion signals", "packets", note, "lines", series, format_frequency)


def _paused(shown: Sequence[Interval]) -> Panel:
    def ports_held(held_ns: Callable[[Interval], int]) -> Values:
        return [held_ns(each) / (each.end_ns - each.start_ns) for each in shown]

    series = (
        Series("paused", "c0", ports_held(lambda each: each.flow.paused_ns)),
        Series("without credit", "c1", ports_held(lambda each: each.flow.stalled_ns)),
    )
    note = "Ports that flow control kept from sending, on average over each interval."
    return Panel("held", "Paused ports", "ports", note, "lines", series, format_count)


def _acked(each: Interval) -> int:
    return add_hosts(each.hosts.values()).acknowledged_bytes


def _retransmits(each: Interval) -> int:
    return add_hosts(each.hosts.values()).retransmits


def _rate(each: Interval, byte_count: int) -> float:
    return byte_count * 8e9 / (each.end_ns - each.start_ns)


def _end_ns(recording: Recording) -> int:
    """End of what was measured, on the run's axis."""
    try:
        return recording.relative_ns(recording.measured_span().end_ns)
    except NotMeasured:
        return recording.relative_ns(recording.readings[-1].time_ns) if recording.readings else 0
