"""bench write-bw | write-lat | sendrecv: one workload on a lab that is up, in perftest's terms."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from testbed.cli.exit_codes import ExitCode
from testbed.cli.options import Settings, command
from testbed.cli.render import bad, good, plain_table, show
from testbed.cli.suggestion import hosts as host_names
from testbed.document import Tree, validate_values
from testbed.fabric import lab
from testbed.units import format_duration_ns, format_size_bytes
from testbed.workloads.bench import run_bench
from testbed.workloads.load import build_load
from testbed.workloads.perftest import BenchReport, FlowRate, Times
from testbed.workloads.spec import SendRecv, Workload, WriteBw, WriteLat

SCHEMA_VERSION: Final = 1
DEFAULT_SEED: Final = 1
DEFAULT_DURATION: Final = "3s"
DEFAULT_LATENCY_ITERATIONS: Final = 1000

app = typer.Typer(
    no_args_is_help=True, help="Measure a running lab: bandwidth, latency, neighbours in a ring."
)


def register(root: typer.Typer) -> None:
    """Adds the group of this module to *root*."""
    root.add_typer(app, name="bench", rich_help_panel="Use")


Source = Annotated[str, typer.Argument(metavar="FROM", autocompletion=host_names, help="Sending host.")]
Target = Annotated[str, typer.Argument(metavar="TO", autocompletion=host_names, help="Receiving host.")]
SizeOption = Annotated[str, typer.Option("--size", metavar="SIZE", help="Payload of a message.")]
QpsOption = Annotated[int, typer.Option("--qps", min=1, metavar="NUMBER", help="QPs per pair of hosts.")]
DepthOption = Annotated[
    int, typer.Option("--depth", min=1, metavar="NUMBER", help="Messages outstanding per QP.")
]
IterationsOption = Annotated[
    int | None, typer.Option("--iterations", "-i", min=1, metavar="NUMBER", help="Messages per QP.")
]
DurationOption = Annotated[
    str | None,
    typer.Option("--duration", "-d", metavar="TIME", help=f"Send for; left out, {DEFAULT_DURATION}."),
]


@command(app, "write-bw", heeds=("name", "seed"), needs_root=True)
def write_bw(
    settings: Settings,
    source: Source,
    target: Target,
    size: SizeOption = "64KiB",
    qps: QpsOption = 1,
    depth: DepthOption = 16,
    iterations: IterationsOption = None,
    duration: DurationOption = None,
) -> int:
    """RDMA WRITE bandwidth from one host to another.

    Rates are payload, acknowledged. Received memory is compared with what was
    sent: `#wrong` counts bytes. The exit status is 1 when a byte is wrong or a
    QP failed.

    [bold]Examples[/bold]

      mrc-testbed bench write-bw h0 h5 --size 1MiB
      mrc-testbed bench write-bw h0 h5 --size 4KiB --qps 4 --duration 10s -o json
    """
    values: dict[str, Tree] = {
        "kind": "write-bw",
        "from": source,
        "to": target,
        "size": size,
        "qps": qps,
        "depth": depth,
    }
    return _bench(settings, WriteBw, values, iterations, duration or DEFAULT_DURATION)


@command(app, "write-lat", heeds=("name", "seed"), needs_root=True)
def write_lat(
    settings: Settings,
    source: Source,
    target: Target,
    size: SizeOption = "2B",
    iterations: IterationsOption = None,
    duration: DurationOption = None,
) -> int:
    """RDMA WRITE latency: half the time from a message's first packet to its acknowledgement.

    perftest halves a ping-pong of two WRITEs; here the way back is that of the
    acknowledgement. Times come from the histogram in the NIC, so no process is
    in the way of what is measured.

    [bold]Examples[/bold]

      mrc-testbed bench write-lat h0 h1         within a T0
      mrc-testbed bench write-lat h0 h5         across a T1
    """
    if iterations is None and duration is None:
        iterations = DEFAULT_LATENCY_ITERATIONS
    values: dict[str, Tree] = {"kind": "write-lat", "from": source, "to": target, "size": size}
    return _bench(settings, WriteLat, values, iterations, duration)


@command(app, "sendrecv", heeds=("name", "seed"), needs_root=True)
def sendrecv(
    settings: Settings,
    size: SizeOption = "64KiB",
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="LIST", help="The ring: host names with commas, or all.")
    ] = "all",
    shift: Annotated[
        int,
        typer.Option("--shift", min=1, metavar="NUMBER", help="Each sends to the host so many places on."),
    ] = 1,
    qps: QpsOption = 1,
    depth: DepthOption = 4,
    iterations: IterationsOption = None,
    duration: DurationOption = None,
) -> int:
    """Every host sends to its neighbour in a ring and receives from the other: both directions are busy.

    [bold]Examples[/bold]

      mrc-testbed bench sendrecv --size 1MiB
      mrc-testbed bench sendrecv --shift 4          every flow crosses a T1
      mrc-testbed bench sendrecv --hosts h0,h4,h1,h5
    """
    values: dict[str, Tree] = {
        "kind": "sendrecv",
        "size": size,
        "hosts": hosts if hosts == "all" else [host.strip() for host in hosts.split(",")],
        "shift": shift,
        "qps": qps,
        "depth": depth,
    }
    return _bench(settings, SendRecv, values, iterations, duration or DEFAULT_DURATION)


def _bench(
    settings: Settings,
    model: type[WriteBw | WriteLat | SendRecv],
    values: Mapping[str, Tree],
    iterations: int | None,
    duration: str | None,
) -> int:
    end: dict[str, Tree] = {"iterations": iterations} if iterations is not None else {"duration": duration}
    workload: Workload = validate_values({"name": "bench", **values, **end}, model, "command line")
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    with lab.attach(settings.name) as attached:
        report = run_bench(
            attached,
            build_load(workload, attached.clos),
            duration_ns=workload.duration_ns,
            seed=seed,
            progress=settings.progress,
        )
    document = _document(workload, report) | {"lab": settings.name, "seed": seed}
    show(settings, "Bench", SCHEMA_VERSION, document, lambda: _table(workload, report), lines="flows")
    return ExitCode.PASS if report.has_passed else ExitCode.ERROR


def _document(workload: Workload, report: BenchReport) -> dict[str, Any]:
    return {
        "workload": workload.kind,
        "size_bytes": report.load.size_bytes,
        "depth": report.load.depth,
        "passed": report.has_passed,
        "average_bps": report.average_bps,
        "messages_per_s": report.messages_per_s,
        "messages": report.messages,
        "compared_bytes": report.compared_bytes,
        "wrong_bytes": report.wrong_bytes,
        "errors": list(report.errors),
        "completion_ns": _times_document(report.completion),
        "latency_ns": (
            _times_document(report.completion.scaled(0.5))
            if isinstance(workload, WriteLat) and report.completion
            else None
        ),
        "flows": [_flow_document(flow) for flow in report.flows],
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


def _table(workload: Workload, report: BenchReport) -> RenderableType:
    parts = [_latency_table(report) if isinstance(workload, WriteLat) else _bandwidth_table(report)]
    if report.completion and not isinstance(workload, WriteLat):
        parts.append(_completion_line(report.completion))
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
            f"{flow.messages_per_s / 1e6:.6f}",
            _wrong(outcome.wrong_bytes),
        )
    if has_many:
        table.add_row(
            "all",
            str(report.load.size_bytes),
            str(report.messages),
            "",
            _gbps(report.average_bps),
            f"{report.messages_per_s / 1e6:.6f}",
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
    figures = "  ".join(f"{name} {format_duration_ns(round(value), 3)}" for name, value in shown.items())
    return Text(f"message completion  {figures}", style="dim")


def _comparison_line(report: BenchReport) -> Text:
    compared = format_size_bytes(report.compared_bytes, 3)
    sent = format_size_bytes(report.messages * report.load.size_bytes, 3)
    if report.wrong_bytes:
        return bad(f"{report.wrong_bytes} of the {compared} compared are wrong ({sent} were sent)")
    if report.compared_bytes:
        return good(f"{compared} of {sent} compared, all right")
    return bad("nothing was received that could be compared")


def _gbps(rate_bps: float) -> str:
    return f"{rate_bps / 1e9:.3f}"


def _wrong(count: int) -> Text:
    return Text(str(count), style="red bold" if count else "green")
