"""The results of a run as text files for people and CI: summary.md, junit.xml, flows.csv. Pure."""

import csv
import io
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import timedelta
from xml.etree import ElementTree as ET

from testbed.report.table import Table
from testbed.scenario.measure.job import Job
from testbed.scenario.measure.link_finding import LinkFinding
from testbed.scenario.measure.recovery import Phase
from testbed.scenario.measure.verdict import Status
from testbed.scenario.report.result import RunResult
from testbed.shown import format_count, format_rate, format_share, format_size, format_time, format_times
from testbed.workloads.nccl import CollectiveResult

RECOVERY_COLUMNS = (
    "packets dropped",
    "EVs evicted",
    "time to detect",
    "time to last drop",
    "recovery time",
)
"""What reports say of a fault besides how often it was active."""

FLOW_COLUMNS = (
    "workload",
    "source",
    "target",
    "qp_index",
    "qpn",
    "start_ns",
    "end_ns",
    "messages",
    "payload_bytes",
    "goodput_bps",
    "compared_bytes",
    "wrong_bytes",
    "error",
)

OPERATION_COLUMNS = (
    "workload",
    "operation",
    "step_begin_ns",
    "begin_ns",
    "end_ns",
    "reaction_ns",
    "wrong_bytes",
    "last_rank",
)


def format_phase(phase: Phase) -> str:
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
        *_job_lines(result.jobs),
        f"{verdict.reason}.",
        "",
        *(f"Not trusted: {reason}." for reason in verdict.untrusted),
        f"Run {result.run_id}, seed {result.plan.seed}.",
    ]
    if result.clock_step_ns:
        lines += ["", describe_clock_step(result.clock_step_ns) + "."]
    if verdict.outcomes:
        judged = [
            (f"`{each.text}`", "pass" if each.has_passed else "**FAIL**", each.reason)
            for each in verdict.outcomes
        ]
        lines += ["", *Table(("expectation", "result", "measured"), judged).markdown()]
    if result.recoveries:
        recovered = [
            (
                each.fault_id,
                format_count(each.occurrence_count),
                format_count(each.lost_packets),
                format_count(each.left_evs),
                *(format_phase(phase) for phase in (each.detect, each.avoid, each.restore)),
            )
            for each in result.recoveries
        ]
        columns = ("fault", "#times", *(f"#{name}" for name in RECOVERY_COLUMNS))
        lines += ["", *Table(columns, recovered).markdown()]
    if result.link_finding is not None:
        lines += ["", format_link_finding(result.link_finding) + "."]
    carried = []
    for name, goodput_bps in result.goodput_bps.items():
        outcomes = [outcome for outcome in result.recording.outcomes if outcome.flow.workload == name]
        carried.append(
            (
                name,
                "-" if goodput_bps is None else format_rate(goodput_bps),
                format_count(sum(outcome.messages for outcome in outcomes)),
                format_size(sum(outcome.compared_bytes for outcome in outcomes)),
                format_count(sum(outcome.wrong_bytes for outcome in outcomes)),
            )
        )
    columns = ("workload", "#goodput", "#messages", "#compared", "#wrong bytes")
    lines += ["", *Table(columns, carried).markdown(), *_collective_lines(result.collectives)]
    return "\n".join(lines) + "\n"


def job_figures(job: Job) -> tuple[tuple[str, str], ...]:
    """The pace of a job for a strip: name and value of each figure."""
    pace = job.pace
    if pace is None:
        return ((f"{job.word}s/s", "-"), ("p50", "-"), ("p99", "-"), ("slowest rank", "-"))
    return (
        (f"{job.word}s/s", format_count(pace.per_second)),
        ("p50", format_times(pace.p50_ns)),
        ("p99", format_times(pace.p99_ns)),
        ("slowest rank", f"{pace.slowest_rank}, last in {format_share(pace.slowest_share)}"),
    )


def _job_lines(jobs: Sequence[Job]) -> list[str]:
    lines = []
    for job in jobs:
        figures = job_figures(job)
        *numbers, rank = (name for name, _ in figures)
        table = Table(
            ("job", *(f"#{name}" for name in numbers), rank), [(job.name, *(value for _, value in figures))]
        )
        lines += [f"**{job.name}**: {job.headline}.", "", *table.markdown(), ""]
    return lines


