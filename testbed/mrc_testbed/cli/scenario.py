"""run | demo."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

import typer

from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.options import COMMANDS, OutputFormat, RunsFolder, Settings, TraceOption, command
from mrc_testbed.cli.ready import file_argument
from mrc_testbed.cli.render import say, show, write_out
from mrc_testbed.cli.where import ExecutionTarget, JobsOption, RetryOption, RuntimeOption, VirtualOption
from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.installation import shipped
from mrc_testbed.scenario.spec.load import Scenario, load_scenario
from mrc_testbed.scenario.spec.plan import Plan, dump_plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.timeline import format_plan

DEMO_SCENARIO: Final = "scenarios/t0-t1-flap.yaml"

ScenarioFile = Annotated[Path, file_argument("SCENARIO", "Scenario file")]


@command(COMMANDS, "run", flags=("name", "dry_run", "seed", "overload"), needs_root=True)
def run(
    settings: Settings,
    path: ScenarioFile,
    runtime: RuntimeOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the lab of this run.")] = False,
    virtual: VirtualOption = False,
    jobs: JobsOption = 1,
    retry_untrusted: RetryOption = 0,
    runs: RunsFolder = Path("runs"),
    trace: TraceOption = None,
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
        if trace is not None:
            raise UsageError("--trace: this scenario has variants; give one without")
        return _run_variants(settings, loaded, admission, runs, where, keep=keep)
    resolved = resolve(loaded, seed=settings.seed)
    admission.plan(loaded, resolved)
    admission.say(settings)
    if settings.is_dry_run:
        _show_plan(settings, resolved)
        return 0
    from mrc_testbed.cli.report import run_plan, show_finished  # noqa: PLC0415 - what runs takes a while to import

    if trace is not None:
        from mrc_testbed.cli.trace_folder import prepare_trace, traced, write_trace  # noqa: PLC0415 - likewise

        prepare_trace(trace)
        resolved = traced(resolved)
    finished = run_plan(settings, resolved, _source(loaded), runs, name=settings.name, where=where, keep=keep)
    show_finished(settings, finished, [])
    if trace is not None:
        write_trace(settings, trace, finished.result.recording)
    return finished.result.verdict.exit_code


@command(COMMANDS, "demo", flags=("seed",), needs_root=True)
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
    from mrc_testbed.cli.report import run_plan, show_finished  # noqa: PLC0415 - what runs takes a while to import

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
    from mrc_testbed.metrics.exporter import exporter_running  # noqa: PLC0415 - likewise

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
    from mrc_testbed.campaign.plan import plan_variants  # noqa: PLC0415 - most scenarios have none
    from mrc_testbed.cli.campaign_table import show_plan  # noqa: PLC0415

    planned = plan_variants(loaded, seed=settings.seed, admit=admission.plan)
    admission.say(settings)
    if settings.is_dry_run:
        show_plan(settings, planned)
        return 0
    from mrc_testbed.campaign.folder import CampaignFolder  # noqa: PLC0415
    from mrc_testbed.cli.campaign import run_campaign  # noqa: PLC0415

    return run_campaign(settings, CampaignFolder.create(runs, planned), where, frozenset())


def _source(loaded: Scenario) -> str | None:
    path = loaded.document.path
    return None if path is None else path.read_text(encoding="utf-8")


def _show_plan(settings: Settings, resolved: Plan) -> None:
    if settings.output is OutputFormat.TABLE:
        write_out(settings, format_plan(resolved))
    else:
        show(settings, "Plan", {"plan": json.loads(dump_plan(resolved))}, lambda: "")
