"""doctor, and setup host | image."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import bad, good, show, show_rows
from mrc_testbed.cli.where import parse_scheduler
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.preflight import doctor_checks
from mrc_testbed.report.table import Columns

app = typer.Typer(no_args_is_help=True, help="Install what labs need on this machine.")
_COLUMNS: Final[Columns] = {
    "": lambda row: good("ok") if row["met"] else None if row["optional"] else bad("no"),
    "what": "what",
    "found": "found",
}


@command(COMMANDS, "doctor")
def doctor(settings: Settings) -> int:
    """Check this machine and say how to fix what it lacks.

    Changes nothing. The exit status is 3 when something is missing.

    [bold]Examples[/bold]

      mrc-testbed doctor
    """
    settings.progress("checking")
    checks = doctor_checks()
    rows = [
        {
            "what": each.what,
            "met": each.is_met,
            "optional": each.is_optional,
            "found": each.found,
            "fix": None if each.is_met else each.fix,
        }
        for each in checks
    ]
    is_ready = all(each.is_met or each.is_optional for each in checks)
    show_rows(settings, "Doctor", {"checks": rows}, _COLUMNS, tail=[Text(), *_to_do(rows)], version=2)
    return ExitCode.PASS if is_ready else ExitCode.ENVIRONMENT


def _to_do(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for title, is_optional in (("to do", False), ("if you want it", True)):
        unmet = [row for row in rows if not row["met"] and row["optional"] == is_optional]
        if unmet:
            yield Text(title, style="bold")
            yield from (Text(f"  {row['what']}: {row['fix']}") for row in unmet)
    if all(row["met"] or row["optional"] for row in rows):
        yield good("this machine is ready")


COMMANDS.add_typer(app, name="setup")


@command(app, "host", flags=("dry_run",))
def host(
    settings: Settings,
    with_test_tools: Annotated[
        bool,
        typer.Option(
            "--with-test-tools", help="Install what tests and benchmarks use too: Prometheus, Docker."
        ),
    ] = False,
    with_observability: Annotated[
        bool,
        typer.Option(
            "--with-observability", help="Install what `observe up` starts too: Prometheus, Grafana's image."
        ),
    ] = False,
    inventory: Annotated[
        Path | None,
        typer.Option(
            "--inventory",
            metavar="FILE",
            help="Ansible inventory: start a Dask worker on each of its machines instead.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            parser=parse_scheduler,
            metavar="ADDRESS",
            help="Scheduler of workers, such as tcp://head:8786.",
        ),
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option("--wheel", metavar="FILE", help="Wheel of this version, to be installed for workers."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Stop the workers of --inventory, and remove what they had.")
    ] = False,
) -> None:
    """Install the system packages that labs need and mount bpffs. Needs root.

    Does not change a machine that is ready. --dry-run shows what would change.
    With --inventory it installs the wheel on other machines and starts a Dask
    worker there, as the users that the inventory names.

    [bold]Examples[/bold]

      sudo mrc-testbed setup host
      sudo mrc-testbed setup host --dry-run
      mrc-testbed setup host --inventory hosts --scheduler tcp://n0:8786 --wheel W
      mrc-testbed setup host --inventory hosts --remove
    """
    if inventory is not None and (with_test_tools or with_observability):
        raise UsageError(
            "--with-test-tools and --with-observability are for this machine; leave out --inventory"
        )
    if inventory is not None or scheduler or wheel or remove:
        _workers(settings, inventory, scheduler, wheel, remove=remove)
        return
    from mrc_testbed.hostprep.playbook import prepare_host  # noqa: PLC0415 - Ansible takes half a second to import

    report = prepare_host(
        check=settings.is_dry_run, with_test_tools=with_test_tools, progress=settings.progress
    )
    changes = report.changes
    if with_observability:
        from mrc_testbed.hostprep.playbook import prepare_observability  # noqa: PLC0415
        from mrc_testbed.observe.grafana_server import IMAGE  # noqa: PLC0415

        changes += prepare_observability(IMAGE, check=settings.is_dry_run, progress=settings.progress).changes
    _show_playbook(settings, "HostPrepared", changes, str(report.log) if report.log else None)


def _workers(
    settings: Settings, inventory: Path | None, scheduler: str | None, wheel: Path | None, *, remove: bool
) -> None:
    from mrc_testbed.hostprep.playbook import install_workers, remove_workers  # noqa: PLC0415

    if inventory is None:
        raise UsageError("--scheduler, --wheel and --remove go with --inventory")
    if remove and (scheduler or wheel):
        raise UsageError("--remove goes with --inventory alone; leave out --scheduler and --wheel")
    options: dict[str, Any] = {"check": settings.is_dry_run, "progress": settings.progress}
    if remove:
        report = remove_workers(inventory, **options)
    elif scheduler is None or wheel is None:
        raise UsageError("--inventory needs --scheduler and --wheel, or --remove")
    else:
        report = install_workers(inventory, scheduler, wheel, **options)
    _show_playbook(settings, "HostPrepared", report.changes, str(report.log) if report.log else None)


@command(app, "image", flags=("dry_run",))
def image(settings: Settings) -> None:
    """Build the node image of runtime docker, unless it is current.

    Pulls its base, or makes one from the distribution's packages where there is
    no registry.

    [bold]Examples[/bold]

      sudo mrc-testbed setup image
    """
    from mrc_testbed.hostprep.image import build_image  # noqa: PLC0415 - Ansible takes half a second to import

    report = build_image(check=settings.is_dry_run, progress=settings.progress)
    _show_playbook(settings, "ImageBuilt", report.changes, str(report.log) if report.log else None)


def _show_playbook(settings: Settings, kind: str, changes: Sequence[str], log: str | None) -> None:
    document: dict[str, Any] = {"dry_run": settings.is_dry_run, "changes": list(changes), "log": log}
    verb = "would change" if settings.is_dry_run else "changed"

    def table() -> RenderableType:
        if not changes:
            return Text("all is as it should be")
        return Group(*(Text(f"{verb}: {change}") for change in changes))

    show(settings, kind, document, table)
