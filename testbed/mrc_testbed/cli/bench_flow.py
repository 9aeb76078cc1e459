"""bench write-bw | write-lat | sendrecv | incast | permutation, reported as perftest does."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from mrc_testbed.cli.bench_flow_report import bench_document, bench_table
from mrc_testbed.cli.bench_options import (
    DEFAULT_DURATION,
    FLAGS,
    ITERATIONS_TIMEOUT,
    SHARED,
    VIRTUAL_DURATION,
    BenchOptions,
    DepthOption,
    DurationOption,
    IterationsOption,
    Options,
    QpsOption,
    SizeOption,
    Source,
    Target,
    listed_hosts,
    parameters,
)
from mrc_testbed.cli.bench_run import BenchRun, bench_runs
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import Settings, command, with_parameters
from mrc_testbed.cli.render import show
from mrc_testbed.document import Tree
from mrc_testbed.workloads.perftest import BenchReport, build_report

SCHEMA_VERSION: Final = 1

ShiftOption = Annotated[
    int, typer.Option("--shift", min=1, metavar="NUMBER", help="Distance of each receiver on the ring.")
]


def _host_list(flag: str, help_text: str) -> Any:
    return Annotated[Any, typer.Option(flag, metavar="LIST", parser=listed_hosts, help=help_text)]


_SIZES: Final[Options] = {"size": (SizeOption, "64KiB"), "qps": (QpsOption, 1)}
_END: Final[Options] = {"iterations": (IterationsOption, None), "duration": (DurationOption, None)}
_REQUIRED: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class FlowCommand:
    """A command of `bench` with flows of messages."""

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


def register(app: typer.Typer) -> None:
    for name, each in _COMMANDS.items():
        command(app, name, flags=FLAGS, needs_root=True)(_running(name, each))


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
            SCHEMA_VERSION,
            bench_document(found, report),
            lambda: bench_table(found, report),
            lines="flows",
        )
        return ExitCode.PASS if report.has_passed else ExitCode.ERROR

    with_parameters(run, parameters({**flow.own, **_END, **SHARED}))
    run.__doc__ = flow.text
    return run


def _report(found: BenchRun) -> BenchReport:
    recording, workload = found.recording, found.workload
    first, last = recording.readings[0], recording.readings[-1]
    completion = last.message_completion.since(first.message_completion)
    return build_report(workload.load, recording.outcomes, recording.batches[workload.name], completion)
