"""bundle create | open, replay, and why."""

import os
import shlex
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.bundle.bundle import find_results, held_in, opened, unpack_bundle, write_bundle
from mrc_testbed.bundle.difference import Condition, Repetition, compare_repetition
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.tables import RunFolder, finished_run, finished_runs
from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.campaign import carry_out_campaign
from mrc_testbed.cli.campaign_options import CAMPAIGNS, CampaignsFolder
from mrc_testbed.cli.commands import DefaultGroup
from mrc_testbed.cli.options import COMMANDS, RunsFolder, Settings, command
from mrc_testbed.cli.render import bad, good, plain_table, result_lines, show, shown_table
from mrc_testbed.cli.report import figure_cells, figure_document, run_plan
from mrc_testbed.cli.where import ExecutionTarget, JobsOption, RuntimeOption, VirtualOption
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError
from mrc_testbed.report.table import Table
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.plan import Plan, load_plan
from mrc_testbed.shown import format_size, format_time
from mrc_testbed.transport.transport_kind import refuse_gone
from mrc_testbed.units import parse_ratio

_MESSAGES_SHOWN: Final = 6

What = Annotated[
    str,
    typer.Argument(metavar="WHAT", help="Result folder, or a scenario's or campaign's name for its latest."),
]
BundleFile = Annotated[Path, typer.Argument(metavar="BUNDLE", help="File of `bundle create`.")]

_NO_RESULT: Final = (Status.INTERRUPTED, Status.ERROR, Status.UNTRUSTED)
"""Verdicts that say nothing of whether a run repeats."""


app = typer.Typer(
    no_args_is_help=True, cls=DefaultGroup, help="Pack results into one file, or unpack such a file."
)
COMMANDS.add_typer(app, name="bundle")


@command(app, "create")
def create(
    settings: Settings,
    what: What,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FILE", help="Bundle to write or replace (default: NAME-ID.tar.zst)."),
    ] = None,
    runs: RunsFolder = Path("runs"),
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> None:
    """Pack a run or campaign into one file: report, data, plan, versions, machine.

    `report`, `compare`, `campaign report` and `mrc_testbed.results.load` read the
    file without root; `replay` repeats it. The same results give the same bytes.
    The word `create` may be left out.

    [bold]Examples[/bold]

      mrc-testbed bundle t0-t1-flap
      mrc-testbed bundle campaigns/loss-ratio/latest --into loss-ratio.tar.zst
    """
    path = write_bundle(find_results(what, runs, campaigns), into)
    size_bytes = path.stat().st_size
    show(
        settings,
        "Bundle",
        {"bundle": str(path.resolve()), "size_bytes": size_bytes},
        lambda: Text(f"{path}  {format_size(size_bytes)}"),
    )


@command(app, "open")
def open_bundle(
    settings: Settings,
    path: BundleFile,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FOLDER", help="Folder to unpack to (default: runs, or campaigns)."),
    ] = None,
) -> None:
    """Unpack a bundle to FOLDER/NAME/ID, where `run` and `campaign run` write.

    A file that is damaged, truncated or no bundle leaves nothing there.

    [bold]Examples[/bold]

      mrc-testbed bundle open loss-ratio.tar.zst
      mrc-testbed bundle open t0-t1-flap.tar.zst --into theirs
    """
    found = unpack_bundle(path, into)
    header, folder = found.header, found.folder.resolve()
    show(
        settings,
        "UnpackedBundle",
        {"folder": str(folder), **header.model_dump(exclude={"schema_version"})},
        lambda: Group(
            Text(f"{header.holds} of {header.name}, bundled by mrc-testbed {header.mrc_testbed}"),
            Text(f"report   {folder / 'report.html'}"),
            Text(f"results  {folder}"),
        ),
    )


