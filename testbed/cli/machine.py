"""doctor | host prepare | image build | version: the machine that labs run on."""

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from testbed.cli.exit_codes import ExitCode
from testbed.cli.options import Settings, command
from testbed.cli.render import bad, good, key_values, plain_table, show
from testbed.errors import PreflightError
from testbed.fabric.preflight import Check, doctor_checks
from testbed.metrics.capacity import Capacity, calibration_file, format_frames, keep_capacity, known_capacity
from testbed.scenario.run.calibration import calibrate as measure_capacity

SCHEMA_VERSION: Final = 1

host_app = typer.Typer(no_args_is_help=True, help="Make this machine ready for labs.")
image_app = typer.Typer(no_args_is_help=True, help="The image that Docker nodes are made of.")


def register(app: typer.Typer) -> None:
    """Adds the commands of this module to *app*."""
    command(app, "doctor")(doctor)
    command(app, "version")(version)
    app.add_typer(host_app, name="host")
    app.add_typer(image_app, name="image")


def doctor(
    settings: Settings,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Measure what this machine can carry, and keep it. Needs root; 20 s."
        ),
    ] = False,
) -> int:
    """Look whether this machine can carry labs, and say how to fix what it lacks.

    Changes nothing. The exit status is 3 when something is missing.

    With --calibrate a lab of its own is loaded until frames leave late. What
    was found decides what `up`, `validate`, `run`, `campaign run` and `bench`
    warn of and refuse; it is kept in /var/cache/mrc-testbed/calibration.json.

    [bold]Examples[/bold]

      mrc-testbed doctor
      sudo mrc-testbed doctor --calibrate
    """
    settings.progress("checking")
    checks = doctor_checks()
    items = [
        {
            "what": check.what,
            "met": check.is_met,
            "optional": check.is_optional,
            "found": check.found,
            "fix": None if check.is_met else check.fix,
        }
        for check in checks
    ]
    is_ready = all(check.is_met or check.is_optional for check in checks)
    if calibrate:
        if not is_ready:
            raise PreflightError("this machine cannot carry a lab yet", hint="mrc-testbed doctor says why")
        keep_capacity(measure_capacity(settings.progress))
    capacity = known_capacity()
    document = {"checks": items, "capacity": None if capacity is None else asdict(capacity)}
    show(settings, "Doctor", SCHEMA_VERSION, document, lambda: _diagnosis(checks, capacity), lines="checks")
    return ExitCode.PASS if is_ready else ExitCode.ENVIRONMENT


def version(settings: Settings) -> None:
    """Versions of mrc-testbed and of what it runs on."""
    versions = {
        "mrc-testbed": metadata.version("mrc-testbed"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
    }
    show(
        settings,
        "Version",
        SCHEMA_VERSION,
        {"versions": versions},
        lambda: key_values(list(versions.items())),
    )


@command(host_app, "prepare", flags=("dry_run",))
def prepare(
    settings: Settings,
    with_test_tools: Annotated[
        bool,
        typer.Option("--with-test-tools", help="Also what tests and benchmarks use: Prometheus, Docker."),
    ] = False,
    with_observability: Annotated[
        bool,
        typer.Option(
            "--with-observability", help="Also what `observe up` starts: Prometheus, Grafana's image."
        ),
    ] = False,
) -> None:
    """Install the system packages that labs need and mount the BPF file system. Needs root.

    A machine that is ready is not changed. --dry-run reports what would change.
    """
    from testbed.hostprep.host import prepare_host  # noqa: PLC0415 - Ansible takes half a second to import

    report = prepare_host(
        check=settings.is_dry_run, with_test_tools=with_test_tools, progress=settings.progress
    )
    changes = report.changes
    if with_observability:
        from testbed.hostprep.observability import prepare_observability  # noqa: PLC0415
        from testbed.observe.grafana_server import IMAGE  # noqa: PLC0415

        changes += prepare_observability(IMAGE, check=settings.is_dry_run, progress=settings.progress).changes
    _show_playbook(settings, "HostPrepared", changes, str(report.log) if report.log else None)


@command(image_app, "build", flags=("dry_run",))
def build(settings: Settings) -> None:
    """Make the node image of runtime docker, unless it is there and current.

    Its base is pulled, or made from the distribution's packages where no
    registry answers.
    """
    from testbed.hostprep.image import build_image  # noqa: PLC0415 - Ansible takes half a second to import

    report = build_image(check=settings.is_dry_run, progress=settings.progress)
    _show_playbook(settings, "ImageBuilt", report.changes, str(report.log) if report.log else None)


def _diagnosis(checks: Sequence[Check], capacity: Capacity | None) -> RenderableType:
    if capacity is None:
        advice = "what it can carry is not known: mrc-testbed doctor --calibrate measures it"
        return Group(_checks(checks), Text(advice))
    return Group(
        _checks(checks),
        Text(),
        Text(f"capacity, measured {capacity.taken[:10]} ({calibration_file()})", style="bold"),
        key_values(
            [
                ("shaped, in time", f"{format_frames(capacity.frame_hops_per_s)} frame hops/s"),
                ("shaped, at most", f"{format_frames(capacity.most_frame_hops_per_s)} frame hops/s"),
                ("unshaped", f"{format_frames(capacity.unshaped_packets_per_s)} packets/s across T1s"),
            ]
        ),
    )


def _checks(checks: Sequence[Check]) -> RenderableType:
    table = plain_table("", "what", "found")
    for check in checks:
        unmet = Text("-") if check.is_optional else bad("no")
        table.add_row(good("ok") if check.is_met else unmet, check.what, check.found)
    parts: list[RenderableType] = [table, Text()]
    for title, is_optional in (("to do", False), ("if you want it", True)):
        unmet_checks = [check for check in checks if not check.is_met and check.is_optional == is_optional]
        if unmet_checks:
            parts.append(Text(title, style="bold"))
            parts += [Text(f"  {check.what}: {check.fix}") for check in unmet_checks]
    if all(check.is_met or check.is_optional for check in checks):
        parts.append(good("this machine is ready"))
    return Group(*parts)


def _show_playbook(settings: Settings, kind: str, changes: Sequence[str], log: str | None) -> None:
    document: dict[str, Any] = {"dry_run": settings.is_dry_run, "changes": list(changes), "log": log}
    verb = "would change" if settings.is_dry_run else "changed"

    def table() -> RenderableType:
        if not changes:
            return Text("all is as it should be")
        return Group(*(Text(f"{verb}: {change}") for change in changes))

    show(settings, kind, SCHEMA_VERSION, document, table)
