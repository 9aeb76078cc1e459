"""bench write-bw | write-lat | sendrecv | incast | permutation, reported as perftest does."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from testbed.cli.bench_flow_report import bench_document, bench_table
from testbed.cli.bench_options import (
    DEFAULT_DURATION,
    DEFAULT_SEED,
    CcOption,
    DepthOption,
    DurationOption,
    IterationsOption,
    QpsOption,
    SizeOption,
    Source,
    Target,
    TransportChoice,
    TransportOption,
    WindowOption,
    choose_transport,
    listed_hosts,
)
from testbed.cli.exit_codes import ExitCode
from testbed.cli.options import Settings, command
from testbed.cli.overload import OverloadGate, OverloadOption
from testbed.cli.render import show
from testbed.document import Tree, validate_values
from testbed.fabric import lab
from testbed.faults.attendance import require_working
from testbed.transport.kernel_tcp import TcpCongestion
from testbed.workloads.bench import run_bench
from testbed.workloads.flow import FlowWorkload
from testbed.workloads.load import build_loads
from testbed.workloads.spec import Incast, Permutation, SendRecv, WriteBw, WriteLat

SCHEMA_VERSION: Final = 1
DEFAULT_LATENCY_ITERATIONS: Final = 1000


def register(app: typer.Typer) -> None:
    for name, run in _COMMANDS.items():
        command(app, name, flags=("name", "seed"), needs_root=True)(run)


def write_bw(
    settings: Settings,
    source: Source,
    target: Target,
    size: SizeOption = "64KiB",
    qps: QpsOption = 1,
    depth: DepthOption = 16,
    iterations: IterationsOption = None,
    duration: DurationOption = None,
    transport: TransportOption = "mrc",
    cc: CcOption = None,
    window: WindowOption = None,
    overload: OverloadOption = False,
) -> int:
    """Measure RDMA WRITE bandwidth from one host to another.

    Rates are of acknowledged payload. Received memory is compared with what was
    sent; `#wrong` counts bytes. The exit status is 1 when a byte is wrong or a
    QP failed.

    [bold]Examples[/bold]

      mrc-testbed bench write-bw h0 h5 --size 1MiB
      mrc-testbed bench write-bw h0 h5 --size 4KiB --qps 4 --duration 10s -o json
      mrc-testbed bench write-bw h0 h5 --window 128
      mrc-testbed bench write-bw h0 h5 --transport tcp --cc bbr
    """
    values: dict[str, Tree] = {
        "kind": "write-bw",
        "from": source,
        "to": target,
        "size": size,
        "qps": qps,
        "depth": depth,
    }
    return _bench(
        settings,
        WriteBw,
        values,
        iterations,
        duration or DEFAULT_DURATION,
        choose_transport(transport, cc, window),
        OverloadGate(insists=overload),
    )


def write_lat(
    settings: Settings,
    source: Source,
    target: Target,
    size: SizeOption = "2B",
    iterations: IterationsOption = None,
    duration: DurationOption = None,
    transport: TransportOption = "mrc",
    cc: CcOption = None,
    window: WindowOption = None,
    overload: OverloadOption = False,
) -> int:
    """Measure RDMA WRITE latency: half the time from first packet to acknowledgement.

    perftest halves a ping-pong of two WRITEs; here an acknowledgement comes back
    instead. The NIC takes the times, so that no process adds to them.

    [bold]Examples[/bold]

      mrc-testbed bench write-lat h0 h1         within a T0
      mrc-testbed bench write-lat h0 h5         across a T1
    """
    if iterations is None and duration is None:
        iterations = DEFAULT_LATENCY_ITERATIONS
    values: dict[str, Tree] = {"kind": "write-lat", "from": source, "to": target, "size": size}
    chosen = choose_transport(transport, cc, window)
    gate = OverloadGate(insists=overload)
    return _bench(settings, WriteLat, values, iterations, duration, chosen, gate)


def sendrecv(
    settings: Settings,
    size: SizeOption = "64KiB",
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="LIST", help="Hosts of the ring: names with commas, or all.")
    ] = "all",
    shift: Annotated[
        int,
        typer.Option("--shift", min=1, metavar="NUMBER", help="Distance of each receiver on the ring."),
    ] = 1,
    qps: QpsOption = 1,
    depth: DepthOption = 4,
    iterations: IterationsOption = None,
    duration: DurationOption = None,
    transport: TransportOption = "mrc",
    cc: CcOption = None,
    window: WindowOption = None,
    overload: OverloadOption = False,
) -> int:
    """Send along a ring of hosts: each sends to one neighbour, receives from the other.

    [bold]Examples[/bold]

      mrc-testbed bench sendrecv --size 1MiB
      mrc-testbed bench sendrecv --shift 4          every flow crosses a T1
      mrc-testbed bench sendrecv --hosts h0,h4,h1,h5
    """
    values: dict[str, Tree] = {
        "kind": "sendrecv",
        "size": size,
        "hosts": listed_hosts(hosts),
        "shift": shift,
        "qps": qps,
        "depth": depth,
    }
    return _bench(
        settings,
        SendRecv,
        values,
        iterations,
        duration or DEFAULT_DURATION,
        choose_transport(transport, cc, window),
        OverloadGate(insists=overload),
    )


def incast(
    settings: Settings,
    target: Target,
    hosts: Annotated[
        str, typer.Option("--from", metavar="LIST", help="Senders: host names with commas, or all others.")
    ] = "all",
    size: SizeOption = "64KiB",
    qps: QpsOption = 1,
    depth: DepthOption = 4,
    iterations: IterationsOption = None,
    duration: DurationOption = None,
    transport: TransportOption = "mrc",
    cc: CcOption = None,
    window: WindowOption = None,
    overload: OverloadOption = False,
) -> int:
    """Send from many hosts to one and show how fairly they share its port.

    [bold]Examples[/bold]

      mrc-testbed bench incast h0
      mrc-testbed bench incast h0 --from h1,h4,h5 --duration 10s
    """
    values: dict[str, Tree] = {
        "kind": "incast",
        "from": listed_hosts(hosts),
        "to": target,
        "size": size,
        "qps": qps,
        "depth": depth,
    }
    return _bench(
        settings,
        Incast,
        values,
        iterations,
        duration or DEFAULT_DURATION,
        choose_transport(transport, cc, window),
        OverloadGate(insists=overload),
    )


def permutation(
    settings: Settings,
    size: SizeOption = "64KiB",
    sources: Annotated[
        str, typer.Option("--from", metavar="LIST", help="Senders: host names with commas, or all.")
    ] = "all",
    targets: Annotated[
        str, typer.Option("--to", metavar="LIST", help="Receivers, as many as senders, or all.")
    ] = "all",
    qps: QpsOption = 1,
    depth: DepthOption = 4,
    iterations: IterationsOption = None,
    duration: DurationOption = None,
    transport: TransportOption = "mrc",
    cc: CcOption = None,
    window: WindowOption = None,
    overload: OverloadOption = False,
) -> int:
    """Send from each host to one other, drawn by --seed; each receives from one.

    [bold]Examples[/bold]

      mrc-testbed bench permutation --seed 3
      mrc-testbed bench permutation --from h0,h1,h2,h3 --to h4,h5,h6,h7
    """
    values: dict[str, Tree] = {
        "kind": "permutation",
        "from": listed_hosts(sources),
        "to": listed_hosts(targets),
        "size": size,
        "qps": qps,
        "depth": depth,
    }
    return _bench(
        settings,
        Permutation,
        values,
        iterations,
        duration or DEFAULT_DURATION,
        choose_transport(transport, cc, window),
        OverloadGate(insists=overload),
    )


def _bench(
    settings: Settings,
    model: type[FlowWorkload],
    values: Mapping[str, Tree],
    iterations: int | None,
    duration: str | None,
    transport: TransportChoice,
    gate: OverloadGate,
) -> int:
    end: dict[str, Tree] = {"iterations": iterations} if iterations is not None else {"duration": duration}
    workload: FlowWorkload = validate_values({"name": "bench", **values, **end}, model, "command line")
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    with lab.attach(settings.name) as attached:
        require_working(settings.name)
        congestion = transport.congestion(attached.clos)
        load = build_loads(workload, attached.clos, seed=seed)[0]
        gate.bench(attached, load, workload.kind)
        gate.say_warnings(settings)
        report = run_bench(
            attached,
            load,
            transport=transport.kind,
            congestion=congestion,
            duration_ns=workload.duration_ns,
            seed=seed,
            progress=settings.progress,
        )
    document = bench_document(workload, report) | {
        "lab": settings.name,
        "seed": seed,
        "transport": transport.kind,
        "cc": congestion.algorithm,
        "window_packets": None if isinstance(congestion, TcpCongestion) else congestion.window_packets,
    }
    over = f"{transport.kind}, {congestion.describe()}"
    show(
        settings,
        "Bench",
        SCHEMA_VERSION,
        document,
        lambda: bench_table(workload, report, over),
        lines="flows",
    )
    return ExitCode.PASS if report.has_passed else ExitCode.ERROR


_COMMANDS: Final[Mapping[str, Callable[..., int]]] = {
    "write-bw": write_bw,
    "write-lat": write_lat,
    "sendrecv": sendrecv,
    "incast": incast,
    "permutation": permutation,
}
