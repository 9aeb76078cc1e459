"""campaign soak | shrink."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_agents.clock import machine_ns
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.interruption import force_end, signals_stop, time_out
from mrc_testbed.cli.options import Settings, command, require_root
from mrc_testbed.cli.ready import file_argument
from mrc_testbed.cli.render import plain_table, say, show
from mrc_testbed.cli.where import (
    ClusterOption,
    ExecutionTarget,
    JobsOption,
    RuntimeOption,
    VirtualOption,
    cluster_at,
)
from mrc_testbed.document.one_step import write_in_one_step, writing
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.shown import format_time
from mrc_testbed.signals import say as say_at_once
from mrc_testbed.soak.live_soak import LiveSoak, live_stage, soak_lab
from mrc_testbed.soak.scenario_shrink import read_failing, shrink_scenario
from mrc_testbed.soak.shrink import RUNS_MAX
from mrc_testbed.soak.soaking import Control, Judges, Soak, soak
from mrc_testbed.units import parse_duration_ns

if TYPE_CHECKING:
    from mrc_testbed.cluster.connection import Cluster

_FOR_NS: Final = 600 * 10**9
_SEED: Final = 1


def register(app: typer.Typer) -> None:
    command(app, "soak", flags=("seed",))(soak_universes)
    command(app, "shrink", flags=("seed",))(shrink)


def soak_universes(
    settings: Settings,
    virtual: VirtualOption = False,
    live: Annotated[
        bool, typer.Option("--live", help="Run rounds of training under faults on one lab of this machine.")
    ] = False,
    runtime: RuntimeOption = None,
    jobs: JobsOption = 1,
    cluster: ClusterOption = None,
    for_ns: Annotated[
        int | None,
        typer.Option(
            "--for", parser=parse_duration_ns, metavar="TIME", help="Time to go on for (default: 10m)."
        ),
    ] = None,
    universes: Annotated[
        int | None,
        typer.Option(
            "--universes",
            metavar="N",
            min=1,
            help="Number of universes or rounds; alone, without a time limit.",
        ),
    ] = None,
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", help="Folder for scenario files of what fails.")
    ] = Path("soak"),
) -> int:
    """Search for bugs with random faults: universes in virtual time, or rounds on a lab.

    With --virtual, draws a universe from the seed, fabric, work and faults, runs
    it and checks that no byte is lost or wrong, no flow stalls, and no trace of a
    fault stays; then from the next seed. A seed that fails, fails each time.
    FOLDER gets a scenario file of a few lines for it, and a bundle with the
    results of that file. Ctrl-C ends the search.

    With --live, each seed is a round of ten seconds on one lab: a training job
    under up to five faults. The file of one that fails is kept as it was drawn;
    `campaign shrink` makes it small if it fails in virtual time too. A round in
    which the machine was late is UNTRUSTED and counts for nothing. What a round
    leaves in the lab is a failure in any case, and the next one gets a new lab.

    The exit status is 4 if a universe or round failed, 7 if all rounds are
    UNTRUSTED, else 0.

    [bold]Examples[/bold]

      mrc-testbed campaign soak --virtual
      mrc-testbed campaign soak --virtual --for 8h --jobs 2 --seed 1000000
      mrc-testbed campaign soak --virtual --seed 4711 --universes 1
      mrc-testbed campaign soak --virtual --for 1h --cluster tcp://head:8786
      mrc-testbed campaign soak --live --for 1h
    """
    if virtual == live:
        raise UsageError("a soak takes place in virtual time or on a lab: give either --virtual or --live")
    if live and cluster is not None:
        raise UsageError("--cluster: a soak of a lab takes place on this machine", hint="give --virtual")
    ExecutionTarget(runtime, is_virtual=virtual, jobs=jobs, cluster=cluster)
    first = _SEED if settings.seed is None else settings.seed
    seeds = islice(count(first), universes)
    began_ns, limit_ns = machine_ns(), for_ns or (_FOR_NS if universes is None else None)
    found, named, kept = LiveSoak() if live else Soak(), 0, 0

    def elapsed_ns() -> int:
        return machine_ns() - began_ns

    def is_over() -> bool:
        return limit_ns is not None and elapsed_ns() >= limit_ns

    def report() -> None:
        nonlocal named, kept
        kind = "round" if live else "universe"
        for failed in found.failed[named:]:
            say(settings.stderr, f"{kind} {failed.seed}: {failed.failures[0]}")
        for violation in found.violations[kept:]:
            say(settings.stderr, f"{kind} {violation.seed}: {violation.scenario}")
        named, kept = len(found.failed), len(found.violations)
        settings.progress.count(f"{_counts(found)}, {_pace(found, elapsed_ns())}")

    with ExitStack() as stack:
        if isinstance(found, LiveSoak):
            require_root("campaign soak --live")
            clock, is_out_of_time = stack.enter_context(catching_signals(force_end)), time_out()
            lab = live_stage(f"soak-{os.getpid()}", runtime, clock, settings.progress)

            def is_stopped() -> bool:
                return clock.interruption() is not None or is_out_of_time()

            search = partial(soak_lab, found, seeds, into, lab)
        else:
            judges = _judges(settings, stack.enter_context(cluster_at(cluster)))
            is_stopped = stack.enter_context(_stoppable())
            search = partial(soak, found, seeds, into, jobs=jobs, judges=judges)
        try:
            search(Control(is_over, is_stopped, report))
        finally:
            _show(settings, found, first, elapsed_ns(), is_stopped=is_stopped())
    if is_stopped():
        return ExitCode.INTERRUPTED
    if found.failed:
        return ExitCode.EXPECTATION_FAILED
    is_untrusted = isinstance(found, LiveSoak) and 0 < found.untrusted == found.universes
    return ExitCode.UNTRUSTED if is_untrusted else ExitCode.PASS


def _judges(settings: Settings, cluster: "Cluster | None") -> Judges | None:
    if cluster is None:
        return None
    from mrc_testbed.cluster.head import ClusterCalls  # noqa: PLC0415 - Dask takes a second to import

    return ClusterCalls(cluster, settings.progress)


def shrink(
    settings: Settings,
    path: Annotated[Path, file_argument("SCENARIO", "Scenario file that fails")],
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FILE", help="File to write or replace (default: NAME-small.yaml)."),
    ] = None,
    variant: Annotated[
        str | None, typer.Option("--variant", metavar="NAME", help="The one of its variants that fails.")
    ] = None,
    runs_max: Annotated[
        int, typer.Option("--runs-max", metavar="N", min=1, help="Number of runs at most.")
    ] = RUNS_MAX,
) -> int:
    """Find the smallest scenario that fails like a given one, in virtual time.

    Leaves out faults, workloads, hosts, switches, time and settings as long as
    the same expectations do not hold; if all hold, as long as the same invariant
    of `campaign soak` does not. Ctrl-C ends with the smallest found so far.

    [bold]Examples[/bold]

      mrc-testbed campaign shrink soak/stuck-4711.yaml
      mrc-testbed campaign shrink flaky.yaml --into small.yaml --runs-max 1000
    """
    document = read_failing(path, variant, settings.seed)
    target = into or Path(f"{document['metadata']['name']}-small.yaml")
    if not target.parent.is_dir():
        raise UsageError(f"{target} cannot be written: there is no folder {target.parent}")
    with _stoppable() as is_stopped:
        try:
            found = shrink_scenario(
                document, runs_max, is_stopped, lambda runs: settings.progress.count(f"{runs} runs")
            )
        except UsageError as error:
            if is_stopped():
                return ExitCode.INTERRUPTED
            raise UsageError(f"{path}: {error.message}", hint=error.hint) from error
    with writing(target):
        write_in_one_step(target, found.text)

    def table() -> RenderableType:
        shown = plain_table("", "#before", "#after")
        before, after = asdict(found.before), asdict(found.after)
        for key in ("faults", "workloads", "hosts"):
            shown.add_row(key, str(before[key]), str(after[key]))
        shown.add_row("run time", *map(_time, (found.before.run_ns, found.after.run_ns)))
        failing = [Text(f"fails    {line}") for line in found.found]
        return Group(shown, Text(), *failing, Text(f"scenario {target}, after {found.runs} runs"))

    document = {
        "scenario": str(target.resolve()),
        "fails": list(found.found),
        "runs": found.runs,
        "before": asdict(found.before),
        "after": asdict(found.after),
        "is_interrupted": is_stopped(),
    }
    show(settings, "ShrunkScenario", document, table)
    return ExitCode.INTERRUPTED if is_stopped() else ExitCode.PASS


def _time(run_ns: int | None) -> str:
    return "by iterations" if run_ns is None else format_time(run_ns)


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """A function that returns True once a signal came, which interrupts no more."""
    came: list[bool] = []

    def stop() -> None:
        came.append(True)
        say_at_once("\nstopping; once more to force\n")

    with signals_stop(stop):
        yield lambda: bool(came)


def _counts(found: Soak) -> str:
    if isinstance(found, LiveSoak):
        return f"{found.universes} rounds, {len(found.failed)} bad, {found.untrusted} UNTRUSTED"
    return f"{found.universes} universes, {len(found.failed)} bad"


def _pace(found: Soak, elapsed_ns: int) -> str:
    if isinstance(found, LiveSoak):
        return format_time(elapsed_ns)
    return f"{found.universes * 1e9 / elapsed_ns:.1f} per second"


def _show(settings: Settings, found: Soak, first: int, elapsed_ns: int, *, is_stopped: bool) -> None:
    violations = sorted(found.violations, key=lambda violation: violation.seed)
    is_live = isinstance(found, LiveSoak)

    def table() -> RenderableType:
        head = Text(f"{_counts(found)}; from seed {first}, {_pace(found, elapsed_ns)}")
        if not is_live:
            head.append(f", {format_time(found.time_ns)} simulated, {found.events} events")
        if not violations:
            return head
        rows = ((str(each.seed), each.failures[0].invariant, str(each.scenario)) for each in violations)
        return Group(head, Text(), plain_table("#seed", "invariant", "scenario", rows=rows))

    show(
        settings,
        "Soak",
        {
            "first_seed": first,
            "universes": found.universes,
            "bad": len(found.failed),
            "untrusted": found.untrusted if isinstance(found, LiveSoak) else 0,
            "is_interrupted": is_stopped,
            "elapsed_ns": elapsed_ns,
            "simulated_ns": None if is_live else found.time_ns,
            "events": None if is_live else found.events,
            "violations": [
                {
                    "seed": each.seed,
                    "failures": [asdict(failure) for failure in each.failures],
                    "scenario": str(each.scenario.resolve()),
                    "bundle": str(each.bundle.resolve()),
                }
                for each in violations
            ],
        },
        table,
        lines="violations",
    )
