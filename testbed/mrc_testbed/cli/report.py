"""report; and the run of a plan."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.cli.bench_collective import collective_table
from mrc_testbed.cli.campaign_table import show_summary
from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.machine_watch import MachineWatch
from mrc_testbed.cli.options import COMMANDS, RunsFolder, Settings, command
from mrc_testbed.cli.render import judged_table, plain_table, result_lines, show, shown_table
from mrc_testbed.cli.where import ExecutionTarget
from mrc_testbed.document.one_step import latest_of
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError
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
from mrc_testbed.scenario.report.run_record import load_manifest
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.virtual.world import run_virtually

_STYLES: Final = {Status.PASSED: "bold green", Status.FAILED: "bold red"}


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
