"""Panels of a report: values over time from the readings of a run. Pure.

Long runs are thinned by joining neighbouring intervals, which is exact for rates and for percentiles:
histograms are added, never averaged.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mrc_agents.abi import EvState
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.series import EV_STATES, Interval, QueueGroup, Reading
from mrc_testbed.report.chart import SECONDS, Axis, Band, Chart, Lane, ReferenceLine, Series, Values
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.scenario.measure.series_rows import intervals, workload_goodput_bps
from mrc_testbed.scenario.spec.plan import reading_interval_ns
from mrc_testbed.shown import format_count, format_frequency, format_rate, format_size, format_time
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

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
_SHOWN_STATES = (EvState.ASSUMED_BAD, EvState.DENIED, EvState.SKIP)
_RATIO_NAMES = ("p50", "p99", "p99.9")

TIME_TITLE: Final = "time since the end of warm-up"


def line_rate(spec: TopologySpec, hosts: Collection[str], plane: int | None = None) -> ReferenceLine | None:
    """Rate at which the NICs of *hosts* can send together; None where ports have no rate.

    Args:
        plane: counts alone; None: all of them.
    """
    clos = resolve_topology(spec)
    rates_bps = port_rates_bps(clos)
    ports = [
        port
        for host in clos.hosts()
        if host.name in hosts
        for port in clos.ports_of(host)
        if plane in (None, port.plane)
    ]
    total_bps = sum(rates_bps[port.id] for port in ports)
    return ReferenceLine("line rate", float(total_bps)) if total_bps else None


def time_axis(recording: Recording, shown: Sequence[Interval]) -> Axis:
    """The time axis of a run with its faults; *shown* has at least one interval."""
    start_ns, last_ns = (float(recording.relative_ns(each)) for each in (shown[0].start_ns, shown[-1].end_ns))
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
            bands.append(Band(fault.fault_id, periods))
    return Axis(
        TIME_TITLE, SECONDS, start_ns, max(last_ns, end_ns), bands=tuple(bands), measured=(0.0, float(end_ns))
    )


def shown_intervals(readings: Sequence[Reading], usual_ns: int) -> list[Interval]:
    """Intervals between readings, at most about POINTS_MAX; readings are at most *usual_ns* apart."""
    if len(readings) < 2:
        return []
    length_ns = readings[-1].time_ns - readings[0].time_ns
    usual_ns = min(usual_ns, reading_interval_ns(length_ns))
    spacing_ns = max(usual_ns // _SHORTEST_SHARE, length_ns // POINTS_MAX)
    kept = [readings[0]]
    for reading in readings[1:]:
        if reading.time_ns - kept[-1].time_ns >= spacing_ns:
            kept.append(reading)
    if kept[-1] is not readings[-1]:
        kept[max(1, len(kept) - 1) :] = [readings[-1]]
    return list(intervals(kept))


def build_panels(recording: Recording, shown: Sequence[Interval]) -> tuple[Chart, ...]:
    """The panels of a report, most telling first; none where nothing was read."""
    if not shown:
        return ()
    plan, panels = recording.plan, _Panels(recording, shown)
    found = [
        panels.goodput(),
        panels.latency("rtt", "Packet RTT", "RTT", lambda each: merge(each.packet_rtt)),
        panels.ev_states(),
        panels.planes(),
        panels.latency("message", "Message completion time", "time", lambda each: each.message_completion),
        panels.losses(),
    ]
    if plan.topology.is_shaped:
        found += [panels.queues(), panels.signals()]
    if plan.topology.flow_control != "none":
        found.append(panels.paused())
    senders = panels.senders()
    return (*found, senders) if len(senders.series) > 1 else tuple(found)


class _Panels:
    """Charts of what was read in each of the shown intervals."""

    def __init__(self, recording: Recording, shown: Sequence[Interval]) -> None:
        self._recording, self._plan, self._shown = recording, recording.plan, shown
        self._time = time_axis(recording, shown)
        edges = (shown[0].start_ns, *(each.end_ns for each in shown))
        self._edges = tuple(float(recording.relative_ns(edge)) for edge in edges)
        workloads = recording.plan.workloads
        self._hosts = list(dict.fromkeys(host for workload in workloads for host in workload.sources))

    def _each(self, value: Callable[[Interval], float | None]) -> Values:
        return [value(each) for each in self._shown]

    def _per_second(self, counts: Mapping[str, Callable[[Interval], int]]) -> dict[str, Values]:
        return {
            name: [count(each) * 1e9 / (each.end_ns - each.start_ns) for each in self._shown]
            for name, count in counts.items()
        }

    def _steps(
        self,
        key: str,
        title: str,
        y: Axis,
        curves: Mapping[str, Values],
        note: str,
        limit: ReferenceLine | None = None,
    ) -> Chart:
        series = [Series(name, self._edges, values) for name, values in curves.items()]
        return Chart(title, "steps", self._time, y, series, key, note, limit)

    def goodput(self) -> Chart:
        curves = {"all senders": self._each(lambda each: _rate(each, each.hosts.total().acknowledged_bytes))}
        workloads = self._plan.workloads if len(self._plan.workloads) > 1 else ()
        for workload in workloads:
            if workload.program is not None:
                continue
            curves[workload.name] = [
                _workload_rate(self._recording, workload.name, each) for each in self._shown
            ]
        note = "Payload acknowledged for the first time; retransmissions do not count."
        limit = line_rate(self._plan.topology, self._hosts)
        return self._steps("goodput", "Goodput", Axis("goodput", format_rate), curves, note, limit)

    def senders(self) -> Chart:
        sent = zip(*(each.hosts.column("acknowledged_bytes") for each in self._shown), strict=True)
        sent_by = dict(zip(self._shown[0].hosts, sent, strict=True))
        rates: dict[str, Values] = {
            host: list(map(_rate, self._shown, sent_by[host])) for host in self._hosts
        }
        note = "One line per sending host."
        if len(rates) > _SENDERS_SHOWN_MAX:
            columns = [sorted(column) for column in zip(*rates.values(), strict=True)]
            ranks = (("fastest", -1), ("median", len(rates) // 2), ("slowest", 0))
            note = f"The fastest, the median and the slowest of {len(rates)} sending hosts in each interval."
            rates = {name: [column[rank] for column in columns] for name, rank in ranks}
        limit = line_rate(self._plan.topology, self._hosts[:1])
        return self._steps("senders", "Goodput by sender", Axis("goodput", format_rate), rates, note, limit)

    def latency(self, key: str, title: str, quantity: str, pick: Callable[[Interval], Histogram]) -> Chart:
        rows = [pick(each).percentiles_ns(_RATIOS) for each in self._shown]
        curves = {
            name: [None if row is None else row[index] for row in rows]
            for index, name in enumerate(_RATIO_NAMES)
        }
        known = [value for row in rows if row is not None for value in row]
        axis = Axis(quantity, format_time, is_log=bool(known) and min(known) > 0)
        note = "Percentiles of all times recorded in each interval; logarithmic scale."
        return self._steps(key, title, axis, curves, note)

    def ev_states(self) -> Chart:
        """A lane per plane, as high as the plane has EVs: what is not covered is GOOD."""

        def counted(planes: Sequence[int], states: Sequence[EvState]) -> list[float]:
            wanted = [(plane, state) for plane in planes for state in states]
            return [float(sum(each.ev_states.get(one, 0) for one in wanted)) for each in self._shown]

        def in_states(planes: Sequence[int]) -> tuple[Series, ...]:
            return tuple(Series(state.name, self._edges, counted(planes, [state])) for state in _SHOWN_STATES)

        planes = range(self._plan.topology.planes)
        lanes = tuple(
            Lane(f"plane {plane}", max(1.0, *counted([plane], EV_STATES)), in_states([plane]))
            for plane in planes
        )
        note = "Share of each plane's EVs that carry no data, stacked by state; the rest is GOOD."
        axis = Axis("share of EVs", format_count)
        series = in_states(planes)
        return Chart("EV states by plane", "lanes", self._time, axis, series, "evs", note, lanes=lanes)

    def planes(self) -> Chart:
        curves = {
            f"plane {plane}": [_rate(each, each.plane_tx_bytes[plane]) for each in self._shown]
            for plane in range(self._plan.topology.planes)
        }
        note = "Everything that hosts send into each plane, headers and retransmissions included."
        limit = line_rate(self._plan.topology, self._hosts, plane=0)
        return self._steps("planes", "Sent by plane", Axis("sent", format_rate), curves, note, limit)

    def losses(self) -> Chart:
        axis, curves = Axis("per second", format_frequency), self._per_second(LOSSES)
        note = "EV probes are frames too, which nobody retransmits."
        return self._steps("losses", "Frames dropped and packets retransmitted", axis, curves, note)

    def queues(self) -> Chart:
        has_t2s = len(self._plan.topology.numbering.tiers) > 2
        curves = {
            name: [each.deepest_queue_bytes.get(group) for each in self._shown]
            for group, name in (_QUEUE_NAMES | ({"t1": "T1s and T2s"} if has_t2s else {})).items()
        }
        note = "Data queued at the port that has most of it, at the moment of each reading."
        return self._steps("queues", "Peak queue depth", Axis("queued", format_size), curves, note)

    def signals(self) -> Chart:
        counts = {"marked (ECN)": lambda each: each.ecn_marks, "trimmed": lambda each: each.trims}
        axis, curves = Axis("packets", format_frequency), self._per_second(counts)
        note = "Packets that ports marked or cut to their headers, over all ports."
        return self._steps("signals", "Congestion signals", axis, curves, note)

    def paused(self) -> Chart:
        curves = {
            "paused": self._each(lambda each: each.flow.paused_ns / (each.end_ns - each.start_ns)),
            "without credit": self._each(lambda each: each.flow.stalled_ns / (each.end_ns - each.start_ns)),
        }
        note = "Ports that flow control kept from sending, on average over each interval."
        return self._steps("held", "Paused ports", Axis("ports", format_count), curves, note)


def _workload_rate(recording: Recording, workload: str, each: Interval) -> int | None:
    """Goodput of a workload in an interval; where flows were not read twice, with its two neighbours."""
    rate = workload_goodput_bps(recording, workload, each)
    if rate is not None:
        return rate
    length_ns = each.end_ns - each.start_ns
    wider = replace(each, start_ns=each.start_ns - length_ns, end_ns=each.end_ns + length_ns)
    return workload_goodput_bps(recording, workload, wider)


LOSSES: Final[dict[str, Callable[[Interval], int]]] = {
    "frames dropped by faults": lambda each: each.port_drops["link_down"] + each.port_drops["loss"],
    "frames dropped by full queues": lambda each: (
        each.port_drops["queue_full"] + each.port_drops["pool_empty"]
    ),
    "packets retransmitted": lambda each: each.hosts.total().retransmits,
}
"""Frames that did not arrive, and packets that were sent again: name -> count in an interval."""


def _rate(each: Interval, byte_count: int) -> float:
    return byte_count * 8e9 / (each.end_ns - each.start_ns)


def _end_ns(recording: Recording) -> int:
    """End of what was measured, on the run's axis."""
    try:
        return recording.relative_ns(recording.measured_span().end_ns)
    except NotMeasured:
        return recording.relative_ns(recording.readings[-1].time_ns) if recording.readings else 0
