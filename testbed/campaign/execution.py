"""Carries a campaign out: run after run, on labs that runs of one topology share; keeps what was measured."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mrc_testbed.campaign.folder import NOT_RUN, CampaignFolder, RunEntry, runs_of
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.run_queue import Choice, RunQueue
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.campaign.summary_files import write_summary
from mrc_testbed.errors import CleanupError, FabricError, TestbedError
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual.run import run_virtually

Progress = Callable[[str], None]
RunOnLab = Callable[[PlannedRun, Path, Progress], FinishedRun]
"""Carries out one run on a lab that is up, its results below a folder."""


Stage = Callable[[TopologySpec], AbstractContextManager[RunOnLab]]
"""Where runs take place: a lab of that topology for as long as the context lasts."""

_CODES: Final = (
    ("error", 1),
    ("failed", Status.FAILED.exit_code),
    ("aborted", Status.ABORTED.exit_code),
    ("untrusted", Status.UNTRUSTED.exit_code),
)
"""Statuses in the order in which the exit code of a campaign ranks them."""


def execute_campaign(
    folder: CampaignFolder,
    stage: Stage,
    *,
    progress: Progress,
    retry: frozenset[str] = frozenset(),
    retries: int = 0,
    is_out_of_time: Callable[[], bool] = lambda: False,
    budget_ns: int | None = None,
) -> int:
    """The exit code of the campaign; runs that are finished are skipped, the summary is written in any case.

    Args:
        folder: of the campaign.
        stage: where runs take place.
        progress: called with each step, in words.
        retry: statuses of finished runs that are done again.
        retries: how often a run that is UNTRUSTED is repeated at once; each keeps its line and its folder.
        is_out_of_time: asked after each run; once it is so, none is begun any more.
        budget_ns: time for all runs together; none is begun that would take it up. None for no limit.

    Raises:
        TestbedError: the machine cannot do it, a lab could not be removed, or results cannot be written.
    """
    queue = RunQueue(folder, retry, budget_ns=budget_ns)
    return _finished(folder, lambda: _carry_out(folder, stage, queue, progress, retries, is_out_of_time))


def execute_in_parallel(
    folder: CampaignFolder,
    jobs: int,
    *,
    progress: Progress,
    retry: frozenset[str] = frozenset(),
    budget_ns: int | None = None,
) -> int:
    """The same in virtual time, in so many processes: runs share nothing.

    Raises:
        TestbedError: results cannot be written.
    """
    queue = RunQueue(folder, retry, budget_ns=budget_ns, jobs=jobs)
    return _finished(folder, lambda: _carry_out_in_parallel(folder, jobs, queue, progress))


def _finished(folder: CampaignFolder, carry_out: Callable[[], bool]) -> int:
    try:
        is_whole = carry_out()
    except KeyboardInterrupt:
        is_whole = False
    finally:
        write_summary(folder)
    return exit_code(folder) if is_whole else Status.INTERRUPTED.exit_code


def exit_code(folder: CampaignFolder) -> int:
    """Return the worst exit code of runs and expectations; 0 when all held."""
    statuses = summarize_campaign(folder).statuses
    if statuses & {Status.INTERRUPTED.value, NOT_RUN}:
        return Status.INTERRUPTED.exit_code
    return next((code for status, code in _CODES if status in statuses), 0)


def _carry_out(
    folder: CampaignFolder,
    stage: Stage,
    queue: RunQueue,
    progress: Progress,
    retries: int,
    is_out_of_time: Callable[[], bool],
) -> bool:
    """Run what is pending; return False when interrupted."""
    while (choice := queue.next()) is not None:
        topology = choice.run.plan.topology
        try:
            with stage(topology) as run_on_lab:
                while choice is not None and choice.run.plan.topology == topology:
                    run = choice.run
                    progress(queue.begin(choice))
                    for attempt in range(retries + 1):
                        entry = carry_out_run(run, folder.path, run_on_lab, progress)
                        again = f"it was UNTRUSTED before, {attempt} of {retries} times" if attempt else ""
                        queue.note(run, replace(entry, why=again or choice.why))
                        progress(f"{run.key}: {entry.status}")
                        if entry.status != Status.UNTRUSTED.value or is_out_of_time():
                            break
                    queue.end(run)
                    if entry.status == Status.INTERRUPTED.value or (queue.has_pending and is_out_of_time()):
                        return False
                    if entry.status == Status.ERROR.value or is_out_of_time():
                        break  # whatever broke, the next run gets a lab of its own
                    choice = queue.next()
        except CleanupError:
            raise
        except FabricError as error:
            # Every run of this topology would end the same way.
            queue.give_up(topology)
            while choice is not None and choice.run.plan.topology == topology:
                queue.begin(choice)
                queue.note(choice.run, replace(_error_entry(choice.run, error), why=choice.why))
                choice = queue.next()
        if is_out_of_time():
            break
    return not queue.has_pending


def _carry_out_in_parallel(folder: CampaignFolder, jobs: int, queue: RunQueue, progress: Progress) -> bool:
    """Run what is pending in parallel; return False when interrupted: then begun runs end as partial."""
    is_interrupted = False
    # not by fork: the library keeps its lab in globals, and threads of this process may hold locks
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, ignore_signals) as pool:
        begun: dict[Future[RunEntry], Choice] = {}
        while True:
            try:
                while not is_interrupted and len(begun) < jobs and (choice := queue.next()) is not None:
                    progress(queue.begin(choice))
                    begun[pool.submit(carry_out_virtually, choice.run, folder.path)] = choice
                if not begun:
                    return not is_interrupted and not queue.has_pending
                done, _ = wait(begun, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:
                is_interrupted = True
                continue
            for future in done:
                choice = begun.pop(future)
                entry = future.result()
                queue.note(choice.run, replace(entry, why=choice.why))
                queue.end(choice.run)
                progress(f"{entry.key}: {entry.status}")
                is_interrupted |= entry.status == Status.INTERRUPTED.value


def ignore_signals() -> None:
    """For a process that carries out runs: between two of them only its parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored, it would be ignored during runs too
        signal.signal(signal.SIGHUP, lambda *_: None)


