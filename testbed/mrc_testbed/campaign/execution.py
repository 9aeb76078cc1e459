"""Carries a campaign out: run after run, on labs that runs of one topology share; keeps what was measured."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.campaign.folder import NOT_RUN, CampaignFolder, RunEntry, runs_of
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.campaign.summary_files import write_summary
from mrc_testbed.campaign.workers import Workers
from mrc_testbed.errors import CleanupError, FabricError, Interrupted, TestbedError
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual.world import run_virtually

_MINUTES_FROM_S: Final = 120

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


class RunQueue:
    """The runs of a campaign's folder that are still to be done.

    Args:
        folder: of the campaign; entries are noted through `note`.
        retry: statuses of finished runs that are done again.
        room: number of runs that are done at a time now.
        now_ns: a clock that only goes forward.
    """

    def __init__(
        self,
        folder: CampaignFolder,
        retry: frozenset[str] = frozenset(),
        *,
        room: Callable[[], int] = lambda: 1,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._folder = folder
        self._pending = folder.pending(retry)
        self._total = len(folder.wanted)
        self._room = room
        self._now_ns = now_ns
        self._begun_ns: dict[str, int] = {}
        self._took_ns: list[int] = []

    def next(self) -> PlannedRun | None:
        """The run to begin now; None when there is none."""
        return next(iter(self._pending), None)

    def begin(self, run: PlannedRun) -> str:
        """Takes a run out of the queue; returns what to say of it, with the time that the rest takes."""
        self._pending.remove(run)
        self._begun_ns[run.key] = self._now_ns()
        number = self._total - len(self._pending)
        return f"run {number} of {self._total}{self._eta()}: {run.key}"

    def note(self, run: PlannedRun, entry: RunEntry) -> None:
        """Writes the end of a run to the journal."""
        self._folder.note(entry)
        if run.key in self._begun_ns:
            self._took_ns.append(self._now_ns() - self._begun_ns.pop(run.key))

    def _eta(self) -> str:
        if not self._took_ns:
            return ""
        mean_ns = sum(self._took_ns) / len(self._took_ns)
        left_s = round(mean_ns * (len(self._pending) + 1) / max(1, self._room()) / 1e9)
        return f", {left_s} s left" if left_s < _MINUTES_FROM_S else f", {round(left_s / 60)} min left"


def execute_campaign(
    folder: CampaignFolder,
    stage: Stage,
    *,
    progress: Progress,
    retry: frozenset[str] = frozenset(),
    retries: int = 0,
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> int:
    """The exit code of the campaign; runs that are finished are skipped, the summary is written in any case.

    Args:
        retries: how often a run that is UNTRUSTED is repeated at once; each keeps its line and its folder.
        is_out_of_time: asked after each run; once it is so, none is begun any more.
    """
    queue = RunQueue(folder, retry)
    return _finished(folder, lambda: _carry_out(folder, stage, queue, progress, retries, is_out_of_time))


def execute_in_parallel(
    folder: CampaignFolder,
    workers: Workers,
    *,
    progress: Progress,
    retry: frozenset[str] = frozenset(),
    retries: int = 0,
) -> int:
    """The same, as many runs at a time as *workers* have room for: runs share nothing."""
    queue = RunQueue(folder, retry, room=workers.room)
    return _finished(folder, lambda: _carry_out_in_parallel(workers, queue, progress, retries))


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
    while (run := queue.next()) is not None:
        topology = run.plan.topology
        try:
            with stage(topology) as run_on_lab:
                while run is not None and run.plan.topology == topology:
                    progress(queue.begin(run))
                    for attempt in range(retries + 1):
                        entry = carry_out_run(run, folder.path, run_on_lab, progress)
                        queue.note(run, replace(entry, why=_why(attempt, retries)))
                        progress(f"{run.key}: {entry.status}")
                        if entry.status != Status.UNTRUSTED.value or is_out_of_time():
                            break
                    run = queue.next()
                    if entry.status == Status.INTERRUPTED.value or (run is not None and is_out_of_time()):
                        return False
                    if entry.status == Status.ERROR.value:
                        break  # whatever broke, the next run gets a lab of its own
        except CleanupError:
            raise
        except FabricError as error:
            # Every run of this topology would end the same way.
            while run is not None and run.plan.topology == topology:
                queue.begin(run)
                queue.note(run, error_entry(run, error))
                run = queue.next()
            if run is not None and is_out_of_time():
                return False
    return True


def _carry_out_in_parallel(workers: Workers, queue: RunQueue, progress: Progress, retries: int) -> bool:
    """Run what is pending in parallel; return False when interrupted: then begun runs end as partial."""
    is_interrupted = False
    begun: dict[str, PlannedRun] = {}
    attempts: Counter[str] = Counter()
    while True:
        try:
            run = None if is_interrupted else queue.next()
            if run is None and not begun:
                return not is_interrupted
            if run is not None and len(begun) < workers.room():
                progress(queue.begin(run))
                begun[run.key] = run
                workers.begin(run)
                continue
            done = workers.wait()
        except KeyboardInterrupt:
            is_interrupted = True
            workers.interrupt()
            continue
        for entry in done:
            run = begun[entry.key]
            queue.note(run, replace(entry, why=_why(attempts[entry.key], retries)))
            progress(f"{entry.key}: {entry.status}")
            is_interrupted |= entry.status == Status.INTERRUPTED.value
            if (
                entry.status == Status.UNTRUSTED.value
                and attempts[entry.key] < retries
                and not is_interrupted
            ):
                attempts[entry.key] += 1
                workers.begin(run)
                continue
            del begun[entry.key]


def _why(attempt: int, retries: int) -> str:
    """Reason of a run that was UNTRUSTED before; else empty."""
    return f"it was UNTRUSTED before, {attempt} of {retries} times" if attempt else ""


def carry_out_virtually(run: PlannedRun, campaign: Path) -> RunEntry:
    """Run in virtual time, in a process of its own, and return the journal's entry."""
    with virtual_stage(None)(run.plan.topology) as run_on_lab:
        return carry_out_run(run, campaign, run_on_lab, lambda _: None)