def _collective_lines(collectives: Mapping[str, CollectiveResult]) -> list[str]:
    if not collectives:
        return []
    rows = []
    for name, found in collectives.items():
        times = found.step or found.operation
        kind = f"{found.collective.kind}{', whole steps' if found.step else ''}"
        figures = ["-"] * 3
        if times is not None:
            shown = (times.p50_ns, times.p99_ns, times.max_ns)
            figures = [format_time(value) for value in shown]
        busbw = format_rate(found.bus_bytes_per_s * 8)
        rows.append((name, kind, format_count(times.count if times else 0), busbw, *figures))
    columns = ("collective", "kind", "#operations", "#busbw", "#p50", "#p99", "#max")
    return ["", *Table(columns, rows).markdown()]


def build_operations(result: RunResult) -> str:
    """operations.csv: one line per collective or training step, times on the run's axis."""
    recording = result.recording
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(OPERATION_COLUMNS)
    for name, operations in recording.operations.items():
        for index, each in enumerate(operations):
            begin, start, end = (
                recording.relative_ns(time_ns) for time_ns in (each.step_begin_ns, each.begin_ns, each.end_ns)
            )
            writer.writerow(
                (name, index, begin, start, end, each.reaction_ns, each.wrong_bytes, each.last_rank)
            )
    return text.getvalue()


def describe_clock_step(step_ns: int) -> str:
    """Sentence about a date that was set during a run."""
    way, step = "forward" if step_ns > 0 else "back", timedelta(seconds=round(abs(step_ns) / 1e9))
    return (
        f"the machine's clock was set {way} by {step} during the run: times of events and series go by"
        " another clock and are right, dates are those of the clock at the end"
    )


def build_junit(result: RunResult) -> str:
    """junit.xml: the scenario is the suite, each expectation a case, its reason the text of a failure.

    There is one more case, `run`: in error when the run ended early. A run that is not trusted has neither
    passed nor failed: all its cases are skipped, with the reason.
    """
    verdict = result.verdict
    is_untrusted = verdict.status is Status.UNTRUSTED
    failures = sum(not outcome.has_passed for outcome in verdict.outcomes) * (not is_untrusted)
    is_broken = verdict.status not in (Status.PASSED, Status.FAILED, Status.UNTRUSTED)
    seconds = f"{result.duration_ns / 1e9:.3f}"
    suite = ET.Element(
        "testsuite",
        name=result.plan.scenario,
        tests=str(len(verdict.outcomes) + 1),
        failures=str(failures),
        errors=str(int(is_broken)),
        skipped=str((len(verdict.outcomes) + 1) * is_untrusted),
        time=seconds,
        timestamp=result.started.strftime("%Y-%m-%dT%H:%M:%S"),
    )
    run = ET.SubElement(suite, "testcase", classname=result.plan.scenario, name="run", time=seconds)
    if is_broken:
        ET.SubElement(
            run, "error", type=verdict.status.value, message=printable(verdict.reason)
        ).text = printable("\n".join([verdict.reason, *verdict.untrusted]))
    if is_untrusted:
        ET.SubElement(run, "skipped", message=printable(f"UNTRUSTED: {verdict.reason}"))
    for outcome in verdict.outcomes:
        case = ET.SubElement(
            suite, "testcase", classname=result.plan.scenario, name=printable(outcome.text), time="0"
        )
        if is_untrusted:
            ET.SubElement(case, "skipped", message=printable(f"UNTRUSTED: {verdict.reason}"))
        elif not outcome.has_passed:
            ET.SubElement(
                case, "failure", type="expectation", message=printable(outcome.reason)
            ).text = printable(outcome.reason)
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def printable(text: str) -> str:
    """*text* without control characters, which XML 1.0 cannot hold in any form."""
    return "".join(
        character if character == "\n" or unicodedata.category(character) not in ("Cc", "Cs") else "\ufffd"
        for character in text
    )


def build_flows(result: RunResult) -> str:
    """flows.csv: one line per QP, times on the run's axis, goodput over the flow's own life."""
    recording = result.recording
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FLOW_COLUMNS)
    for outcome in recording.outcomes:
        length_ns = outcome.end_ns - outcome.start_ns
        writer.writerow(
            (
                outcome.flow.workload,
                outcome.flow.source,
                outcome.flow.target,
                outcome.flow.qp_index,
                outcome.qpn,
                recording.relative_ns(outcome.start_ns),
                recording.relative_ns(outcome.end_ns),
                outcome.messages,
                outcome.payload_bytes,
                round(outcome.payload_bytes * 8e9 / length_ns) if length_ns > 0 else 0,
                outcome.compared_bytes,
                outcome.wrong_bytes,
                outcome.error or "",
            )
        )
    return text.getvalue()
