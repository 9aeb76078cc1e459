"""The results of a run as text files: summary.md, flows.csv, operations.csv, and tidy samples.csv. Pure."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from statistics import fmean
from typing import Final, TextIO

from mrc_testbed.report.table import Table, TableCell, judged
from mrc_testbed.scenario.measure.link_finding import LinkFinding
from mrc_testbed.scenario.measure.recovery import Recovery, RecoveryPhase
from mrc_testbed.scenario.report.result import Job, RunResult
from mrc_testbed.shown import format_count, format_rate, format_share, format_size, format_time, format_times
from mrc_testbed.workloads.nccl import CollectiveResult
from mrc_testbed.workloads.operation_record import OperationRecord, finite

RECOVERY_COLUMNS = ("packets dropped", "EVs evicted", "time to detect", "time to last drop", "recovery time")
"""Columns about a fault in reports, after the number of its occurrences."""

_FLOW_COLUMNS: Final = (
    *("workload", "source", "target", "qp_index", "qpn", "start_ns", "end_ns", "messages"),
    *("payload_bytes", "goodput_bps", "compared_bytes", "wrong_bytes", "error"),
)
_OPERATION_COLUMNS: Final = (
    *("workload", "operation", "step_begin_ns", "begin_ns", "end_ns"),
    *("reaction_ns", "wrong_bytes", "last_rank", "loss", "sent_bytes"),
)


def format_phase(phase: RecoveryPhase) -> str:
    """A phase of recovery for a table: its time, or a dash."""
    return "-" if phase.longest_ns is None else format_time(phase.longest_ns)


def format_link_finding(finding: LinkFinding) -> str:
    """Findings of link probes in one line."""
    shares = [
        f"{name} {'-' if share is None else format_share(share)}"
        for name, share in (("precision", finding.precision), ("recall", finding.recall))
    ]
    times = [f"{fault_id} {format_phase(phase)}" for fault_id, phase in finding.localise.items()]
    return "Link probes: " + ", ".join([*shares, *(f"time to localize {time}" for time in times)])


def build_summary(result: RunResult) -> str:
    """summary.md: verdict, expectations with reasons, recovery, workloads."""
    verdict = result.verdict
    lines = [
        f"# {result.plan.scenario}: {verdict.status.value}",
        "",
        *_job_lines(result),
        f"{verdict.reason}.",
        "",
        *(f"Not trusted: {reason}." for reason in verdict.untrusted),
        f"Run {result.run_id}, seed {result.plan.seed}.",
    ]
    if result.clock_step_ns:
        lines += ["", describe_clock_step(result.clock_step_ns) + "."]
    if verdict.outcomes:
        rows = [(*reversed(judged(each.answer, each.text)), each.reason) for each in verdict.outcomes]
        lines += ["", *Table(("expectation", "result", "measured"), rows).markdown()]
    if result.recoveries:
        lines += ["", *recovery_table(result).markdown()]
    if result.link_finding is not None:
        lines += ["", format_link_finding(result.link_finding) + "."]
    for table in (workload_table(result), printed_table(result)):
        lines += ["", *table.markdown()] if table.rows else []
    lines += _collective_lines(result.collectives)
    return "\n".join(lines) + "\n"


def recovery_table(result: RunResult) -> Table:
    """A row for each fault."""
    rows = [
        (each.fault_id, *recovery_counts(each), *map(format_phase, each.phases)) for each in result.recoveries
    ]
    return Table(("fault", "#times", *(f"#{name}" for name in RECOVERY_COLUMNS)), rows)


def recovery_counts(recovery: Recovery) -> list[str]:
    """Number of times that a fault was active, and the first of RECOVERY_COLUMNS."""
    counts = recovery.occurrence_count, recovery.lost_packets, recovery.left_evs
    return [format_count(count) for count in counts]


def workload_table(result: RunResult) -> Table:
    """A row for each workload, but for programs, whose data nobody sees."""
    rows = []
    for name, goodput_bps in result.goodput_bps.items():
        if name in result.recording.programs:
            continue
        outcomes = [outcome for outcome in result.recording.outcomes if outcome.flow.workload == name]
        wrong = sum(outcome.wrong_bytes for outcome in outcomes)
        rows.append(
            (
                name,
                "-" if goodput_bps is None else format_rate(goodput_bps),
                format_count(sum(outcome.messages for outcome in outcomes)),
                format_size(sum(outcome.compared_bytes for outcome in outcomes)),
                TableCell(format_count(wrong), "bad" if wrong else "good"),
            )
        )
    return Table(("workload", "#goodput", "#messages", "#compared", "#wrong bytes"), rows)


def printed_table(result: RunResult) -> Table:
    """A row for each figure that ranks of programs have printed."""
    rows = [
        (
            f"{name}, rank {each.rank}",
            format_size(each.size_bytes),
            "-" if each.bandwidth_bps is None else format_rate(each.bandwidth_bps),
            "-" if each.bus_bps is None else format_rate(each.bus_bps),
            "-" if each.latency_ns is None else format_time(each.latency_ns),
        )
        for name, state in result.recording.programs.items()
        for each in state.printed
    ]
    return Table(("printed by", "#size", "#bandwidth", "#bus bandwidth", "#time"), rows)


def declared_compute(result: RunResult, name: str) -> str:
    """A sentence on a program whose computing was declared, not done; empty for any other workload."""
    program = next(workload.program for workload in result.plan.workloads if workload.name == name)
    if program is None or not program.compute or not result.recording.is_simulated:
        return ""
    if program.compute[:1].isdigit():
        return f"Each step computes for {program.compute}, as declared"
    return f"Each module computes as long as in the profile {program.compute}"


def optimizers_of(steps: Sequence[OperationRecord]) -> str:
    """A sentence on steps of several optimizers, with the number of the first of each; else empty."""
    named = {each.optimizer: number for number, each in reversed([*enumerate(steps)]) if each.optimizer}
    parts = [f"{name} (from step {at})" for name, at in sorted(named.items(), key=lambda each: each[1])]
    return f"Steps are of {' and '.join(parts)}" if len(parts) > 1 else ""


def job_headline(result: RunResult, job: Job) -> str:
    """The sentence on a job, `untrusted` beside it where it is; what was declared, and what its steps are."""
    trust = "" if result.verdict.is_trusted else " (untrusted)"
    steps = optimizers_of(result.recording.operations.get(job.name, ()))
    return ". ".join(filter(None, (f"{job.headline}{trust}", declared_compute(result, job.name), steps)))


def job_figures(job: Job) -> tuple[tuple[str, str], ...]:
    """The pace of a job for a strip: name and value of each figure."""
    pace = job.pace
    if pace is None:
        return ((f"{job.word}s/s", "-"), ("p50", "-"), ("p99", "-"), ("slowest rank", "-"))
    return (
        (f"{job.word}s/s", format_count(pace.per_second)),
        ("p50", format_times(pace.p50_ns)),
        ("p99", format_times(pace.p99_ns)),
        *(() if not job.idle else (("idle", _idle(job.idle)),)),
        *(() if job.loss is None else (("loss", _loss(job.loss)),)),
        ("slowest rank", f"{pace.slowest_rank}, last in {format_share(pace.slowest_share)}"),
    )


def _idle(shares: Mapping[str, float]) -> str:
    """Mean share of the ranks, and the rank with the largest."""
    worst = max(shares, key=lambda rank: shares[rank])
    return f"{format_share(fmean(shares.values()))}, up to {format_share(shares[worst])} at {worst}"


def _loss(loss: float) -> str:
    return "not finite" if finite(loss) is None else format_count(loss)


def _job_lines(result: RunResult) -> list[str]:
    lines = []
    for job in result.jobs:
        figures = job_figures(job)
        *numbers, rank = (name for name, _ in figures)
        table = Table(
            ("job", *(f"#{name}" for name in numbers), rank), [(job.name, *(value for _, value in figures))]
        )
        lines += [f"**{job.name}**: {job_headline(result, job)}.", "", *table.markdown(), ""]
    return lines


def _collective_lines(collectives: Mapping[str, CollectiveResult]) -> list[str]:
    rows = [(*row[:6], row[7]) for row in collective_rows(collectives, "-")]
    columns = ("collective", "kind", "#operations", "#busbw", "#p50", "#p99", "#max")
    return ["", *Table(columns, rows).markdown()] if rows else []


def collective_rows(collectives: Mapping[str, CollectiveResult], dash: str) -> list[tuple[str, ...]]:
    """Name, kind, number, bus bandwidth, p50, p99, p99.9, largest and wrong bytes of each."""
    rows = []
    for name, found in collectives.items():
        times = found.step or found.operation
        kind = f"{found.collective.kind}{', whole steps' if found.step else ''}"
        count, figures = (times.count, times.shown()) if times else (0, [dash] * 4)
        rates = (format_count(count), format_rate(found.bus_bps))
        rows.append((name, kind, *rates, *figures, format_count(found.wrong_bytes)))
    return rows


def build_operations(result: RunResult) -> str:
    """operations.csv: one line per collective or step, times on the run's axis."""
    rows = [
        (
            *(name, index),
            *map(result.recording.relative_ns, (each.step_begin_ns, each.begin_ns, each.end_ns)),
            *(each.reaction_ns, each.wrong_bytes, each.last_rank, finite(each.loss), each.sent_bytes),
        )
        for name, operations in result.recording.operations.items()
        for index, each in enumerate(operations)
    ]
    return Table(_OPERATION_COLUMNS, rows).csv()


