"""The tables of a report as HTML text. Pure. Everything that came from outside is escaped."""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from testbed.faults.fault import ScheduledFault
from testbed.metrics.histogram import Histogram, merge
from testbed.metrics.series import summarize
from testbed.scenario.measure.recording import NotMeasured
from testbed.scenario.measure.recovery import Phase, Recovery
from testbed.scenario.report.axis import format_count, format_rate, format_time
from testbed.scenario.report.result import RunResult
from testbed.scenario.report.result_text import describe_clock_step, format_phase
from testbed.scenario.spec.timeline import format_instant
from testbed.topology.ev import decode_ev
from testbed.topology.port_selection import other_rates
from testbed.topology.resolve import resolve_topology
from testbed.units import format_duration_ns, format_rate_bps, format_size_bytes

_LINKS_SHOWN_MAX: Final = 6
_FLOWS_OPEN_MAX: Final = 16
"""Up to this many flows the table is open when the page is."""

_DASH: Final = "\u2013"


def alerts(result: RunResult) -> str:
    """Why the run did not end as planned, or is not to be trusted; empty when all is well."""
    verdict = result.verdict
    shown = [("warn", f"Not trusted: {reason}.") for reason in verdict.untrusted]
    if verdict.status.value in ("error", "aborted", "interrupted"):
        shown.insert(0, ("bad", f"The run did not come to its end: {verdict.reason}."))
    errors = dict.fromkeys(outcome.error for outcome in result.recording.outcomes if outcome.error)
    shown += [("bad", f"Flow failed: {error}.") for error in errors]
    return "\n".join(f'<div class="alert {style}" role="alert">{escape(text)}</div>' for style, text in shown)


def tiles(result: RunResult) -> str:
    """The run in a few numbers."""
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
        entries.append(("Messages", format_count(sum(host.messages for host in whole.hosts.values()))))
        sent_again = sum(host.retransmits for host in whole.hosts.values())
        entries.append(("Packets sent again", format_count(sent_again)))
    outcomes = result.recording.outcomes
    if outcomes:
        compared = sum(outcome.compared_bytes for outcome in outcomes)
        wrong = sum(outcome.wrong_bytes for outcome in outcomes)
        entries.append((f"Wrong bytes in {format_size_bytes(compared, 3)}", str(wrong)))
    body = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>' for name, value in entries
    )
    return f'<dl class="tiles">{body}</dl>' if entries else ""


def expectation_table(result: RunResult) -> str:
    """Each expectation, whether it held, and why."""
    rows = [
        (
            _cell("\u2713 held", "mark good") if outcome.has_passed else _cell("\u2717 not", "mark bad"),
            f"<td><code>{escape(outcome.text)}</code></td>",
            _cell(outcome.reason),
        )
        for outcome in result.verdict.outcomes
    ]
    return _table(("", "expectation", "what was measured"), rows)


def fault_table(result: RunResult) -> str:
    """Each fault: where, when, what it took, and how it was recovered from."""
    rows = [
        _fault_row(result, fault, recovery)
        for fault, recovery in zip(result.plan.faults, result.recoveries, strict=True)
    ]
    header = (
        "fault",
        "links",
        "acted",
        "#times",
        "#packets lost",
        "#EVs left",
        "#detect",
        "#avoid",
        "#restore",
    )
    return _table(header, rows)


