"""Report of a `bench` of messages: perftest's table, and JSON."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.bench_run import BenchRun
from mrc_testbed.cli.render import bad, good, plain_table
from mrc_testbed.shown import format_count, format_number, format_share, format_size, format_time
from mrc_testbed.workloads.perftest import BenchReport, FlowRate, Times


def bench_document(run: BenchRun, report: BenchReport) -> dict[str, Any]:
    """Report for programs."""
    return {
        "workload": run.workload.kind,
        "size_bytes": report.load.size_bytes,
        "depth": report.load.depth,
        "passed": report.has_passed,
        "average_bps": report.average_bps,
        "messages_per_s": report.messages_per_s,
        "fairness": report.fairness,
        "messages": report.messages,
        "compared_bytes": report.compared_bytes,
        "wrong_bytes": report.wrong_bytes,
        "errors": list(report.errors),
        "completion_ns": _times_document(report.completion),
        "latency_ns": (
            _times_document(report.completion.scaled(0.5))
            if run.workload.kind == "write-lat" and report.completion
            else None
        ),
        "flows": [_flow_document(flow) for flow in report.flows],
        **run.document(),
        "window_packets": run.congestion.window_packets,
    }


def _flow_document(flow: FlowRate) -> dict[str, Any]:
    outcome = flow.outcome
    return {
        "from": outcome.flow.source,
        "to": outcome.flow.target,
        "qp_index": outcome.flow.qp_index,
        "messages": outcome.messages,
        "peak_bps": flow.peak_bps,
        "average_bps": flow.average_bps,
        "messages_per_s": flow.messages_per_s,
        "compared_bytes": outcome.compared_bytes,
        "wrong_bytes": outcome.wrong_bytes,
        "error": outcome.error,
    }


def _times_document(times: Times | None) -> dict[str, float] | None:
    if times is None:
        return None
    return {
        "count": times.count,
        "min": times.min_ns,
        "typical": times.typical_ns,
        "average": times.mean_ns,
        "deviation": times.deviation_ns,
        "p99": times.p99_ns,
        "p99.9": times.p999_ns,
        "max": times.max_ns,
    }


def bench_table(run: BenchRun, report: BenchReport) -> RenderableType:
    """Report for people: perftest's table and summary lines."""
    is_latency = run.workload.kind == "write-lat"
    parts = [_latency_table(report) if is_latency else _bandwidth_table(report)]
    parts.append(Text(f"transport           {run.transport}", style="dim"))
    if report.completion and not is_latency:
        parts.append(_completion_line(report.completion))
    if report.fairness is not None:
        parts.append(Text(f"fairness (Jain)     {format_share(report.fairness)}", style="dim"))
    parts += [Text(line, style="dim") for line in run.remarks()]
    parts.append(_comparison_line(report))
    parts += [bad(error) for error in report.errors]
    return Group(*parts)


def _bandwidth_table(report: BenchReport) -> RenderableType:
    columns = (
        "#bytes",
        "#iterations",
        "BW peak[Gb/sec]",
        "BW average[Gb/sec]",
        "MsgRate[Mpps]",
        "#wrong",
    )
    has_many = len(report.flows) > 1
    table = plain_table(*(["flow"] if has_many else []), *columns, right=columns)
    for flow in report.flows:
        outcome = flow.outcome
        name = f"{outcome.flow.source} > {outcome.flow.target}"
        table.add_row(
            *([name] if has_many else []),
            str(report.load.size_bytes),
            str(outcome.messages),
            _gbps(flow.peak_bps),
            _gbps(flow.average_bps),
            format_number(flow.messages_per_s / 1e6),
            _wrong(outcome.wrong_bytes),
        )
    if has_many:
        table.add_row(
            "all",
            str(report.load.size_bytes),
            str(report.messages),
            "",
            _gbps(report.average_bps),
            format_number(report.messages_per_s / 1e6),
            _wrong(report.wrong_bytes),
            style="bold",
        )
    return table


def _latency_table(report: BenchReport) -> RenderableType:
    columns = (
        "#bytes",
        "#iterations",
        "t_min[usec]",
        "t_max[usec]",
        "t_typical[usec]",
        "t_avg[usec]",
        "t_stdev[usec]",
        "99%[usec]",
        "99.9%[usec]",
        "#wrong",
    )
    table = plain_table(*columns, right=columns)
    if report.completion:
        times = report.completion.scaled(0.5)
        cells = (
            times.min_ns,
            times.max_ns,
            times.typical_ns,
            times.mean_ns,
            times.deviation_ns,
            times.p99_ns,
            times.p999_ns,
        )
        table.add_row(
            str(report.load.size_bytes),
            str(report.messages),
            *(f"{cell / 1e3:.2f}" for cell in cells),
            _wrong(report.wrong_bytes),
        )
    return table


def _completion_line(times: Times) -> Text:
    shown = {"p50": times.typical_ns, "p99": times.p99_ns, "p99.9": times.p999_ns, "max": times.max_ns}
    figures = "  ".join(f"{name} {format_time(value)}" for name, value in shown.items())
    return Text(f"message completion  {figures}", style="dim")


def _comparison_line(report: BenchReport) -> Text:
    compared = format_size(report.compared_bytes)
    sent = format_size(report.messages * report.load.size_bytes)
    if report.wrong_bytes:
        return bad(f"{report.wrong_bytes} of the {compared} compared are wrong ({sent} were sent)")
    if report.compared_bytes:
        return good(f"{compared} of {sent} verified, no mismatch")
    return bad("nothing was received that could be compared")


def _gbps(rate_bps: float) -> str:
    return format_number(rate_bps / 1e9)


def _wrong(count: int) -> Text:
    return Text(format_count(count), style="red bold" if count else "green")
