"""A workload that was typed, carried out as a run: on a lab that is up, or in virtual time."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.ranks import Write
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.metrics.run_info import RunInfo, announce_run, read_run
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.recording import Journal, Recording
from mrc_testbed.scenario.measure.trust import judge_fidelity
from mrc_testbed.scenario.measure.verdict import Status, Verdict, decide
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.protocols import Clock, LabView
from mrc_testbed.scenario.run.runner import Runner
from mrc_testbed.scenario.spec.load import Scenario, scenario_variants
from mrc_testbed.scenario.spec.plan import Plan, PlannedWorkload
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.transport.transport_kind import AnyCongestion, GoneCongestion
from mrc_testbed.virtual.world import RUNTIME, VirtualLabView, virtual_world

RUNS: Final = Path("runs")


@dataclass(frozen=True, slots=True)
class TypedRun:
    """A workload that was carried out."""

    lab: str  # its name
    recording: Recording  # what happened
    verdict: Verdict  # what it came to
    faults: tuple[str, ...]  # that were in force, or came; id and kind
    finished: FinishedRun | None = None  # its results; None: nobody keeps them
    error: TestbedError | None = None  # what ended it, as far as nobody keeps that

    @property
    def workload(self) -> PlannedWorkload:
        return self.recording.plan.workloads[0]

    @property
    def congestion(self) -> AnyCongestion:
        congestion = self.recording.plan.transport.congestion
        if isinstance(congestion, GoneCongestion):
            raise TypeError(congestion)
        return congestion

    @property
    def transport(self) -> str:
        return f"{self.recording.plan.transport.kind}, {self.congestion.describe()}"

    def document(self) -> dict[str, Any]:
        """Keys that every document of a bench has."""
        plan = self.recording.plan
        return {
            "lab": self.lab,
            "seed": plan.seed,
            "transport": plan.transport.kind,
            "cc": self.congestion.algorithm,
        }

    def remarks(self) -> list[str]:
        """Lines below the table: faults, and where results are."""
        lines = [f"faults              {', '.join(self.faults)}"] if self.faults else []
        if self.finished is not None:
            lines.append(f"report              {self.finished.folder / 'report.html'}")
        return lines


def typed_plans(
    settings: Settings, scenario: Scenario, attached: Lab | None, *, is_virtual: bool
) -> list[Plan]:
    """The plans of a scenario's variants, all admitted.

    Args:
        attached: the lab that is up; None: there is none yet.
    """
    admission = Admission(is_virtual=is_virtual)
    plans = []
    for each in scenario_variants(scenario):
        # NICs of a lab have their algorithms, whatever is asked for
        variant = each if attached is None else replace(each, topology=attached.spec)
        plans.append(resolve(variant))
        admission.plan(variant, plans[-1])
    admission.say(settings)
    return plans


def _announced(attached: Lab | None, plan: Plan, clock: Clock) -> AbstractContextManager[None]:
    """While the context lasts, metrics name a run that nobody keeps, if no other run uses the lab."""
    if attached is None or read_run(attached.state_dir) is not None:
        return nullcontext()
    info = RunInfo(plan.scenario, f"{plan.scenario}-{os.getpid()}", plan.seed, {}, clock.now_ns())
    return announce_run(attached.state_dir, info)


def carry_out(
    settings: Settings,
    plan: Plan,
    source: str,
    attached: Lab | None,
    clock: Clock,
    *,
    runs: Path | None,
    journal: Journal,
    progress: Callable[[str], None],
    show: Write = lambda *_: None,
    agents_may_fail: bool = False,
) -> TypedRun:
    """The run of a plan; a line on stderr says so if it is UNTRUSTED.

    Args:
        source: text of the scenario, kept with the results.
        attached: the lab that is up; None: virtual time.
        runs: folder of result folders; None: nobody keeps results.
        journal: called with everything as it happens when nobody keeps results.
        agents_may_fail: see `live_world`.
    """
    view: LabView = VirtualLabView()
    if attached is None:
        name, faults = RUNTIME, [*plan.faults]
        opened = virtual_world(plan, clock, say_time=settings.progress.simulate, show=show)
    else:
        now_ns = clock.now_ns()
        entries = Ledger(lab_paths(attached.name).faults).shown_entries().values()
        name, faults = attached.name, [entry.fault for entry in entries if entry.is_on(now_ns)]
        opened = live_world(attached, plan, clock, show=show, agents_may_fail=agents_may_fail)
        view = LiveLab(attached)
    named = tuple(f"{each.fault_id} ({each.kind})" for each in faults)
    if attached is not None and named:
        plan = replace(plan, description=f"Faults of the lab when it began: {', '.join(named)}.")
    with opened as world:
        if runs is not None:
            finished = execute(plan, source, world, view, runs, progress)
            result = finished.result
            run = TypedRun(name, result.recording, result.verdict, named, finished)
        else:
            runner = Runner(plan, world, journal, progress)
            with _announced(attached, plan, clock):
                ending = runner.run()
            reasons = tuple(each.reason for each in judge_fidelity(runner.recording) if each.reason)
            verdict = decide((), reasons, ending)
            run = TypedRun(name, runner.recording, verdict, named, None, runner.error)
    if run.verdict.status is Status.UNTRUSTED:
        say(settings.stderr, f"UNTRUSTED: {run.verdict.reason}")
    return run