def describe_clock_step(step_ns: int) -> str:
    """Sentence about a date that was set during a run."""
    way, step = "forward" if step_ns > 0 else "back", timedelta(seconds=round(abs(step_ns) / 1e9))
    return (
        f"the machine's clock was set {way} by {step} during the run: times of events and series go by"
        " another clock and are right, dates are those of the clock at the end"
    )


def build_flows(result: RunResult) -> str:
    """flows.csv: one line per QP, times on the run's axis, goodput over the flow's own life."""
    recording = result.recording
    rows = []
    for each in recording.outcomes:
        flow, length_ns = each.flow, each.end_ns - each.start_ns
        rows.append(
            (
                *(flow.workload, flow.source, flow.target, flow.qp_index, each.qpn),
                *map(recording.relative_ns, (each.start_ns, each.end_ns)),
                *(each.messages, each.payload_bytes),
                round(each.payload_bytes * 8e9 / length_ns) if length_ns > 0 else 0,
                *(each.compared_bytes, each.wrong_bytes, each.error),
            )
        )
    return Table(_FLOW_COLUMNS, rows).csv()


Row = dict[str, str | int | float | None]

COLUMNS: Final = ("time_ns", "interval_ns", "node", "plane", "metric", "value", "unit")

_UNITS: Final = {"ns": "ns", "bps": "bit/s", "bytes": "B", "ratio": "1"}
_COLUMN: Final = re.compile(
    r"(?P<metric>.+?)(?:_(?P<node>h\d+))?(?:_plane(?P<plane>\d+))?(?:_(?P<suffix>ns|bps|bytes|ratio))?"
)


