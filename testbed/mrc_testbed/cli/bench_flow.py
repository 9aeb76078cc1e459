"""bench write-bw | write-lat | sendrecv | incast | permutation, reported as perftest does."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from mrc_testbed.cli.admission import say_load
from mrc_testbed.cli.bench_flow_report import bench_document, bench_table
from mrc_testbed.cli.bench_options import (
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
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import Settings, command, with_parameters
from mrc_testbed.cli.render import show
from mrc_testbed.document import Tree, validate_values
from mrc_testbed.fabric import lab
from mrc_testbed.faults.attendance import require_working
from mrc_testbed.workloads.bench import run_bench
from mrc_testbed.workloads.flow import FlowWorkload
from mrc_testbed.workloads.load import build_loads
from mrc_testbed.workloads.spec import Incast, Permutation, SendRecv, WriteBw, WriteLat

SCHEMA_VERSION: Final = 1
DEFAULT_LATENCY_ITERATIONS: Final = 1000

ShiftOption = Annotated[
    int, typer.Option("--shift", min=1, metavar="NUMBER", help="Distance of each receiver on the ring.")
]


def _host_list(flag: str, help_text: str) -> Any:
    return Annotated[Any, typer.Option(flag, metavar="LIST", parser=listed_hosts, help=help_text)]


_SIZES: Final = {"size": (SizeOption, "64KiB"), "qps": (QpsOption, 1)}
_SHARED: Final = {
    "iterations": (IterationsOption, None),
    "duration": (DurationOption, None),
    "transport": (TransportOption, "mrc"),
    "cc": (CcOption, None),
    "window": (WindowOption, None),
}
_REQUIRED: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class FlowCommand:
    """A command of `bench` with flows of messages."""

    model: type[FlowWorkload]  # of its workload
    # key of the workload (`from_` for `from`) -> option or argument, and its default
    own: Mapping[str, tuple[Any, Any]]
    text: str  # its help
    # of sending without --iterations and --duration; None for DEFAULT_LATENCY_ITERATIONS instead
    duration: str | None = DEFAULT_DURATION


_COMMANDS: Final = {
    "write-bw": FlowCommand(
        WriteBw,
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
        WriteLat,
        {"from_": (Source, _REQUIRED), "to": (Target, _REQUIRED), "size": (SizeOption, "2B")},
        """Measure RDMA WRITE latency: half the time from first packet to acknowledgement.

    perftest halves a ping-pong of two WRITEs; here an acknowledgement comes back
    instead. The NIC takes the times, so that no process adds to them.

    [bold]Examples[/bold]

      mrc-testbed bench write-lat h0 h1         within a T0
      mrc-testbed bench write-lat h0 h5         across a T1
    """,
        duration=None,
    ),
    "sendrecv": FlowCommand(
        SendRecv,
        {
            **_SIZES,
            "hosts": (_host_list("--hosts", "Hosts of the ring: names with commas, or all."), "all"),
            "shift": (ShiftOption, 1),
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
        Incast,
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
        Permutation,
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


def register(app: typer.Typer) -> None:
    for name, each in _COMMANDS.items():
        command(app, name, flags=("name", "seed", "overload"), needs_root=True)(_running(name, each))


def _running(kind: str, flow: FlowCommand) -> Callable[..., int]:
    def run(
        settings: Settings,
        iterations: int | None,
        duration: str | None,
        transport: str,
        cc: str | None,
        window: int | None,
        **own: Tree,
    ) -> int:
        values: dict[str, Tree] = {"kind": kind, **{key.removesuffix("_"): own[key] for key in flow.own}}
        if iterations is None and duration is None:
            iterations = DEFAULT_LATENCY_ITERATIONS if flow.duration is None else None
        chosen = choose_transport(transport, cc, window)
        return _bench(settings, flow.model, values, iterations, duration or flow.duration, chosen)

    with_parameters(
        run,
        (
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for key, (annotation, default) in {**flow.own, **_SHARED}.items()
        ),
    )
    run.__doc__ = flow.text
    return run


def _bench(
    settings: Settings,
    model: type[FlowWorkload],
    values: Mapping[str, Tree],
    iterations: int | None,
    duration: str | None,
    transport: TransportChoice,
) -> int:
    end: dict[str, Tree] = {"iterations": iterations} if iterations is not None else {"duration": duration}
    workload: FlowWorkload = validate_values({"name": "bench", **values, **end}, model, "command line")
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    with lab.attach(settings.name) as attached:
        require_working(settings.name)
        congestion = transport.congestion(attached.clos)
        load = build_loads(workload, attached.clos, seed=seed)[0]
        say_load(settings, attached.spec, load)
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
        "window_packets": congestion.window_packets,
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
