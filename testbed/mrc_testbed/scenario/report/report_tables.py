"""The tables of a report; that of expectations has what was measured as a bar, its limit as a mark. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from markupsafe import Markup

from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.series import summarize
from mrc_testbed.report.page import part
from mrc_testbed.report.table import Table, TableCell
from mrc_testbed.scenario.measure.expectation import (
    Answer,
    answer_of,
    comparison_unit,
    format_measured,
    format_value,
)
from mrc_testbed.scenario.measure.recording import NotMeasured
from mrc_testbed.scenario.measure.recovery import Recovery, RecoveryPhase
from mrc_testbed.scenario.report.result import RunResult
from mrc_testbed.scenario.report.result_text import (
    RECOVERY_COLUMNS,
    collective_rows,
    describe_clock_step,
    format_phase,
    recovery_counts,
)
from mrc_testbed.scenario.spec.expression import parse_expectation, parse_quantity
from mrc_testbed.scenario.spec.expression_tree import Comparison
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.scenario.spec.timeline import format_instant
from mrc_testbed.shown import format_count, format_rate, format_share, format_size, format_time
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.port_selection import other_rates
from mrc_testbed.topology.resolve import resolve_topology

_LINKS_SHOWN_MAX: Final = 6
_FLOWS_OPEN_MAX: Final = 16
"""Up to this many flows the table is open when the page is."""

_DASH: Final = "\u2013"

_FULL: Final = 180
"""Length of the bar of the larger of both sides."""

_MARKS: Final[dict[Answer, tuple[str, str]]] = {
    "held": ("good", "\u2713"),
    "failed": ("bad", "\u2717"),
    "cannot tell": ("warn", "?"),
}
_SIGNS: Final = {"<": "<", "<=": "\u2264", ">": ">", ">=": "\u2265", "==": "=", "!=": "\u2260"}


def alerts(result: RunResult) -> list[tuple[str, str]]:
    """Style and text of each: why the run did not end as planned, or is not to be trusted."""
    verdict = result.verdict
    shown = [("warn", f"Not trusted: {reason}.") for reason in verdict.untrusted]
    if verdict.is_trusted and verdict.late:
        late = "; ".join(verdict.late)
        shown.append(("warn", f"Late: {late}. Figures that no expectation is about may be off."))
    if verdict.status.value in ("error", "aborted", "interrupted"):
        shown.insert(0, ("bad", f"The run did not come to its end: {verdict.reason}."))
    errors = dict.fromkeys(outcome.error for outcome in result.recording.outcomes if outcome.error)
    return shown + [("bad", f"Flow failed: {error}.") for error in errors]


def tiles(result: RunResult) -> list[tuple[str, str]]:
    """Figures of the run, as tiles."""
    entries: list[tuple[str, str]] = []
    for name, goodput_bps in result.goodput_bps.items():
        label = "Goodput" if len(result.goodput_bps) == 1 else f"Goodput of {name}"
        entries.append((label, _DASH if goodput_bps is None else format_rate(goodput_bps)))
    try:
        whole = result.recording.interval(result.recording.measured_span())
    except NotMeasured:
        whole = None
    if whole is not None:
        rtt = summarize(merge(whole.packet_rtt))
        if rtt is not None:
            entries.append(("RTT p50", format_time(rtt.p50_ns)))
            entries.append(("RTT p99.9", format_time(rtt.p999_ns)))
        retransmits = whole.hosts.total().retransmits
        entries.append(("Retransmits", format_count(retransmits)))
    outcomes = result.recording.outcomes
    if outcomes:
        entries.append(("Messages", format_count(sum(outcome.messages for outcome in outcomes))))
        compared = sum(outcome.compared_bytes for outcome in outcomes)
        wrong = sum(outcome.wrong_bytes for outcome in outcomes)
        entries.append((f"Wrong bytes in {format_size(compared)}", format_count(wrong)))
    return entries


def fault_table(result: RunResult) -> Markup:
    """Each fault: where, when, what it took, and how it was recovered from."""
    rows = [
        _fault_row(result, fault, recovery)
        for fault, recovery in zip(result.plan.faults, result.recoveries, strict=True)
    ]
    header = ("fault", "active", "#times", *(f"#{name}" for name in RECOVERY_COLUMNS))
    return Table(header, rows).html()


def _fault_row(result: RunResult, fault: ScheduledFault, recovery: Recovery) -> tuple[TableCell | str, ...]:
    recording = result.recording
    places = fault.nodes or fault.links
    left_out = len(places) - _LINKS_SHOWN_MAX
    detail = f" {fault.detail}" if fault.detail else ""
    way = "" if fault.direction == "both" else f", {fault.direction}"
    try:
        span = recording.fault_span(fault.fault_id)
        edges_s = (recording.relative_ns(edge) / 1e9 for edge in (span.start_ns, span.end_ns))
        active = " to ".join(f"{edge:.3f}" for edge in edges_s) + " s"
    except NotMeasured:
        active = "never"
    return (
        TableCell(
            fault.fault_id,
            "when",
            is_strong=True,
            notes=(fault.kind + detail + way,),
            codes=tuple(places[:_LINKS_SHOWN_MAX]),
            last=f"and {left_out} more" if left_out > 0 else "",
        ),
        TableCell(active, "when"),
        *recovery_counts(recovery),
        *map(_phase, recovery.phases),
    )


def _phase(phase: RecoveryPhase) -> TableCell:
    text = _DASH if phase.longest_ns is None else format_phase(phase)
    return TableCell(text, notes=(phase.reason,) if phase.reason else ())


def plane_table(result: RunResult) -> Markup:
    """Table of bytes and RTT by plane over the measured time."""
    try:
        whole = result.recording.interval(result.recording.measured_span())
    except NotMeasured:
        return Markup()
    sent_bytes = sum(whole.plane_tx_bytes)
    rows = [
        _plane_row(f"plane {plane}", sent, sent_bytes, histogram)
        for plane, (sent, histogram) in enumerate(zip(whole.plane_tx_bytes, whole.packet_rtt, strict=True))
    ]
    rows.append(_plane_row("all planes", sent_bytes, sent_bytes, merge(whole.packet_rtt)))
    header = ("", "#sent", "#share", "#RTTs", "#RTT p50", "#p90", "#p99", "#p99.9", "#max")
    return Table(header, rows).html()


def _plane_row(name: str, sent: int, all_sent: int, rtt: Histogram) -> tuple[str, ...]:
    share = format_share(sent / all_sent) if all_sent else _DASH
    cells = (name, format_size(sent), share)
    latency = summarize(rtt)
    if latency is None:
        return (*cells, "0", *(_DASH for _ in range(5)))
    return (*cells, format_count(latency.count), *latency.shown())


def transition_table(result: RunResult) -> Markup:
    """Table of EV state changes by reason and plane."""
    planes = range(result.plan.topology.planes)
    counted = Counter(
        (event.before, event.after, event.reason, decode_ev(event.entropy).plane)
        for event in result.recording.ev_transitions()
    )
    kinds = sorted({key[:3] for key in counted})
    rows = []
    for before, after, reason in kinds:
        counts = [counted[before, after, reason, plane] for plane in planes]
        rows.append(
            (
                f"{before.name} \u2192 {after.name}",
                reason,
                *(format_count(count) if count else _DASH for count in counts),
                format_count(sum(counts)),
            )
        )
    columns = ("change", "reason", *(f"#plane {plane}" for plane in planes), "#all")
    return Table(columns, rows).html()


def collective_table(result: RunResult) -> Markup:
    """Table of collectives."""
    header = ("", "kind", "#operations", "#busbw", "#p50", "#p99", "#p99.9", "#max", "#wrong bytes")
    return Table(header, collective_rows(result.collectives, _DASH)).html()


def flow_table(result: RunResult) -> Markup:
    """Table of flows: messages, goodput, wrong bytes."""
    rows = []
    for outcome in result.recording.outcomes:
        length_ns = outcome.end_ns - outcome.start_ns
        goodput = format_rate(outcome.payload_bytes * 8e9 / length_ns) if length_ns > 0 else _DASH
        rows.append(
            (
                outcome.flow.workload,
                f"{outcome.flow.source} \u2192 {outcome.flow.target}",
                str(outcome.qpn),
                format_count(outcome.messages),
                goodput,
                format_size(outcome.compared_bytes),
                format_count(outcome.wrong_bytes),
                TableCell(outcome.error or "ok", "bad" if outcome.error else ""),
            )
        )
    columns = (
        "workload", "flow", "#QP", "#messages", "#goodput, whole run", "#compared", "#wrong bytes", "ended"
    )  # fmt: skip
    flows = Table(columns, rows).html()
    if len(rows) <= _FLOWS_OPEN_MAX:
        return flows
    return part("folded", f"{len(rows)} flows", flows)


def fidelity_table(result: RunResult) -> Markup:
    """Table of the machine's behaviour beside the limits of trust."""
    rows = [
        (
            TableCell("\u2713", "mark good") if finding.reason is None else TableCell("\u2717", "mark bad"),
            finding.what,
            finding.measured,
            finding.limit,
        )
        for finding in result.fidelity
    ]
    return Table(("", "what", "measured", "limit"), rows).html()