def samples(series: Iterable[dict[str, str]]) -> Iterator[Row]:
    """Each value of series.csv that is not empty; `time_ns` is the end of its interval.

    Raises:
        ValueError: a value is no number.
    """
    known: dict[str, Row] = {}
    for values in series:
        time_ns, interval_ns = int(values.pop("time_ns")), int(values.pop("interval_ns"))
        for column, text in values.items():
            if text:
                if column not in known:
                    known[column] = _place(column)
                yield {"time_ns": time_ns, "interval_ns": interval_ns, **known[column], "value": float(text)}


def build_samples(series: str) -> str:
    """samples.csv of the text of series.csv."""
    stream = io.StringIO()
    write_rows(stream, COLUMNS, samples(csv.DictReader(series.splitlines())))
    return stream.getvalue()


def write_rows(stream: TextIO, columns: Iterable[str], rows: Iterable[Row]) -> None:
    """Write rows as CSV with a header; a value that a row lacks is empty."""
    writer = csv.DictWriter(stream, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _place(column: str) -> Row:
    """Node, plane, metric and unit of a column of series.csv, such as `tx_plane0_bytes`."""
    if column.startswith("goodput_of_"):
        workload = column.removeprefix("goodput_of_").removesuffix("_bps")
        return {"node": None, "plane": None, "metric": f"goodput({workload})", "unit": "bit/s"}
    found = _COLUMN.fullmatch(column)
    parts = {} if found is None else found.groupdict()
    plane, suffix = parts.get("plane"), parts.get("suffix")
    return {
        "node": parts.get("node"),
        "plane": None if plane is None else int(plane),
        "metric": parts.get("metric") or column,
        "unit": "1" if suffix is None else _UNITS[suffix],
    }