def _fault_row(result: RunResult, fault: ScheduledFault, recovery: Recovery) -> tuple[str, ...]:
    recording = result.recording
    places = fault.nodes or fault.links
    links = "<br>".join(f"<code>{escape(name)}</code>" for name in places[:_LINKS_SHOWN_MAX])
    if len(places) > _LINKS_SHOWN_MAX:
        links += f"<br>and {len(places) - _LINKS_SHOWN_MAX} more"
    detail = f" {fault.detail}" if fault.detail else ""
    way = "" if fault.direction == "both" else f", {fault.direction}"
    what = f"<small>{escape(fault.kind + detail + way)}</small>"
    try:
        span = recording.fault_span(fault.fault_id)
        acted = (
            " to ".join(_seconds(recording.relative_ns(edge)) for edge in (span.start_ns, span.end_ns)) + " s"
        )
    except NotMeasured:
        acted = "never"
    return (
        f'<td class="when"><strong>{escape(fault.fault_id)}</strong>{what}</td>',
        f"<td>{links}</td>",
        _cell(acted, "when"),
        _number(str(recovery.occurrence_count)),
        _number(str(recovery.lost_packets)),
        _number(str(recovery.left_evs)),
        *(_phase(phase) for phase in (recovery.detect, recovery.avoid, recovery.restore)),
    )


def _phase(phase: Phase) -> str:
    text = _DASH if phase.longest_ns is None else format_phase(phase)
    reason = f"<small>{escape(phase.reason)}</small>" if phase.reason else ""
    return f'<td class="number">{text}{reason}</td>'


def plane_table(result: RunResult) -> str:
    """What each plane carried, and its RTT, over the measured time."""
    try:
        whole = result.recording.interval(result.recording.measured_span())
    except NotMeasured:
        return ""
    sent_bytes = sum(whole.plane_tx_bytes)
    rows = [
        _plane_row(f"plane {plane}", sent, sent_bytes, histogram)
        for plane, (sent, histogram) in enumerate(zip(whole.plane_tx_bytes, whole.packet_rtt, strict=True))
    ]
    rows.append(_plane_row("all planes", sent_bytes, sent_bytes, merge(whole.packet_rtt)))
    header = ("", "#sent", "#share", "#RTTs", "#RTT p50", "#p90", "#p99", "#p99.9", "#max")
    return _table(header, rows)


def _plane_row(name: str, sent: int, all_sent: int, rtt: Histogram) -> tuple[str, ...]:
    share = f"{sent / all_sent:.1%}" if all_sent else _DASH
    cells = (_cell(name), _number(format_size_bytes(sent, 3)), _number(share))
    latency = summarize(rtt)
    if latency is None:
        return (*cells, _number("0"), *(_number(_DASH) for _ in range(5)))
    times = (latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.max_ns)
    return (*cells, _number(f"{latency.count:,}"), *(_number(format_time(time_ns)) for time_ns in times))


def transition_table(result: RunResult) -> str:
    """How often EVs went from which state to which, why, and in which plane."""
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
                _cell(f"{before.name} \u2192 {after.name}"),
                _cell(reason),
                *(_number(f"{count:,}" if count else _DASH) for count in counts),
                _number(f"{sum(counts):,}"),
            )
        )
    return _table(("change", "reason", *(f"#plane {plane}" for plane in planes), "#all"), rows)


def collective_table(result: RunResult) -> str:
    """What each workload of collectives came to."""
    rows = []
    for name, found in result.collectives.items():
        times = found.step or found.operation
        cells = [_DASH] * 4
        if times is not None:
            shown = (times.p50_ns, times.p99_ns, times.p999_ns, times.max_ns)
            cells = [format_duration_ns(round(time_ns), 4) for time_ns in shown]
        rows.append(
            (
                _cell(name),
                _cell(f"{found.collective.kind}{', whole steps' if found.step else ''}"),
                _number(f"{times.count if times else 0:,}"),
                _number(format_rate(found.bus_bytes_per_s * 8)),
                *map(_number, cells),
                _number(str(found.wrong_bytes)),
            )
        )
    header = ("", "kind", "#operations", "#busbw", "#p50", "#p99", "#p99.9", "#max", "#wrong bytes")
    return _table(header, rows)