def provenance_table(result: RunResult) -> Markup:
    """Table of the run's place and versions."""
    plan, made = result.plan, result.provenance
    spec = plan.topology
    rate = (
        "unshaped"
        if spec.port_rate is None
        else f"{format_rate(spec.port_rate)} ports{other_rates(resolve_topology(spec))}"
    )
    recording = result.recording
    zero_ns = recording.zero_ns
    entries = (
        (
            "Fabric",
            f"{spec.planes} planes x ({spec.numbering.switches_by_tier}), "
            f"{spec.numbering.host_count} hosts, {rate}",
        ),
        ("Transport", f"{plan.transport.describe_paths()}, {plan.transport.congestion.describe()}"),
        *((f"Workload {workload.name}", workload.describe()) for workload in plan.workloads),
        ("Lab", f"{made.lab}, runtime {made.runtime}"),
        (
            "Machine",
            f"{made.cpu} ({made.architecture}), {made.cpu_count} CPUs, {format_size(made.memory_bytes)}",
        ),
        ("Kernel", made.kernel),
        ("Versions", f"mrc-testbed {made.mrc_testbed}, Python {made.python}"),
        ("Time 0", "-" if zero_ns is None else f"end of warm-up, CLOCK_MONOTONIC {format_instant(zero_ns)}"),
        *([("Clock", describe_clock_step(result.clock_step_ns))] if result.clock_step_ns else []),
        ("Latest reading or action", f"{format_time(recording.latest_ns)} after it was due"),
    )
    return Table((), [(TableCell(name, is_heading=True), value) for name, value in entries]).html()


