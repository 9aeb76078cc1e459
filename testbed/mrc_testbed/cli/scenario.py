"""run | report | demo."""

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
from mrc_testbed.campaign.plan import plan_variants
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.bench_collective import collective_table
from mrc_testbed.cli.campaign import run_campaign
from mrc_testbed.cli.campaign_table import show_plan, show_summary
from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.machine_watch import MachineWatch
from mrc_testbed.cli.options import OutputFormat, Settings, command
from mrc_testbed.cli.ready import complete, file_or_ready
from mrc_testbed.cli.render import judged_table, plain_table, result_lines, say, show, shown_table, write_out
from mrc_testbed.cli.where import ExecutionTarget, JobsOption, RetryOption, RuntimeOption, VirtualOption
from mrc_testbed.document.latest import latest_of
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.faults.drill import score_run
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.installation import shipped
from mrc_testbed.metrics.exporter import exporter_running
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
from mrc_testbed.scenario.spec.load import Scenario, load_scenario
from mrc_testbed.scenario.spec.plan import Plan, dump_plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.timeline import format_plan
from mrc_testbed.virtual.run import run_virtually

SCHEMA_VERSION: Final = 1
DEMO_SCENARIO: Final = "scenarios/t0-t1-flap.yaml"

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        callback=file_or_ready,
        autocompletion=complete,
        help="Scenario file, or a name of `scenarios list`.",
    ),
]
RunsFolder = Annotated[
    Path, typer.Option("--runs", metavar="FOLDER", help="Folder of result folders, one per run.")
]

_STYLES: Final = {Status.PASSED: "bold green", Status.FAILED: "bold red"}


def register(app: typer.Typer) -> None:
    command(app, "run", flags=("name", "dry_run", "seed", "overload"), needs_root=True)(run)
    command(app, "report")(report)
    command(app, "demo", flags=("seed",), needs_root=True)(demo)


def run(
    settings: Settings,
    path: ScenarioFile,
    runtime: RuntimeOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the lab of this run.")] = False,
    virtual: VirtualOption = False,
    jobs: JobsOption = 1,
    retry_untrusted: RetryOption = 0,
    runs: RunsFolder = Path("runs"),
) -> int:
    """Run one scenario: workload, faults, expectations, verdict.

    Uses the lab that is up if it has the scenario's topology; otherwise brings a
    lab up and removes it afterwards. Faults are cleared however the run ends. The
    results of an interrupted run are kept as partial. A scenario with variants is
    run once for each; `campaign resume` continues one that was interrupted.
    --dry-run shows the plan, with every random choice made, and needs no root.

    The exit status is the verdict's: 0 passed, 4 an expectation failed,
    5 aborted, 7 UNTRUSTED.

    [bold]Examples[/bold]

      mrc-testbed run t0-t1-flap
      mrc-testbed run gray-loss --seed 7 --keep -n gray
      mrc-testbed run t0-t1-flap --dry-run
      mrc-testbed run incast-victim --retry-untrusted 3
      mrc-testbed run paper/permutation --virtual --jobs 2
    """
    where = ExecutionTarget(runtime, is_virtual=virtual, jobs=jobs, retries=retry_untrusted)
    if virtual and keep:
        raise UsageError("--keep: a lab in virtual time ends with its run")
    loaded = load_scenario(path)
    admission = Admission(is_virtual=virtual)
    if loaded.spec.variants:
        return _run_variants(settings, loaded, admission, runs, where, keep=keep)
    resolved = resolve(loaded, seed=settings.seed)
    admission.plan(loaded, resolved)
    admission.say(settings)
    if settings.is_dry_run:
        _show_plan(settings, resolved)
        return 0
    finished = run_plan(settings, resolved, _source(loaded), runs, name=settings.name, where=where, keep=keep)
    show_finished(settings, finished, [])
    return finished.result.verdict.exit_code


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
            SCHEMA_VERSION,
            {"folder": str(place.resolve()), "manifest": manifest},
            lambda: Group(Markdown(summary), Text(), *result_lines(place)),
        )


def demo(
    settings: Settings,
    runtime: RuntimeOption = None,
    virtual: VirtualOption = False,
    runs: RunsFolder = Path("runs"),
) -> int:
    """Bring a lab up, flap links under full load, print the verdict.

    Takes half a minute, removes the lab, and exports metrics while it runs. With
    --virtual it takes seconds, needs no root and exports nothing.

    [bold]Examples[/bold]

      mrc-testbed demo
      mrc-testbed demo --virtual
    """
    where = ExecutionTarget(runtime, is_virtual=virtual)
    loaded = load_scenario(shipped(DEMO_SCENARIO))
    resolved = resolve(loaded, seed=settings.seed)
    say(settings.stderr, f"{resolved.scenario}: {resolved.description}")
    if virtual:
        finished = run_plan(settings, resolved, _source(loaded), runs, name=settings.name, where=where)
        show_finished(settings, finished, ["next     mrc-testbed run paper/t1-gray --virtual"])
        return finished.result.verdict.exit_code
    name = f"demo-{os.getpid()}"
    more = ["next     mrc-testbed up, then: mrc-testbed bench write-bw h0 h5 --size 1MiB"]
    with ExitStack() as stack:
        try:
            url = stack.enter_context(exporter_running([name], port=0, fault_kinds=KINDS))
        except PreflightError as error:
            say(settings.stderr, f"the demo exports no metrics: {error.message}")
        else:
            say(settings.stderr, f"metrics are at {url} while the demo runs")
            more.insert(
                0, f"metrics  were at {url}; `mrc-testbed observe metrics` exports any lab that is up"
            )
        finished = run_plan(settings, resolved, _source(loaded), runs, name=name, where=where)
    show_finished(settings, finished, more)
    return finished.result.verdict.exit_code


def _run_variants(
    settings: Settings,
    loaded: Scenario,
    admission: Admission,
    runs: Path,
    where: ExecutionTarget,
    *,
    keep: bool,
) -> int:
    """Run all variants in turn; those of one topology share a lab."""
    if keep:
        raise UsageError("--keep: this scenario has variants, and each may need a lab of its own")
    planned = plan_variants(loaded, seed=settings.seed, admit=admission.plan)
    admission.say(settings)
    if settings.is_dry_run:
        show_plan(settings, planned)
        return 0
    return run_campaign(settings, CampaignFolder.create(runs, planned), where, frozenset())


def _source(loaded: Scenario) -> str | None:
    path = loaded.document.path
    return None if path is None else path.read_text(encoding="utf-8")


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


def _show_plan(settings: Settings, resolved: Plan) -> None:
    if settings.output is OutputFormat.TABLE:
        write_out(settings, format_plan(resolved))
    else:
        show(settings, "Plan", SCHEMA_VERSION, {"plan": json.loads(dump_plan(resolved))}, lambda: "")


def show_finished(settings: Settings, finished: FinishedRun, more: list[str]) -> None:
    manifest = json.loads(read_result(finished.folder / "manifest.json"))
    document: Mapping[str, Any] = {"folder": str(finished.folder.resolve()), "manifest": manifest}
    show(settings, "RunReport", SCHEMA_VERSION, document, lambda: _finished(finished, more))


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
