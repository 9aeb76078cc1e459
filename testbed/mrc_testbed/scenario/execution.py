"""One run from plan to result folder: what `run`, `replay` and a campaign call."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mrc_testbed.scenario.measure.provenance import observe_provenance
from mrc_testbed.scenario.measure.verdict import Ending, Status
from mrc_testbed.scenario.report.result import Instant, RunResult, judge_run
from mrc_testbed.scenario.report.result_folder import ResultFolder
from mrc_testbed.scenario.report.result_text import describe_clock_step
from mrc_testbed.scenario.run.protocols import LabView
from mrc_testbed.scenario.run.runner import Runner, World
from mrc_testbed.scenario.spec.plan import Plan


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run and where its results are."""

    result: RunResult
    folder: Path


def execute(
    plan: Plan,
    source: str | None,
    world: World,
    lab: LabView,
    runs: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> FinishedRun:
    """The finished run of *plan*, its results written; also when it failed, was aborted or interrupted.

    Args:
        source: text of the scenario file, kept with the results; None without one.
    """
    provenance = observe_provenance(lab.name, lab.runtime)
    started = _now(world)
    with ResultFolder(runs, plan, source, started.utc, provenance) as folder:
        runner = Runner(plan, world, folder, progress)
        try:
            with lab.announced(plan, folder.path):
                ending = runner.run()
        except BaseException as error:
            # A bug or a forced end: what was measured is worth keeping, the exception is not ours to judge.
            _finish(folder, started, runner, world, Ending(Status.ERROR, f"{type(error).__name__}: {error}"))
            raise
        result = _finish(folder, started, runner, world, ending)
        if result.clock_step_ns:
            progress(describe_clock_step(result.clock_step_ns))
        lab.show_recovery(result.recoveries)
        return FinishedRun(result, folder.path)


def _finish(
    folder: ResultFolder, started: Instant, runner: Runner, world: World, ending: Ending | None
) -> RunResult:
    result = judge_run(folder.run_id, started, _now(world), runner.recording, ending, folder.provenance)
    folder.finish(result)
    return result


def _now(world: World) -> Instant:
    return Instant(world.clock.utc_now(), world.clock.now_ns())
