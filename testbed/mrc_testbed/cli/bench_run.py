"""The one workload of a `bench`, carried out as a run: on the lab that is up, or in virtual time."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from mrc_testbed.cli.bench_options import BenchOptions
from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.cli.typed_run import RUNS, TypedRun, carry_out, typed_plans
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.attendance import require_working
from mrc_testbed.scenario.measure.recording import Journal, Recording
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.spec.one_workload import one_workload_scenario
from mrc_testbed.scenario.spec.plan import Plan

WORKLOAD: Final = "bench"

_SECOND_NS: Final = 1_000_000_000


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
            _save(options.save, scenario.document.text)
        clock = stack.enter_context(catching_signals(force_end))
        text, runs = scenario.document.text, RUNS if options.report else None
        yield (_carried_out(settings, plan, text, attached, clock, runs) for plan in plans)


def _save(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--save: {path} cannot be written: {error.strerror}") from error


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