def expectation_table(expectations: Iterable[tuple[str, Mapping[str, Any]]]) -> Markup:
    """A row for each: whether it held, what was measured, and what was asked for.

    Args:
        expectations: as manifests have them, each with the name of its run; empty where there is but one.
    """
    rows = [_row(*each) for each in expectations]
    return Table(("", "expectation", "#measured", "#limit", ""), rows).html()


def _row(run: str, found: Mapping[str, Any]) -> tuple[TableCell | str, ...]:
    answer, text, reason = answer_of(found), found["text"], found["reason"]
    style, sign = _MARKS[answer]
    mark = TableCell(f"{sign} {answer}", f"mark {style}")
    lead = f"{run}: " if run else ""
    if found["left"] is None or found["right"] is None:
        cell = TableCell(text, lead=lead, is_code=True, notes=(reason,))
        return mark, cell, "\u2013", "\u2013", ""
    comparison = parse_expectation(text)
    unit, dimension = comparison_unit(comparison), Dimension(found["dimension"])
    left, right = (format_value(found[side], dimension, unit=unit) for side in ("left", "right"))
    unclear = (reason,) if answer == "cannot tell" else ()
    return (
        mark,
        TableCell(text, lead=lead, is_code=True, notes=(*_notes(comparison, found["measured"]), *unclear)),
        left,
        f"{_SIGNS[comparison.operator]} {right}",
        TableCell("", "bar", more=_bar(found["left"], found["right"], style=style, label=reason)),
    )


def _notes(comparison: Comparison, measured: Mapping[str, float]) -> Iterator[str]:
    """Values that the sides are made of, where they differ from the sides."""
    for name, value in measured.items():
        if name not in (comparison.left_text, comparison.right_text):
            yield f"{name}: {format_measured(value, parse_quantity(name))}"


def _bar(value: float, limit: float, *, style: str, label: str) -> Markup:
    """The value as a bar from zero, the limit as a line across."""
    full = max(value, limit, 0.0) or 1.0
    length, at = (max(0.0, side) / full * _FULL for side in (value, limit))
    return part("bar", f"{max(1.5, length):.1f}", f"{max(1.0, at):.1f}", style, label)
