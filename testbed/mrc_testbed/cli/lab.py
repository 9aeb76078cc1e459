"""up | down."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.known_topology import given_topology
from mrc_testbed.cli.observe_options import GrafanaUrl, PrometheusUrl, TokenFile, describe_stack
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import key_values, say, show
from mrc_testbed.cli.status import fabric_lines, status_details, status_document, topology_summary
from mrc_testbed.errors import CleanupError, TestbedError, UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.known_labs import foreign_labs, names, require_own
from mrc_testbed.fabric.state import RuntimeName
from mrc_testbed.faults.attendance import repair_faults, under_faults
from mrc_testbed.metrics.exporter import process_metrics


@command(COMMANDS, "up", flags=("topology", "name", "dry_run", "overload"), needs_root=True)
def up(
    settings: Settings,
    runtime: Annotated[
        RuntimeName | None,
        typer.Option("--runtime", help="Runtime of nodes (default: docker where it is ready, else netns)."),
    ] = None,
    reconfigure: Annotated[
        bool, typer.Option("--reconfigure", help="Replace a lab that is up with another topology or runtime.")
    ] = False,
    observe: Annotated[
        bool,
        typer.Option(
            "--observe", show_default=False, help="Start Prometheus and Grafana too, as `observe up` does."
        ),
    ] = False,
    grafana_url: GrafanaUrl = None,
    prometheus_url: PrometheusUrl = None,
    token_file: TokenFile = None,
) -> int:
    """Bring a lab up. Alias: deploy.

    Without -t it is the default lab: 4 planes of 2 T0 and 2 T1 switches, 8 hosts,
    ports without a rate. With the topology of a lab that is up, repairs what has
    failed in it; another topology is shown as a difference and needs
    --reconfigure. On a failure nothing stays behind.

    [bold]Examples[/bold]

      mrc-testbed up                              the default lab
      mrc-testbed up -t lab.yaml --runtime netns  from a file, without Docker
      mrc-testbed up -n second                    a second lab beside the first
      mrc-testbed up --observe                    ends with the dashboards' URL
    """
    spec = given_topology(settings)
    admission = Admission()
    admission.topology(spec)
    admission.say(settings)
    if settings.is_dry_run:
        summary = topology_summary(spec)
        show(
            settings,
            "LabPlan",
            {"name": settings.name, "runtime": runtime, **summary},
            lambda: Group(Text(f"lab {settings.name} would be brought up:"), key_values(fabric_lines(spec))),
        )
        return ExitCode.PASS
    if observe:
        process_metrics()  # a missing extra is said before the lab is made
    status_now = lab.up(
        spec,
        name=settings.name,
        runtime=runtime,
        reconfigure=reconfigure,
        faults=under_faults(settings.name),
        progress=lambda step: settings.progress(step.what, step.done_count, step.total_count),
    )
    if status_now.note:
        say(settings.stderr, status_now.note)
    for line in repair_faults(settings.name):
        say(settings.stderr, line)
    item = status_document(status_now)
    shown: list[Callable[[], RenderableType]] = [lambda: status_details(status_now, item)]
    if observe:
        stack_item = _observe(settings, grafana_url, prometheus_url, token_file)
        item["observe"] = stack_item
        shown += [Text, lambda: describe_stack(stack_item)]
    show(settings, "LabStatus", item, lambda: Group(*(part() for part in shown)))
    return ExitCode.PASS if status_now.is_healthy else ExitCode.ERROR


def _observe(
    settings: Settings, grafana_url: str | None, prometheus_url: str | None, token_file: Path | None
) -> dict[str, Any]:
    """Start the stack beside the lab; an error says that the lab is up."""
    from mrc_testbed.cli import observe_stack  # noqa: PLC0415 - the SDK of Docker takes a third of a second to import

    try:
        return observe_stack.bring_up(
            settings, observe_stack.known_settings(grafana_url, prometheus_url), token_file
        )
    except TestbedError as error:
        error.add_note(f"lab {settings.name!r} is up, only the stack is not: mrc-testbed observe up")
        raise


@command(COMMANDS, "down", flags=("name", "dry_run"), needs_root=True)
def down(
    settings: Settings,
    all_labs: Annotated[bool, typer.Option("--all", help="Every lab of this state folder.")] = False,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Also labs of another state folder, or of none.")
    ] = False,
) -> None:
    """Remove a lab, whatever state it is in. Alias: destroy.

    Needs no topology file. Also removes labs that are half built or whose state
    is lost, and all faults. It is no error if there is no such lab. With --all, a
    lab that cannot be removed does not keep the others. Labs of other state
    folders, and remains that no state folder claims, stay without --everywhere.

    [bold]Examples[/bold]

      mrc-testbed down
      mrc-testbed down -n second
      mrc-testbed down --all
    """
    if all_labs and settings.names_lab:
        raise UsageError("--all and --name contradict each other", hint="leave one of them out")
    known: Sequence[str] = (settings.name,)
    if all_labs:
        known = (*names(), *(foreign.name for foreign in foreign_labs() if everywhere))
    removed, failures = [], []
    for name in known:
        settings.progress(f"removing lab {name}")
        try:
            take = _would_remove if settings.is_dry_run else lab.down
            existed = take(name, everywhere=everywhere)
            removed.append({"name": name, "existed": existed})
        except TestbedError as error:
            if not all_labs:
                raise
            failures.append(error)
    show(
        settings,
        "LabsRemoved",
        {"dry_run": settings.is_dry_run, "labs": removed},
        lambda: _removed(removed, is_dry_run=settings.is_dry_run),
        lines="labs",
    )
    if all_labs and _has_stack():
        say(settings.stderr, "Prometheus and Grafana still run: mrc-testbed observe down")
    if all_labs and not everywhere:
        for foreign in foreign_labs():
            say(settings.stderr, f"lab {foreign.name} stays: it {foreign.describe()} (--everywhere)")
    if failures:
        reasons = "\n".join(f"- {error.message}" for error in failures)
        raise CleanupError(f"{len(failures)} of {len(known)} labs stay:\n{reasons}", hint=failures[0].hint)


def _would_remove(name: str, *, everywhere: bool) -> bool:
    if not everywhere:
        require_own(name)
    return name in (*names(), *(foreign.name for foreign in foreign_labs()))


def _has_stack() -> bool:
    """Return True if Prometheus and Grafana run beside the labs."""
    from mrc_testbed.observe.stack_state import stack_paths  # noqa: PLC0415 - only `down --all` asks

    return stack_paths().state_file.exists()


def _removed(removed: Sequence[Mapping[str, Any]], *, is_dry_run: bool) -> RenderableType:
    if not removed:
        return Text("there is no lab")
    verb = "would be removed" if is_dry_run else "is removed"
    return Group(
        *(
            Text(f"lab {item['name']} {verb}" if item["existed"] else f"there was no lab {item['name']}")
            for item in removed
        )
    )
