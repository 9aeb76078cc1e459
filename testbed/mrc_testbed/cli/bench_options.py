"""Options that the commands of `bench` share; and their workload carried out, on a lab or in virtual time."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.cli.typed_run import RUNS, TypedRun, carry_out, typed_plans
from mrc_testbed.cli.where import VirtualOption
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import TestbedError, UsageError, did_you_mean
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.attendance import require_working
from mrc_testbed.scenario.measure.recording import Journal, Recording
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.spec.one_workload import one_workload_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.transport.transport_kind import TRANSPORT_KINDS, any_algorithms, refuse_gone

DEFAULT_DURATION: Final = "3s"
VIRTUAL_DURATION: Final = "1ms"
"""Eight hosts with ports of 100 Gbit/s send a million frames in it."""
ITERATIONS_TIMEOUT: Final = "24h"
"""So long that whoever waits for a bench by iterations ends it before."""
FLAGS: Final = ("name", "topology", "seed", "overload")

ReportOption = Annotated[
    bool, typer.Option("--report", show_default=False, help="Keep results and report, in runs/.")
]

Options = Mapping[str, tuple[Any, Any]]
"""Parameter of a command -> its option or argument, and its default."""

WORKLOAD: Final = "bench"

_SECOND_NS: Final = 1_000_000_000


def option(kind: Any, default: Any, *names: str, **more: Any) -> tuple[Any, Any]:
    """An option with a value of that type, and its default."""
    return Annotated[kind, typer.Option(*names, **more)], default


SHARED: Final[Options] = {
    "transport": option(
        str,
        "mrc",
        "--transport",
        metavar="KIND",
        autocompletion=lambda: TRANSPORT_KINDS,
        help="Transport: mrc, rocev2, infiniband, spray-gbn.",
    ),
    "cc": option(
        str | None,
        None,
        "--cc",
        metavar="NAME",
        autocompletion=any_algorithms,
        help="Congestion control: fixed, that of the topology's NICs (nscc, unless it says another), dcqcn "
        "(default: by transport and fabric).",
    ),
    "window": option(
        int | None,
        None,
        "--window",
        min=1,
        max=1024,
        metavar="PACKETS",
        help="Fixed window (default: of the topology).",
    ),
    "virtual": (VirtualOption, False),
    "save": option(
        Path | None,
        None,
        "--save",
        metavar="FILE",
        help="Write the Scenario file that this bench is, for `run`.",
    ),
    "report": (ReportOption, False),
}
"""Options of all commands of `bench`; see BenchOptions."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    # transport, cc, window: how messages are carried
    transport: str
    cc: str | None
    window: int | None
    virtual: bool  # whether in virtual time
    save: Path | None  # where the scenario is written
    report: bool  # whether results are kept

    def __post_init__(self) -> None:
        refuse_gone(self.transport)
        if self.transport not in TRANSPORT_KINDS:
            known = ", ".join(TRANSPORT_KINDS)
            meant = did_you_mean(self.transport, TRANSPORT_KINDS)
            raise UsageError(f"--transport: {self.transport!r}; {known} are accepted{meant}")

    def transport_fields(self) -> dict[str, Tree] | None:
        """The transport as a file has it; None: none was asked for."""
        fields = {"kind": self.transport, "cc": self.cc, "window": self.window}
        given: dict[str, Tree] = {key: value for key, value in fields.items() if value is not None}
        return None if given == {"kind": "mrc"} else given


def parameters(options: Options) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for key, (annotation, default) in options.items()
    ]


def listed_hosts(hosts: str) -> Tree:
    """Host names of a list with commas, or `all`, in the form of a workload."""
    return hosts if hosts == "all" else [host.strip() for host in hosts.split(",")]


@contextmanager
def bench_runs(
    settings: Settings,
    options: BenchOptions,
    workload: Mapping[str, Tree],
    sizes: Mapping[str, Tree] | None = None,
) -> Iterator[Iterator[TypedRun]]:
    """A run for each size, carried out as it is asked for.

    Args:
        workload: fields, as a file has them.
        sizes: name of a variant -> its size in place of the workload's; None: there is one run.
    """
    with ExitStack() as stack:
        attached = None
        if not options.virtual:
            if settings.topology is not None:
                raise UsageError("-t: it is for --virtual; without it, the lab that is up is used")
            attached = stack.enter_context(lab.attach(settings.name))
            require_working(settings.name)
        scenario = one_workload_scenario(
            f"bench-{workload['kind']}",
            {"name": WORKLOAD, **workload},
            transport=options.transport_fields(),
            topology=settings.topology if attached is None else attached.spec,
            seed=settings.seed,
            sizes=sizes,
        )
        plans = typed_plans(settings, scenario, attached, is_virtual=options.virtual)
        if options.save is not None:
            try:
                with options.save.open("x", encoding="utf-8") as file:
                    file.write(scenario.document.text)
            except OSError as error:
                raise UsageError(f"--save: {options.save} cannot be written: {error.strerror}") from error
        clock = stack.enter_context(catching_signals(force_end))
        text, runs = scenario.document.text, RUNS if options.report else None
        yield (_carried_out(settings, plan, text, attached, clock, runs) for plan in plans)


def _carried_out(
    settings: Settings, plan: Plan, source: str, attached: Lab | None, clock: Clock, runs: Path | None
) -> TypedRun:
    progress = _Progress(settings, plan)
    run = carry_out(settings, plan, source, attached, clock, runs=runs, journal=progress, progress=progress)
    if run.verdict.status is Status.INTERRUPTED:
        say(settings.stderr, run.verdict.reason)
        raise KeyboardInterrupt
    if run.verdict.status is Status.ERROR or not run.recording.outcomes:
        raise run.error or TestbedError(run.verdict.reason)
    return run


class _Progress(Journal):
    """The journal of a run that nobody keeps, which shows how far it is."""

    def __init__(self, settings: Settings, plan: Plan) -> None:
        self._show = settings.progress
        self._workload = plan.workloads[0]
        self._is_sending = False

    def __call__(self, words: str) -> None:
        """Show a step of the runner's before sending begins."""
        if not self._is_sending:
            self._show(words)

    def note_reading(self, recording: Recording) -> None:
        """Show the seconds or messages so far."""
        self._is_sending = True  # the first reading comes when all is prepared
        if self._workload.duration_ns is not None:
            done_ns = recording.readings[-1].time_ns - recording.start_ns
            total_s = self._workload.duration_ns // _SECOND_NS
            self._show(f"{WORKLOAD}: sending, seconds", min(done_ns // _SECOND_NS, total_s), total_s)
        elif self._workload.collective is None and recording.flow_readings:
            sent_bytes = sum(recording.flow_readings[-1].acknowledged_bytes.values())
            messages = (self._workload.iterations or 0) * len(self._workload.flows)
            self._show(f"{WORKLOAD}: sending, messages", sent_bytes // self._workload.size_bytes, messages)
        else:
            self._show(f"{WORKLOAD}: sending")
