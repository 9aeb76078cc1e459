"""campaign soak."""

from dataclasses import asdict
from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.agents.clock import machine_ns
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.interruption import signals_stop
from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.render import plain_table, say, show
from mrc_testbed.cli.where import JobsOption, VirtualOption, Where
from mrc_testbed.errors import UsageError
from mrc_testbed.shown import format_time
from mrc_testbed.signals import say as say_at_once
from mrc_testbed.soak.soaking import Soak, soak
from mrc_testbed.soak.violation import Violation
from mrc_testbed.units import parse_duration_ns

SCHEMA_VERSION: Final = 1
_FOR_NS: Final = 600 * 10**9
_SEED: Final = 1


def register(app: typer.Typer) -> None:
    command(app, "soak", flags=("seed",))(soak_universes)


def soak_universes(
    settings: Settings,
    virtual: VirtualOption = False,
    jobs: JobsOption = 1,
    for_ns: Annotated[
        int | None,
        typer.Option(
            "--for", parser=parse_duration_ns, metavar="TIME", help="Time to go on for (default: 10m)."
        ),
    ] = None,
    universes: Annotated[
        int | None,
        typer.Option(
            "--universes", metavar="N", min=1, help="Number of universes; alone, without a time limit."
        ),
    ] = None,
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", help="Folder for scenario files of what fails.")
    ] = Path("soak"),
) -> int:
    """Search for bugs with random fabrics, work and faults, in virtual time.

    Draws a universe from the seed, runs it and checks that no byte is lost or
    wrong, no flow stalls, and no trace of a fault stays; then from the next seed.
    A seed that fails, fails each time. FOLDER gets a scenario file of a few lines
    for it, and a bundle with the results of that file. Ctrl-C ends the search.

    The exit status is 4 if a universe failed, else 0.

    [bold]Examples[/bold]

      mrc-testbed campaign soak --virtual
      mrc-testbed campaign soak --virtual --for 8h --jobs 2 --seed 1000000
      mrc-testbed campaign soak --virtual --seed 4711 --universes 1
    """
    Where(None, is_virtual=virtual, jobs=jobs)
    if not virtual:
        raise UsageError(
            "universes exist in virtual time only: there is no soak of a lab yet", hint="give --virtual too"
        )
    first = _SEED if settings.seed is None else settings.seed
    began_ns, limit_ns = machine_ns(), for_ns or (_FOR_NS if universes is None else None)
    shown = 0

    def elapsed_ns() -> int:
        return machine_ns() - began_ns

    def report(state: Soak) -> None:
        nonlocal shown
        for violation in state.violations[shown:]:
            shown += 1
            say(settings.stderr, f"universe {violation.seed}: {violation.failures[0]}; {violation.scenario}")
        rate = state.universes * 1e9 / elapsed_ns()
        settings.progress.count(f"{state.universes} universes, {state.bad} bad, {rate:.1f} per second")

    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True
        say_at_once("\nstopping; once more to force\n")

    with signals_stop(stop):
        found = soak(
            islice(count(first), universes),
            into,
            jobs=jobs,
            is_over=lambda: limit_ns is not None and elapsed_ns() >= limit_ns,
            is_stopped=lambda: is_stopped,
            say=report,
        )
    _show(settings, found, first, elapsed_ns(), is_stopped=is_stopped)
    if is_stopped:
        return ExitCode.INTERRUPTED
    return ExitCode.EXPECTATION_FAILED if found.bad else ExitCode.PASS


def _show(settings: Settings, found: Soak, first: int, elapsed_ns: int, *, is_stopped: bool) -> None:
    violations = sorted(found.violations, key=lambda violation: violation.seed)

    def table() -> RenderableType:
        rate = found.universes * 1e9 / elapsed_ns
        head = Text(
            f"{found.universes} universes from seed {first}, {found.bad} bad; {rate:.1f} per second, "
            f"{format_time(found.time_ns)} simulated, {found.events} events"
        )
        if not violations:
            return head
        shown = plain_table("seed", "invariant", "scenario", right=("seed",))
        for each in violations:
            shown.add_row(str(each.seed), each.failures[0].invariant, str(each.scenario))
        return Group(head, Text(), shown)

    show(
        settings,
        "Soak",
        SCHEMA_VERSION,
        {
            "first_seed": first,
            "universes": found.universes,
            "bad": found.bad,
            "is_interrupted": is_stopped,
            "elapsed_ns": elapsed_ns,
            "simulated_ns": found.time_ns,
            "events": found.events,
            "violations": [_violation_document(each) for each in violations],
        },
        table,
        lines="violations",
    )


def _violation_document(violation: Violation) -> dict[str, Any]:
    return {
        "seed": violation.seed,
        "failures": [asdict(each) for each in violation.failures],
        "scenario": str(violation.scenario.resolve()),
        "bundle": str(violation.bundle.resolve()),
    }