def carry_out_virtually(run: PlannedRun, campaign: Path) -> RunEntry:
    """Run in virtual time, in a process of its own, and return the journal's entry."""
    return carry_out_run(run, campaign, _virtual_lab(), lambda _: None)


def carry_out_run(run: PlannedRun, campaign: Path, run_on_lab: RunOnLab, progress: Progress) -> RunEntry:
    """Run in virtual time for the campaign in folder *campaign*, and return the journal's entry."""
    try:
        finished = run_on_lab(run, runs_of(campaign), lambda step: progress(f"{run.index}: {step}"))
    except TestbedError as error:
        return _error_entry(run, error)
    verdict = finished.result.verdict
    path = finished.folder.resolve().relative_to(campaign.resolve())
    return RunEntry(run.key, verdict.status.value, verdict.exit_code, verdict.reason, str(path), _now_utc())


def _error_entry(run: PlannedRun, error: TestbedError) -> RunEntry:
    return RunEntry(run.key, Status.ERROR.value, error.exit_code, error.message, None, _now_utc())


def _now_utc() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def virtual_stage(force: Callable[[], object]) -> Stage:
    """Labs in virtual time, one for each run.

    Args:
        force: called at the second signal during a run.
    """
    return lambda _: nullcontext(_virtual_lab(force))


def _virtual_lab(force: Callable[[], object] | None = None) -> RunOnLab:
    return lambda run, runs, say: run_virtually(run.plan, run.source, runs, force=force, progress=say)


def live_stage(
    *,
    name: str,
    runtime: str | None,
    force: Callable[[], object],
    progress: Progress,
) -> Stage:
    """Labs of this machine.

    Args:
        name: of the lab; one of that name that is up is used for runs of its topology.
        runtime: for labs that are made; None: as `up` chooses.
        force: called at the second signal during a run.
        progress: called with the present step.
    """

    @contextmanager
    def stage(topology: TopologySpec) -> Iterator[RunOnLab]:
        with lab_for_run(topology, name=name, runtime=runtime, progress=progress) as lab:

            def run_on_lab(run: PlannedRun, runs: Path, say: Progress) -> FinishedRun:
                with ExitStack() as stack:
                    clock = stack.enter_context(catching_signals(force))
                    world = stack.enter_context(live_world(lab, clock))
                    return execute(run.plan, run.source, world, LiveLab(lab), runs, say)

            yield run_on_lab

    return stage
