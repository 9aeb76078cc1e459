"""bench: one workload on a running lab: flows, reported as perftest does; collectives are beside."""

import inspect
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli import bench_collective
from mrc_testbed.cli.bench_options import (
    DEFAULT_DURATION,
    FLAGS,
    ITERATIONS_TIMEOUT,
    SHARED,
    VIRTUAL_DURATION,
    BenchOptions,
    Options,
    bench_runs,
    listed_hosts,
    option,
    parameters,
)
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import COMMANDS, Settings, command, with_parameters
from mrc_testbed.cli.render import bad, good, plain_table, show
from mrc_testbed.cli.suggestion import hosts as host_names
from mrc_testbed.cli.typed_run import TypedRun
from mrc_testbed.document.problem import Tree
from mrc_testbed.shown import format_count, format_number, format_share, format_size, format_time
from mrc_testbed.workloads.perftest import BenchReport, FlowRate, Times, build_report

app: Final = typer.Typer(
    no_args_is_help=True, help="Measure a running lab: bandwidth, latency, incast, collectives."
)
COMMANDS.add_typer(app, name="bench")

Source = Annotated[str, typer.Argument(metavar="FROM", autocompletion=host_names, help="Sending host.")]
Target = Annotated[str, typer.Argument(metavar="TO", autocompletion=host_names, help="Receiving host.")]
SizeOption = Annotated[str, typer.Option("--size", metavar="SIZE", help="Payload of a message.")]
DepthOption = Annotated[
    int, typer.Option("--depth", min=1, metavar="NUMBER", help="Messages outstanding per QP.")
]


def _host_list(flag: str, help_text: str) -> Any:
    return Annotated[Any, typer.Option(flag, metavar="LIST", parser=listed_hosts, help=help_text)]


_SIZES: Final[Options] = {
    "size": (SizeOption, "64KiB"),
    "qps": option(int, 1, "--qps", min=1, metavar="NUMBER", help="QPs per pair of hosts."),
}
_END: Final[Options] = {
    "iterations": option(
        int | None, None, "--iterations", "-i", min=1, metavar="NUMBER", help="Messages per QP."
    ),
    "duration": option(
        str | None,
        None,
        "--duration",
        "-d",
        metavar="TIME",
        help=f"Sending time (default: {DEFAULT_DURATION}; in virtual time {VIRTUAL_DURATION}).",
    ),
}
_REQUIRED: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class FlowCommand:
    # key of the workload (`from_` for `from`) -> option or argument, and its default
    own: Options
    text: str  # its help
    # of sending without --iterations and --duration; None: by time
    default_iterations: int | None = None


_COMMANDS: Final = {
    "write-bw": FlowCommand(
        {"from_": (Source, _REQUIRED), "to": (Target, _REQUIRED), **_SIZES, "depth": (DepthOption, 16)},
        """Measure RDMA WRITE bandwidth from one host to another.

    Rates are of acknowledged payload. Received memory is compared with what was
    sent; `#wrong` counts bytes. The exit status is 1 when a byte is wrong or a
    QP failed.

    [bold]Examples[/bold]

      mrc-testbed bench write-bw h0 h5 --size 1MiB
      mrc-testbed bench write-bw h0 h5 --size 4KiB --qps 4 --duration 10s -o json
      mrc-testbed bench write-bw h0 h5 --window 128
      mrc-testbed bench write-bw h0 h5 --transport rocev2 --cc fixed
    """,
    ),
    "write-lat": FlowCommand(
        {"from_": (Source, _REQUIRED), "to": (Target, _REQUIRED), "size": (SizeOption, "2B")},
        """Measure RDMA WRITE latency: half the time from first packet to acknowledgement.

    perftest halves a ping-pong of two WRITEs; here an acknowledgement comes back
    instead. The NIC takes the times, so that no process adds to them.

    [bold]Examples[/bold]

      mrc-testbed bench write-lat h0 h1         within a T0
      mrc-testbed bench write-lat h0 h5         across a T1
    """,
        default_iterations=1000,
    ),
    "sendrecv": FlowCommand(
        {
            **_SIZES,
            "hosts": (_host_list("--hosts", "Hosts of the ring: names with commas, or all."), "all"),
            "shift": option(
                int, 1, "--shift", min=1, metavar="NUMBER", help="Distance of each receiver on the ring."
            ),
            "depth": (DepthOption, 4),
        },
        """Send along a ring of hosts: each sends to one neighbour, receives from the other.

    [bold]Examples[/bold]

      mrc-testbed bench sendrecv --size 1MiB
      mrc-testbed bench sendrecv --shift 4          every flow crosses a T1
      mrc-testbed bench sendrecv --hosts h0,h4,h1,h5
    """,
    ),
    "incast": FlowCommand(
        {
            "to": (Target, _REQUIRED),
            "from_": (_host_list("--from", "Senders: host names with commas, or all others."), "all"),
            **_SIZES,
            "depth": (DepthOption, 4),
        },
        """Send from many hosts to one and show how fairly they share its port.

    [bold]Examples[/bold]

      mrc-testbed bench incast h0
      mrc-testbed bench incast h0 --from h1,h4,h5 --duration 10s
    """,
    ),
    "permutation": FlowCommand(
        {
            "from_": (_host_list("--from", "Senders: host names with commas, or all."), "all"),
            "to": (_host_list("--to", "Receivers, as many as senders, or all."), "all"),
            **_SIZES,
            "depth": (DepthOption, 4),
        },
        """Send from each host to one other, drawn by --seed; each receives from one.

    [bold]Examples[/bold]

      mrc-testbed bench permutation --seed 3
      mrc-testbed bench permutation --from h0,h1,h2,h3 --to h4,h5,h6,h7
    """,
    ),
}


def _running(kind: str, flow: FlowCommand) -> Callable[..., int]:
    def run(settings: Settings, iterations: int | None, duration: str | None, **given: Any) -> int:
        workload: dict[str, Tree] = {
            "kind": kind,
            **{key.removesuffix("_"): given.pop(key) for key in flow.own},
        }
        options = BenchOptions(**given)
        if count := iterations or (flow.default_iterations if duration is None else None):
            workload |= {"iterations": count, "timeout": ITERATIONS_TIMEOUT}
        else:
            workload["duration"] = duration or (VIRTUAL_DURATION if options.virtual else DEFAULT_DURATION)
        with bench_runs(settings, options, workload) as runs:
            [found] = runs
        report = _report(found)
        show(
            settings,
            "Bench",
            bench_document(found, report),
            lambda: bench_table(found, report),
            lines="flows",
        )
        return ExitCode.PASS if report.has_passed else ExitCode.ERROR

    with_parameters(run, parameters({**flow.own, **_END, **SHARED}))
    run.__doc__ = flow.text
    return run


for _name, _each in _COMMANDS.items():
    command(app, _name, flags=FLAGS, needs_root=True)(_running(_name, _each))
bench_collective.register(app)


def _report(found: TypedRun) -> BenchReport:
    recording, workload = found.recording, found.workload
    first, last = recording.readings[0], recording.readings[-1]
    completion = last.message_completion.since(first.message_completion)
    return build_report(workload.load, recording.outcomes, recording.batches[workload.name], completion)


def bench_document(run: TypedRun, report: BenchReport) -> dict[str, Any]:
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


def bench_table(run: TypedRun, report: BenchReport) -> RenderableType:
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