@command(COMMANDS, "replay", flags=("name", "overload"), needs_root=True)
def replay(
    settings: Settings,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="Bundle, result folder, or a scenario's or campaign's name for its latest."
        ),
    ],
    tolerance: Annotated[
        str | None,
        typer.Option(
            "--tolerance",
            metavar="SHARE",
            help="Share by which a figure may differ (default: 5%; in virtual time 0).",
        ),
    ] = None,
    runtime: RuntimeOption = None,
    virtual: VirtualOption = False,
    jobs: JobsOption = 1,
    programs: Annotated[
        bool, typer.Option("--programs", help="Run the programs that the plans of a bundle name.")
    ] = False,
    moments: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="TIME", help="Show the lab then, like 12.3ms; twice: what differs."),
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option("--until", metavar="CONDITION", help="Show the lab when that is so first, like lost."),
    ] = None,
    qp: Annotated[
        tuple[str, str] | None,
        typer.Option("--qp", metavar="FROM TO", help="Show packets of a QP between two moments."),
    ] = None,
    runs: RunsFolder = Path("runs"),
    campaigns: CampaignsFolder = CAMPAIGNS,
) -> int:
    """Repeat a run or campaign as planned and report differences.

    What took place in virtual time is repeated there, unless --runtime is given.
    Compares verdicts, figures beyond the tolerance, versions and machine; for
    virtual time, every byte of every file. The exit status is 0 when all is the
    same, 4 when a verdict, figure or byte differs, 7 when a run is UNTRUSTED or
    figures differ of one that is late.

    --at and --until show a moment of a run in virtual time instead, without root:
    queues, packets, QPs, EVs, faults. Times are those of the report.
    Conditions: lost, trimmed, queue(PORT) > SIZE, ev_bad, timeout; some also take
    (PORT) or (FROM, TO). The exit status is 4 when one is never met.

    [bold]Examples[/bold]

      mrc-testbed replay t0-t1-flap.tar.zst
      mrc-testbed replay loss-ratio.tar.zst --virtual --jobs 2
      mrc-testbed replay runs/t0-t1-flap/latest --tolerance 10%
      mrc-testbed replay t0-t1-flap --at 3.04s
      mrc-testbed replay t0-t1-flap --until 'queue(p0-t0-0:4) > 4KiB'
      mrc-testbed replay t0-t1-flap --at 3s --until lost --qp h0 h2
    """
    from mrc_testbed.cli.replay_moments import show_moments  # noqa: PLC0415 - numpy takes a while

    share = None if tolerance is None else parse_ratio(tolerance)
    with opened(Path(what)) as given:
        folder = find_results(str(given), runs, campaigns)
        is_campaign = held_in(folder) == "campaign"
        if Path(what).is_file() and not programs:
            _refuse_programs(_plans(folder, is_campaign=is_campaign))
        if moments or condition is not None or qp:
            if tolerance is not None or runtime is not None:
                raise UsageError("--at, --until and --qp show moments: leave out --tolerance and --runtime")
            return show_moments(settings, *_virtual_run(folder), moments or (), condition, qp)
        if runtime is None:
            virtual = virtual or all(run.is_virtual for run in finished_runs(folder))
        where = ExecutionTarget(runtime, is_virtual=virtual, jobs=jobs)
        admission = Admission(is_virtual=virtual)
        if is_campaign:
            repetitions, status, results = _replay_campaign(
                settings, folder, campaigns, admission, where, share
            )
        else:
            repetitions, status, results = _replay_run(settings, folder, runs, admission, where, share)
    conditions = dict.fromkeys(each for repetition in repetitions for each in repetition.conditions)
    show(
        settings,
        "Replay",
        {
            "of": what,
            "tolerance": share,
            "exit_code": status,
            "folder": str(results.resolve()),
            "conditions": [asdict(each) for each in conditions],
            "runs": [_document(each) for each in repetitions],
        },
        lambda: Group(*_tables(repetitions, conditions), Text(), *result_lines(results)),
        lines="runs",
    )
    return status


@command(COMMANDS, "why")
def why(
    settings: Settings,
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Result folder, bundle, a scenario's name for its latest run, or latest."
        ),
    ],
    operation: Annotated[
        str | None,
        typer.Argument(
            metavar="OPERATION", help="Workload and number, like 'job step 41' (default: the slowest)."
        ),
    ] = None,
    slowest: Annotated[
        bool, typer.Option("--slowest", help="Explain the slowest operation, as without OPERATION.")
    ] = False,
    runs: RunsFolder = Path("runs"),
) -> None:
    """Explain why an operation was slow: the causes on its critical path.

    Repeats a run in virtual time twice and looks at each packet that others
    waited for: in which queue it was, where it was lost and what found that. Each
    nanosecond has one cause. An operation is a collective, a training step, or a
    message of a flow. The run's report shows the causes too from then on.

    [bold]Examples[/bold]

      mrc-testbed why t0-t1-flap
      mrc-testbed why runs/training-flapping-optic/latest 'job step 41'
      mrc-testbed why t0-t1-flap.tar.zst --slowest -o json
    """
    from mrc_testbed.explain.answer import answer  # noqa: PLC0415 - numpy takes a while to import

    if what == "latest":
        what = str(max(runs.glob("*/latest"), key=lambda path: path.resolve().name, default=what))
    with opened(Path(what), "run") as given:
        run, plan = _virtual_run(find_results(str(given), runs, CAMPAIGNS))
        is_bundle = Path(what).is_file()
        if is_bundle:
            _refuse_programs([plan])
        document, causes = answer(plan, run, None if slowest else operation, is_kept=not is_bundle)
    show(settings, "Why", document, lambda: _screen(document, causes), lines="causes")


def _virtual_run(folder: Path) -> tuple[RunFolder, Plan]:
    """The one run of a result folder, which can be repeated to be looked at, and its plan."""
    if held_in(folder) == "campaign":
        raise UsageError(f"{folder} is a campaign", hint="name the folder of one of its runs")
    [run] = finished_runs(folder)
    if not run.is_virtual:
        raise UsageError(
            f"{folder} is a live run, and only one in virtual time can be repeated to be looked at",
            hint=f"look at its twin: mrc-testbed replay {folder} --virtual",
        )
    if run.manifest["time_zero_monotonic_ns"] is None:
        raise UsageError(f"{folder}: the run ended before its warm-up did, so no moment has a time")
    return run, load_plan(folder / "plan.json")


