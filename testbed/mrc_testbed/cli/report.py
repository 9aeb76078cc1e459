"""report | compare; and the run of a plan."""

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Self

import psutil
import typer
from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from mrc_agents.clock import monotonic_ns
from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.run_figures import ComparedFigure, compare_runs
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.cli.bench_collective import collective_table
from mrc_testbed.cli.campaign_table import show_summary
from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.options import COMMANDS, RunsFolder, Settings, command
from mrc_testbed.cli.render import judged_table, plain_table, result_lines, say, show, shown_table
from mrc_testbed.cli.where import ExecutionTarget
from mrc_testbed.document.one_step import latest_of
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import read_state
from mrc_testbed.faults.drill import score_run
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.result_text import (
    format_link_finding,
    job_figures,
    job_headline,
    printed_table,
    recovery_table,
    workload_table,
)
from mrc_testbed.scenario.report.run_record import has_ended, load_manifest
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.virtual.world import run_virtually

_STYLES: Final = {Status.PASSED: "bold green", Status.FAILED: "bold red"}
LOOK_S: Final = 0.5
BUSY_RATIO: Final = 0.125
"""Share of all CPUs: below it the ready scenarios keep their limits (docs/explanation/fidelity.md)."""

_KTHREADD: Final = 2
_SHOWN: Final = 2

_WHAT_TO_DO: Final = (
    "run it when the machine is quiet, with --retry-untrusted N, with a lower port_rate, or with --virtual, "
    "which is exact on any machine"
)


@dataclass(frozen=True, slots=True)
class OtherLoad:
    """CPU time that other programs took over an interval."""

    ratio: float  # share of all CPUs, 0 to 1
    programs: Mapping[str, float]  # name -> share of all CPUs, the greatest first

    @property
    def is_busy(self) -> bool:
        """Return True if it is enough to make a run late."""
        return self.ratio > BUSY_RATIO

    def __str__(self) -> str:
        named = ", ".join(f"{name} {share:.0%}" for name, share in list(self.programs.items())[:_SHOWN])
        return f"other programs take {self.ratio:.0%} of the machine's CPUs ({named})"


class ProcessTimes:
    """CPU time that each process has used by a moment; kernel threads, which serve the lab, are left out."""

    def __init__(self, time_ns: int, used_s: Mapping[tuple[int, float], tuple[str, float]]) -> None:
        self._time_ns = time_ns
        self._used_s = used_s

    @classmethod
    def now(cls) -> Self:
        found = {}
        for process in psutil.process_iter(["name", "cpu_times", "create_time", "ppid"]):
            info = process.info
            if info["ppid"] != _KTHREADD and process.pid != _KTHREADD and info["cpu_times"] is not None:
                used_s = info["cpu_times"].user + info["cpu_times"].system
                found[process.pid, info["create_time"]] = (info["name"], used_s)
        return cls(monotonic_ns(), found)

    def load_since(self, earlier: Self, spared: Collection[int] = ()) -> OtherLoad:
        """CPU time since *earlier* of processes that are still there.

        Args:
            spared: processes that are ours; this one and its descendants are left out anyway.
        """
        ours = {os.getpid(), *spared, *(child.pid for child in psutil.Process().children(recursive=True))}
        used_s: dict[str, float] = {}
        for (pid, created), (name, now_s) in self._used_s.items():
            if pid not in ours:
                before_s = earlier._used_s.get((pid, created), (name, 0.0))[1]
                used_s[name] = used_s.get(name, 0.0) + now_s - before_s
        all_s = max(self._time_ns - earlier._time_ns, 1) / 1e9 * (os.cpu_count() or 1)
        greatest_first = sorted(used_s.items(), key=lambda used: used[1], reverse=True)
        programs = {name: seconds / all_s for name, seconds in greatest_first if seconds > 0}
        return OtherLoad(sum(programs.values()), programs)


def look_at_load(spared: Collection[int] = ()) -> OtherLoad:
    """CPU use of other programs right now; takes LOOK_S."""
    before = ProcessTimes.now()
    threading.Event().wait(LOOK_S)
    return ProcessTimes.now().load_since(before, spared)


