"""Report of a `bench` of messages: perftest's table, and JSON."""

from dataclasses import astuple
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
    keys = ("count", "min", "typical", "average", "deviation", "p99", "p99.9", "max")
    return dict(zip(keys, astuple(times), strict=True))


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
        "##bytes",
        "##iterations",
        "#BW peak[Gb/sec]",
        "#BW average[Gb/sec]",
        "#MsgRate[Mpps]",
        "##wrong",
    )
    has_many, size = len(report.flows) > 1, str(report.load.size_bytes)
    table = plain_table(*(["flow"] if has_many else []), *columns)
    for flow in report.flows:
        outcome = flow.outcome
        name = f"{outcome.flow.source} > {outcome.flow.target}"
        table.add_row(
            *([name] if has_many else []),
            *(size, str(outcome.messages), _gbps(flow.peak_bps)),
            *_averages(flow, outcome.wrong_bytes),
        )
    if has_many:
        averages = _averages(report, report.wrong_bytes)
        table.add_row("all", size, str(report.messages), "", *averages, style="bold")
    return table


def _averages(sent: FlowRate | BenchReport, wrong_bytes: int) -> tuple[str, str, Text]:
    return _gbps(sent.average_bps), format_number(sent.messages_per_s / 1e6), _wrong(wrong_bytes)


def _latency_table(report: BenchReport) -> RenderableType:
    table = plain_table(
        *("##bytes", "##iterations"),
        *(f"#{what}[usec]" for what in ("t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%")),
        "##wrong",
    )
    if report.completion:
        _, least_ns, *others_ns, most_ns = astuple(report.completion.scaled(0.5))
        cells = (f"{time_ns / 1e3:.2f}" for time_ns in (least_ns, most_ns, *others_ns))
        size, messages = str(report.load.size_bytes), str(report.messages)
        table.add_row(size, messages, *cells, _wrong(report.wrong_bytes))
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
