"""The time series of a run as rows: one per reading, what happened since the reading before. Pure.

Rates are over the time between the two readings, percentiles over the times recorded in it; a cell is
empty when nothing was recorded.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from mrc_testbed.metrics.series import EV_STATES, QUEUE_GROUPS, Interval, Reading, summarize
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording, Span
from mrc_testbed.scenario.spec.plan import Plan

Cell = int | float | None


def series_columns(plan: Plan) -> tuple[str, ...]:
    """Names of the columns for a run of *plan*; the unit is the end of the name.

    time_ns is the later end of the interval on the run's axis; counts are of the interval.
    """
    spec = plan.topology
    planes = range(spec.planes)
    return (
        "time_ns",
        "interval_ns",
        "goodput_bps",
        *(f"goodput_h{host}_bps" for host in range(spec.numbering.host_count)),
        *(f"rtt_{name}_ns" for name in ("p50", "p99", "p999", "max")),
        *(f"rtt_{name}_plane{plane}_ns" for plane in planes for name in ("p50", "p99", "p999")),
        *(f"message_{name}_ns" for name in ("p50", "p99", "p999", "max")),
        "messages",
        "retransmits_sack",
        "retransmits_timeout",
        "retransmits_nack",
        "retransmits_ack",
        "retransmits_tail",
        "qp_errors",
        "link_down_drops",
        "loss_drops",
        "queue_drops",
        *(f"tx_plane{plane}_bytes" for plane in planes),
        *(f"ev_{state.name.lower()}_plane{plane}" for plane in planes for state in EV_STATES),
        "cpu_busy_max_ratio",
        "ecn_marks",
        "trims",
        *(f"queue_{group}_max_bytes" for group in QUEUE_GROUPS),
        *(f"goodput_of_{workload.name}_bps" for workload in plan.workloads if workload.flows),
    )


def series_row(recording: Recording, interval: Interval) -> tuple[Cell, ...]:
    """The values of one interval, in the order of `series_columns`.

    Args:
        interval: between two of its readings.
    """
    plan, end_ns = recording.plan, recording.relative_ns(interval.end_ns)
    length_ns = interval.duration_ns
    total = interval.hosts.total()
    row: list[Cell] = [end_ns, length_ns, _bps(total.acknowledged_bytes, length_ns)]
    row += [_bps(acked, length_ns) for acked in interval.hosts.column("acknowledged_bytes")]
    rtt, message = interval.packet_rtt_overall(), summarize(interval.message_completion)
    row += [rtt.p50_ns, rtt.p99_ns, rtt.p999_ns, rtt.max_ns] if rtt else [None] * 4
    for plane in interval.packet_rtt:
        latency = summarize(plane)
        row += [latency.p50_ns, latency.p99_ns, latency.p999_ns] if latency else [None] * 3
    row += [message.p50_ns, message.p99_ns, message.p999_ns, message.max_ns] if message else [None] * 4
    row += [total.messages, total.retransmits_sack, total.retransmits_timeout, total.retransmits_nack]
    row += [total.retransmits_ack, total.retransmits_tail, total.qp_errors]
    drops = interval.port_drops
    row += [drops["link_down"], drops["loss"], drops["queue_full"] + drops["pool_empty"]]
    row += interval.plane_tx_bytes
    row += [
        interval.ev_states.get((plane, state), 0)
        for plane in range(plan.topology.planes)
        for state in EV_STATES
    ]
    row.append(max((cpu.busy_ratio for cpu in interval.cpu_use), default=None))
    row += [interval.ecn_marks, interval.trims]
    row += [interval.deepest_queue_bytes.get(group) for group in QUEUE_GROUPS]
    sending = (workload.name for workload in plan.workloads if workload.flows)
    row += [workload_goodput_bps(recording, name, interval) for name in sending]
    return tuple(row)


def workload_goodput_bps(recording: Recording, workload: str, interval: Interval) -> int | None:
    """Payload of a workload acknowledged for the first time in an interval, bit/s, by its QPs' counts.

    None where flows were not read twice, as between some readings of thousands of flows.
    """
    try:
        rates = recording.flow_rates_bps(workload, Span(interval.start_ns, interval.end_ns))
    except NotMeasured:
        return None
    return round(sum(rates.values()))


def intervals(readings: Sequence[Reading]) -> Iterator[Interval]:
    """The interval between each two neighbouring readings; two of the same instant are one."""
    for earlier, later in pairwise(readings):
        if later.time_ns > earlier.time_ns:
            yield later.since(earlier)


def format_row(row: Sequence[Cell]) -> str:
    """A line of series.csv, without its end: integers exact, fractions to six digits, nothing for None."""
    return ",".join(_cell(value) for value in row)


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _bps(byte_count: int, length_ns: int) -> int:
    return round(byte_count * 8e9 / length_ns)