class MachineWatch:
    """Watch other programs around a run, and warn when they take much of the machine.

    Args:
        lab: name of the lab; its processes are not others.
    """

    def __init__(self, settings: Settings, lab: str) -> None:
        self._settings = settings
        self._lab = lab
        self._before = ProcessTimes.now()
        found = look_at_load(self._ours())
        if found.is_busy:
            say(settings.stderr, f"warning: {found}: this run may be UNTRUSTED; --virtual is exact")

    def begin(self) -> None:
        self._before = ProcessTimes.now()

    def explain(self, status: Status, retries: int = 0) -> None:
        """Print advice about a run that ended as *status*, when it is UNTRUSTED.

        Args:
            retries: how often it is repeated from here.
        """
        if status is not Status.UNTRUSTED:
            return
        found = ProcessTimes.now().load_since(self._before, self._ours())
        cause = f"{found} meanwhile" if found.is_busy else "no other program took much of the machine"
        then = f"repeating it, {retries} left" if retries else _WHAT_TO_DO
        say(self._settings.stderr, f"hint:  the run is UNTRUSTED; {cause}; {then}")

    def _ours(self) -> list[int]:
        state = read_state(lab_paths(self._lab))
        return [] if state is None else [process.pid for process in state.processes]


@command(COMMANDS, "report")
def report(
    settings: Settings,
    what: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Result folder, bundle, or a scenario's name for its latest run."),
    ],
    runs: RunsFolder = Path("runs"),
) -> None:
    """Show the results of a finished run and where its report is.

    [bold]Examples[/bold]

      mrc-testbed report t0-t1-flap
      mrc-testbed report runs/t0-t1-flap/latest -o json
      mrc-testbed report t0-t1-flap.tar.zst
    """
    with opened(Path(what)) as given:
        folder = given if os.path.lexists(given / "summary.md") else latest_of(runs / what)
        place = Path(what) if Path(what).is_file() else folder
        if os.path.lexists(folder / "journal.jsonl"):
            show_summary(settings, place, summarize_campaign(CampaignFolder.open(folder)))
            return
        try:
            manifest = load_manifest(folder / "manifest.json")
            summary = read_result(folder / "summary.md").decode()
        except OSError as error:
            raise UsageError(
                f"there is no finished run at {what} or {folder}: {error.strerror}",
                hint="name a result folder, a bundle, or a scenario and the folder of its --runs; "
                "`mrc-testbed campaign show` is for campaigns",
            ) from error
        show(
            settings,
            "RunReport",
            {"folder": str(place.resolve()), "manifest": manifest},
            lambda: Group(Markdown(summary), Text(), *result_lines(place)),
        )


def run_plan(
    settings: Settings,
    resolved: Plan,
    source: str | None,
    runs: Path,
    *,
    name: str,
    where: ExecutionTarget,
    keep: bool = False,
) -> FinishedRun:
    """Run a plan.

    Args:
        source: text of the scenario file, kept with the results.
        keep: whether a lab that was made for it stays.
    """
    say_progress: Callable[[str], None] = settings.progress
    if where.is_virtual:
        return run_virtually(
            resolved,
            source,
            runs,
            force=force_end,
            progress=say_progress,
            say_time=settings.progress.simulate,
        )
    with ExitStack() as stack:
        machine = MachineWatch(settings, name)
        lab = stack.enter_context(
            lab_for_run(resolved.topology, name=name, runtime=where.runtime, keep=keep, progress=say_progress)
        )
        clock = stack.enter_context(catching_signals(force_end))
        for attempt in range(where.retries + 1):
            machine.begin()
            with live_world(lab, resolved, clock) as world:
                finished = execute(resolved, source, world, LiveLab(lab), runs, say_progress)
            machine.explain(finished.result.verdict.status, retries=where.retries - attempt)
            if finished.result.verdict.status is not Status.UNTRUSTED:
                break
        scores = score_run(lab.name, lab.clos, finished.result.recording.start_ns)
        if scores:
            from mrc_testbed.cli.fault import show_scores  # noqa: PLC0415 - takes a while, few runs are drills

            show_scores(settings, scores)
        return finished


