"""What the panels of a report show: values over time from the readings of a run. Pure.

Long runs are thinned by joining neighbouring intervals, which is exact for rates and for percentiles:
histograms are added, never averaged.
"""

from collections.abc import Callable, Sequence

from agents.wire_abi import EvState
from testbed.metrics.histogram import Histogram, merge
from testbed.metrics.series import Interval, Reading, add_hosts
from testbed.scenario.plan import Plan
from testbed.scenario.recording import NotMeasured, Recording
from testbed.scenario.report_axis import format_count, format_frequency, format_rate, format_time, linear_axis
from testbed.scenario.report_figure import Band, Frame, Panel, Series, Values
from testbed.scenario.series import intervals

POINTS_MAX = 480
_INTERVAL_MIN_NS = 20_000_000
"""Shorter intervals, as between the reading at a fault's edge and the next regular one, are joined with the
next: a rate over two milliseconds is noise."""

_RATIOS = (0.5, 0.99, 0.999)
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


def shown_intervals(readings: Sequence[Reading]) -> list[Interval]:
    """What happened between readings, in at most about POINTS_MAX intervals."""
    if len(readings) < 2:
        return []
    length_ns = readings[-1].time_ns - readings[0].time_ns
    spacing_ns = max(_INTERVAL_MIN_NS, length_ns // POINTS_MAX)
    kept = [readings[0]]
    for reading in readings[1:]:
        if reading.time_ns - kept[-1].time_ns >= spacing_ns:
            kept.append(reading)
    if kept[-1] is not readings[-1]:
        kept[max(1, len(kept) - 1) :] = [readings[-1]]
    return list(intervals(kept))


def build_panels(plan: Plan, shown: Sequence[Interval]) -> tuple[Panel, ...]:
    """The panels of a report, most telling first."""
    panels = (
        _goodput(plan, shown),
        _latency("rtt", "Packet RTT", shown, lambda each: merge(each.packet_rtt)),
        _ev_states(shown),
        _planes(plan, shown),
        _latency("message", "Message completion time", shown, lambda each: each.message_completion),
        _losses(shown),
    )
    senders = _senders(plan, shown)
    return (*panels, senders) if len(senders.series) > 1 else panels


def _goodput(plan: Plan, shown: Sequence[Interval]) -> Panel:
    series = [Series("all senders", "c0", [_rate(each, _acked(each)) for each in shown])]
    if len(plan.workloads) > 1:
        series += [
            Series(
                workload.name,
                f"c{1 + index % 5}",
                [
                    _rate(each, sum(each.hosts[host].acknowledged_bytes for host in workload.sources))
                    for each in shown
                ],
            )
            for index, workload in enumerate(plan.workloads)
        ]
    note = "Payload acknowledged for the first time; retransmissions do not count."
    return Panel("goodput", "Goodput", note, "lines", tuple(series), format_rate)


def _senders(plan: Plan, shown: Sequence[Interval]) -> Panel:
    hosts = dict.fromkeys(host for workload in plan.workloads for host in workload.sources)
    series = tuple(
        Series(host, f"c{index % 6}", [_rate(each, each.hosts[host].acknowledged_bytes) for each in shown])
        for index, host in enumerate(hosts)
    )
    return Panel("senders", "Goodput by sender", "One line per sending host.", "lines", series, format_rate)


def _latency(key: str, title: str, shown: Sequence[Interval], pick: Callable[[Interval], Histogram]) -> Panel:
    rows = [pick(each).percentiles_ns(_RATIOS) for each in shown]
    series = tuple(
        Series(name, f"c{index}", [None if row is None else row[index] for row in rows])
        for index, name in enumerate(_RATIO_NAMES)
    )
    note = "Percentiles of all times recorded in each interval; logarithmic scale."
    return Panel(key, title, note, "log-lines", series, format_time)


def _ev_states(shown: Sequence[Interval]) -> Panel:
    total = max((sum(each.ev_states.values()) for each in shown), default=0)
    series = tuple(
        Series(state.name, style, [float(_in_state(each, state)) for each in shown])
        for state, style in ((EvState.ASSUMED_BAD, "bad"), (EvState.DENIED, "denied"), (EvState.SKIP, "skip"))
    )
    note = f"EVs that carry no data, stacked by state. The rest of the {total} EVs is GOOD."
    return Panel("evs", "EV states", note, "areas", series, format_count)


def _planes(plan: Plan, shown: Sequence[Interval]) -> Panel:
    series = tuple(
        Series(f"plane {plane}", f"c{plane % 6}", [_rate(each, each.plane_tx_bytes[plane]) for each in shown])
        for plane in range(plan.topology.planes)
    )
    note = "Everything that hosts send into each plane, headers and retransmissions included."
    return Panel("planes", "Sent by plane", note, "lines", series, format_rate)


def _losses(shown: Sequence[Interval]) -> Panel:
    def per_second(each: Interval, count: int) -> float:
        return count * 1e9 / (each.end_ns - each.start_ns)

    def values(count: Callable[[Interval], int]) -> Values:
        return [per_second(each, count(each)) for each in shown]

    series = (
        Series(
            "lost to faults",
            "c0",
            values(lambda each: each.port_drops["link_down"] + each.port_drops["loss"]),
        ),
        Series(
            "lost to full queues",
            "c1",
            values(lambda each: each.port_drops["queue_full"] + each.port_drops["pool_empty"]),
        ),
        Series("sent again", "c2", values(_retransmits)),
    )
    note = "Packets per second; lost EV probes are among the lost."
    return Panel("losses", "Losses and retransmissions", note, "lines", series, format_frequency)


def _acked(each: Interval) -> int:
    return add_hosts(each.hosts.values()).acknowledged_bytes


def _retransmits(each: Interval) -> int:
    total = add_hosts(each.hosts.values())
    return total.retransmits_sack + total.retransmits_timeout


def _rate(each: Interval, byte_count: int) -> float:
    return byte_count * 8e9 / (each.end_ns - each.start_ns)


def _in_state(each: Interval, wanted: EvState) -> int:
    return sum(count for (_, state), count in each.ev_states.items() if state is wanted)


def _end_ns(recording: Recording) -> int:
    """End of what was measured, on the run's axis."""
    try:
        return recording.relative_ns(recording.measured_span().end_ns)
    except NotMeasured:
        return recording.relative_ns(recording.readings[-1].time_ns) if recording.readings else 0