def _screen(document: dict[str, Any], causes: Table) -> RenderableType:
    parts: list[RenderableType] = [Text(document["sentence"]), Text(), shown_table(causes)]
    if messages := document["messages"]:
        times = [f"{each['hosts']} {format_time(each['ns'])}" for each in messages[-_MESSAGES_SHOWN:]]
        left = len(messages) - len(times)
        before = f"{left} messages, then " if left else ""
        parts += [Text(), Text(f"path  {before}{', '.join(times)}")]
    return Group(*parts)


def _plans(folder: Path, *, is_campaign: bool) -> list[Plan]:
    if is_campaign:
        return [run.plan for run in CampaignFolder.open(folder).plan.runs]
    return [load_plan(folder / "plan.json")]


def _refuse_programs(plans: Sequence[Plan]) -> None:
    """Refuse to run what somebody else wrote into a bundle."""
    for workload in (workload for plan in plans for workload in plan.workloads):
        if workload.program is not None:
            raise UsageError(
                f"the bundle runs a program: {shlex.join(workload.program.command)}",
                hint="read it, and replay with --programs if it may run here",
            )


def _replay_run(
    settings: Settings,
    folder: Path,
    runs: Path,
    admission: Admission,
    where: ExecutionTarget,
    tolerance: float | None,
) -> tuple[Sequence[Repetition], int, Path]:
    """Repeat a run; return the repetition, the exit status and the result folder."""
    [before] = finished_runs(folder)
    plan = load_plan(folder / "plan.json")
    refuse_gone(plan.transport.kind)
    admission.saved_plan(plan)
    admission.say(settings)
    source = folder / "scenario.yaml"
    text = read_result(source).decode() if os.path.lexists(source) else None
    finished = run_plan(settings, plan, text, runs, name=settings.name, where=where)
    [after] = finished_runs(finished.folder)
    repetitions = [compare_repetition(plan.scenario, before, after, tolerance)]
    return repetitions, replay_status(repetitions), finished.folder


def _replay_campaign(
    settings: Settings,
    folder: Path,
    campaigns: Path,
    admission: Admission,
    where: ExecutionTarget,
    tolerance: float | None,
) -> tuple[Sequence[Repetition], int, Path]:
    """Repeat the finished runs of a campaign; return repetitions, exit status and folder."""
    old = CampaignFolder.open(folder)
    old.plan.check_known()
    for run in old.plan.runs:
        admission.saved_plan(run.plan)
    admission.say(settings)
    new = CampaignFolder.create(campaigns, old.plan)
    status = carry_out_campaign(settings, new, where, frozenset())
    repetitions, is_whole = [], True
    for run in sorted(old.wanted, key=lambda run: run.index):
        before, after = finished_run(old, run), finished_run(new, run)
        if before is not None and after is not None:
            repetitions.append(compare_repetition(run.key, before, after, tolerance))
        is_whole = is_whole and (before is None or after is not None)
    return repetitions, replay_status(repetitions) if is_whole else status, new.path


def replay_status(repetitions: Sequence[Repetition]) -> int:
    codes = set()
    for each in repetitions:
        after = Status(each.after)
        if after in _NO_RESULT and each.after != each.before:
            codes.add(after.exit_code)
        elif not each.is_same:
            is_unclear = each.is_late and each.before == each.after
            codes.add((Status.UNTRUSTED if is_unclear else Status.FAILED).exit_code)
    worst_first = (*(each.exit_code for each in _NO_RESULT), Status.FAILED.exit_code)
    return next((code for code in worst_first if code in codes), 0)


def _document(each: Repetition) -> dict[str, Any]:
    return {
        "run": each.key,
        "folder": str(each.folder.resolve()),
        "same": each.is_same,
        "before": each.before,
        "after": each.after,
        "figures": each.figures,
        "beyond": [figure_document(figure) for figure in each.beyond],
        "files": None if each.files is None else [asdict(file) for file in each.files],
    }


def _tables(repetitions: Sequence[Repetition], conditions: Collection[Condition]) -> list[RenderableType]:
    table = plain_table("", "run", "verdict", "#figures", "#beyond", "files")
    for each in repetitions:
        verdict = each.after if each.before == each.after else f"{each.before}, now {each.after}"
        files = "-" if each.files is None else ", ".join(file.name for file in each.files) or "the same"
        table.add_row(
            good("same") if each.is_same else bad("differs"),
            each.key,
            verdict,
            str(each.figures),
            str(len(each.beyond)),
            files,
        )
    parts: list[RenderableType] = [table]
    if conditions:
        changed = (
            (each.name, *(None if v is None else str(v) for v in (each.before, each.after)))
            for each in conditions
        )
        parts += [Text(), plain_table("condition", "then", "now", rows=changed)]
    if beyond := [(*figure_cells(figure), each.key) for each in repetitions for figure in each.beyond]:
        parts += [Text(), plain_table("figure", "#then", "#now", "#ratio", "run", rows=beyond)]
    for each in repetitions:
        for file in each.files or ():
            parts += [Text(), Text(f"{each.key}: {file.name}:{file.line}", style="bold")]
            parts += [Text(f"  then  {file.before}"), Text(f"  now   {file.after}")]
    return parts