def flow_table(result: RunResult) -> str:
    """Each flow's messages, goodput and wrong bytes."""
    rows = []
    for outcome in result.recording.outcomes:
        length_ns = outcome.end_ns - outcome.start_ns
        goodput = format_rate(outcome.payload_bytes * 8e9 / length_ns) if length_ns > 0 else _DASH
        rows.append(
            (
                _cell(outcome.flow.workload),
                _cell(f"{outcome.flow.source} \u2192 {outcome.flow.target}"),
                _number(str(outcome.qpn)),
                _number(f"{outcome.messages:,}"),
                _number(goodput),
                _number(format_size_bytes(outcome.compared_bytes, 3)),
                _number(str(outcome.wrong_bytes)),
                _cell(outcome.error or "ok", "bad" if outcome.error else ""),
            )
        )
    table = _table(
        ("workload", "flow", "#QP", "#messages", "#goodput", "#compared", "#wrong bytes", "ended"), rows
    )
    if len(rows) <= _FLOWS_OPEN_MAX:
        return table
    return f"<details><summary>{len(rows)} flows</summary>{table}</details>"


def fidelity_table(result: RunResult) -> str:
    """What the machine did during the run, against the limits beyond which it is not to be trusted."""
    rows = [
        (
            _cell("\u2713", "mark good") if finding.reason is None else _cell("\u2717", "mark bad"),
            _cell(finding.what),
            _cell(finding.measured),
            _cell(finding.limit),
        )
        for finding in result.fidelity
    ]
    return _table(("", "what", "measured", "limit"), rows)


def provenance_table(result: RunResult) -> str:
    """Where and with what the run was made."""
    plan, made = result.plan, result.provenance
    spec = plan.topology
    rate = (
        "unshaped"
        if spec.port_rate is None
        else f"{format_rate_bps(spec.port_rate)} ports{other_rates(resolve_topology(spec))}"
    )
    recording = result.recording
    zero_ns = recording.zero_ns
    entries = (
        (
            "Fabric",
            f"{spec.planes} planes x ({spec.t0} T0 + {spec.t1} T1), "
            f"{spec.numbering.host_count} hosts, {rate}",
        ),
        (
            "Transport",
            f"{plan.transport.describe_paths()}, {plan.transport.congestion.describe()}",
        ),
        *(
            (
                f"Workload {workload.name}",
                f"{workload.kind}, messages of {format_size_bytes(workload.size_bytes)}, "
                f"{len(workload.flows)} QPs, {workload.depth} outstanding each",
            )
            for workload in plan.workloads
        ),
        ("Lab", f"{made.lab}, runtime {made.runtime}"),
        (
            "Machine",
            f"{made.cpu} ({made.architecture}), {made.cpu_count} CPUs, "
            f"{format_size_bytes(made.memory_bytes, 3)}",
        ),
        ("Kernel", made.kernel),
        ("Versions", f"mrc-testbed {made.mrc_testbed}, Python {made.python}"),
        ("Time 0", "-" if zero_ns is None else f"end of warm-up, CLOCK_MONOTONIC {format_instant(zero_ns)}"),
        *([("Clock", describe_clock_step(result.clock_step_ns))] if result.clock_step_ns else []),
        ("Latest reading or action", f"{format_duration_ns(recording.latest_ns, 3)} after it was due"),
    )
    rows = [(f"<th scope='row'>{escape(name)}</th>", _cell(value)) for name, value in entries]
    return _table((), rows)


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3f}"


def _cell(text: str, style: str = "") -> str:
    attribute = f' class="{style}"' if style else ""
    return f"<td{attribute}>{escape(text)}</td>"


def _number(text: str) -> str:
    return f'<td class="number">{escape(text)}</td>'


def _table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; a `#` before the name of a column sets it to the right."""
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(_heading(name) for name in header)
    heading = f"<thead><tr>{head}</tr></thead>" if header else ""
    return f'<div class="scroll"><table>{heading}<tbody>\n{body}\n</tbody></table></div>'


def _heading(name: str) -> str:
    style = ' class="number"' if name.startswith("#") else ""
    return f'<th scope="col"{style}>{escape(name.removeprefix("#"))}</th>'