def carry_out_run(run: PlannedRun, campaign: Path, run_on_lab: RunOnLab, progress: Progress) -> RunEntry:
    try:
        finished = run_on_lab(run, runs_of(campaign), lambda step: progress(f"{run.index}: {step}"))
    except TestbedError as error:
        return error_entry(run, error)
    return finished_entry(run, finished, campaign)


def finished_entry(run: PlannedRun, finished: FinishedRun, campaign: Path) -> RunEntry:
    """Return the journal's entry of a run whose results are in the campaign's folder."""
    verdict = finished.result.verdict
    path = finished.folder.resolve().relative_to(campaign.resolve())
    return RunEntry(run.key, verdict.status.value, verdict.exit_code, verdict.reason, str(path), _now_utc())


def error_entry(run: PlannedRun, error: TestbedError) -> RunEntry:
    """Return the journal's entry of a run that left no results."""
    status = Status.INTERRUPTED if isinstance(error, Interrupted) else Status.ERROR
    return RunEntry(run.key, status.value, error.exit_code, error.message, None, _now_utc())


def _now_utc() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def virtual_stage(force: Callable[[], object] | None) -> Stage:
    """Labs in virtual time, one for each run.

    Args:
        force: called at the second signal during a run; None: the handler of before is.
    """

    def run_on_lab(run: PlannedRun, runs: Path, say: Progress) -> FinishedRun:
        return run_virtually(run.plan, run.source, runs, force=force, progress=say)

    return lambda _: nullcontext(run_on_lab)


def live_stage(
    *, name: str, runtime: str | None, force: Callable[[], object] | None, progress: Progress
) -> Stage:
    """Labs of this machine.

    Args:
        name: of the lab; one of that name that is up is used for runs of its topology.
        runtime: for labs that are made; None: as `up` chooses.
        force: called at the second signal during a run.
    """

    @contextmanager
    def stage(topology: TopologySpec) -> Iterator[RunOnLab]:
        with lab_for_run(topology, name=name, runtime=runtime, progress=progress) as lab:

            def run_on_lab(run: PlannedRun, runs: Path, say: Progress) -> FinishedRun:
                with ExitStack() as stack:
                    clock = stack.enter_context(catching_signals(force))
                    world = stack.enter_context(live_world(lab, run.plan, clock))
                    return execute(run.plan, run.source, world, LiveLab(lab), runs, say)

            yield run_on_lab

    return stage