def show_finished(settings: Settings, finished: FinishedRun, more: list[str]) -> None:
    manifest = json.loads(read_result(finished.folder / "manifest.json"))
    document: Mapping[str, Any] = {"folder": str(finished.folder.resolve()), "manifest": manifest}
    show(settings, "RunReport", document, lambda: _finished(finished, more))


def _finished(finished: FinishedRun, more: list[str]) -> RenderableType:
    result = finished.result
    verdict = result.verdict
    head = Text.assemble(
        (result.plan.scenario, "bold"),
        "  ",
        (verdict.status.value.upper(), _STYLES.get(verdict.status, "bold yellow")),
        f"  {verdict.reason}",
    )
    parts: list[RenderableType] = [head, Text()]
    for job in result.jobs:
        figures = plain_table(*(name for name, _ in job_figures(job)))
        figures.add_row(*(value for _, value in job_figures(job)))
        parts += [Text.assemble((job.name, "bold"), f"  {job_headline(result, job)}"), figures, Text()]
    if verdict.outcomes:
        judged = ((each.answer, each.text, each.reason) for each in verdict.outcomes)
        parts += [judged_table(judged), Text()]
    if result.recoveries:
        parts += [shown_table(recovery_table(result)), Text()]
    if result.link_finding is not None:
        parts += [Text(format_link_finding(result.link_finding)), Text()]
    workloads = workload_table(result)
    if workloads.rows:
        parts += [shown_table(replace(workloads, columns=[*workloads.columns[:-1], "##wrong"])), Text()]
    if (printed := printed_table(result)).rows:
        parts += [shown_table(printed), Text()]
    if result.collectives:
        parts += [collective_table(result.collectives), Text()]
    return Group(*parts, *result_lines(finished.folder), *(Text(line) for line in more))


@command(COMMANDS, "compare")
def compare(
    settings: Settings,
    before: Annotated[
        str, typer.Argument(metavar="A", help="Result folder, bundle, or a scenario's name for its latest.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Run to compare with.")],
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of result folders.")] = Path(
        "runs"
    ),
) -> None:
    """Compare two runs: every figure that both have, and the ratio.

    [bold]Examples[/bold]

      mrc-testbed compare runs/t0-t1-flap/20261121T170000Z-3fa2b1 t0-t1-flap
    """
    manifests = [_manifest(runs, what) for what in (before, after)]
    figures = compare_runs(*manifests)
    names = [f"{manifest['scenario']} {manifest['run']}" for manifest in manifests]
    document = {
        "before": manifests[0]["run"],
        "after": manifests[1]["run"],
        "figures": [figure_document(figure) for figure in figures],
    }

    def table() -> RenderableType:
        shown = plain_table("", "#A", "#B", "#B/A", rows=map(figure_cells, figures))
        heads = [
            Text(f"{letter}  {name}: {manifest['status']}")
            for letter, name, manifest in zip("AB", names, manifests, strict=True)
        ]
        return Group(*heads, Text(), shown)

    show(settings, "Comparison", document, table, lines="figures")


def figure_document(figure: ComparedFigure) -> dict[str, Any]:
    return {**asdict(figure), "ratio": figure.ratio}


def figure_cells(figure: ComparedFigure) -> tuple[str, ...]:
    """Its name, both values and the ratio."""
    ratio = "-" if figure.ratio is None else f"{figure.ratio:.3f}"
    return figure.name, figure.shown(figure.before), figure.shown(figure.after), ratio


def _manifest(runs: Path, what: str) -> Mapping[str, Any]:
    with opened(Path(what), "run") as given:
        folder = given if os.path.lexists(given / "manifest.json") else latest_of(runs / what)
        try:
            found = load_manifest(folder / "manifest.json")
        except OSError as error:
            raise UsageError(
                f"there is no run at {what} or {folder}: {error.strerror}",
                hint="name a result folder, a bundle, or a scenario and the folder of its --runs",
            ) from error
    if not has_ended(found):
        raise UsageError(f"{folder}: the run has not ended, or was killed")
    return found
