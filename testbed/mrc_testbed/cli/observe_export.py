"""observe export: files for a Prometheus, Alertmanager and Grafana elsewhere."""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.options import OBSERVE_COMMANDS, ForceOption, Settings, command
from mrc_testbed.cli.render import key_values, say, show
from mrc_testbed.document.text_file import write_files
from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.exporter import is_own_name
from mrc_testbed.observe import export
from mrc_testbed.observe.stack_state import StackSettings, read_stack, stack_paths

Target = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="HOST:PORT", help="Address at which that Prometheus reaches the exporter."
    ),
]
Alertmanager = Annotated[
    str, typer.Option("--alertmanager", metavar="HOST:PORT", help="Alertmanager that receives the alerts.")
]
RunbookUrl = Annotated[
    str | None,
    typer.Option(
        "--runbook-url", metavar="URL", help="Address of docs/guide/alerts.md where you publish it."
    ),
]
GrafanaUrl = Annotated[
    str | None, typer.Option("--grafana-url", metavar="URL", help="Grafana to which links of alerts lead.")
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write; created if needed.")]


@command(OBSERVE_COMMANDS, "export")
def export_stack(
    settings: Settings,
    folder: Folder,
    target: Target = None,
    alertmanager: Alertmanager = export.DEFAULT_ALERTMANAGER,
    runbook_url: RunbookUrl = None,
    grafana_url: GrafanaUrl = None,
    force: ForceOption = False,
) -> None:
    """Write files for a Prometheus, Alertmanager and Grafana of your own.

    prometheus.yml is complete: copy what yours lacks. Docker Compose starts the
    folder as it is, beside the exporter of this machine. grafana/dashboards has
    files to import by hand.

    [bold]Examples[/bold]

      mrc-testbed observe export monitoring
      mrc-testbed observe export monitoring --alertmanager 10.0.0.5:9093
      cd monitoring && GRAFANA_PASSWORD=... docker compose up -d
    """
    wanted = _export(settings, target, alertmanager, runbook_url, grafana_url)
    files = export.stack_files(wanted)
    written = write_files(folder, files, replace=force)
    item = {"folder": str(folder), "target": wanted.target, "files": [str(path) for path in written]}

    def table() -> RenderableType:
        return key_values(
            [
                ("prometheus.yml", f"scrapes {wanted.target}, loads the rules beside it"),
                (export.RULES_FILE, "recording and alert rules"),
                ("alertmanager.yml", "a route for the alerts; its receiver is for you to fill in"),
                ("compose.yaml", "the three as containers: GRAFANA_PASSWORD=... docker compose up -d"),
                ("grafana/dashboards", f"{len(export.dashboard_texts())} dashboards"),
            ]
        )

    show(settings, "StackExport", item, lambda: Group(Text(f"in {folder}:"), table()))


def _export(
    settings: Settings,
    target: str | None,
    alertmanager: str,
    runbook_url: str | None,
    grafana_url: str | None,
) -> export.Export:
    """Settings of an export; warns when other machines cannot reach the exporter, or it refuses the name."""
    for option, given in (("--target", target), ("--alertmanager", alertmanager)):
        if given is not None and not re.fullmatch(r"[^\s/]+:\d+", given):
            raise UsageError(f"{option} {given}: expected a host and a port", hint="such as 10.0.0.5:9093")
    state = read_stack(stack_paths())
    known = state.settings if state is not None else StackSettings()
    if target is None and known.is_local_only:
        say(
            settings.stderr,
            "the exporter listens on this machine only; for a Prometheus elsewhere: observe up --address IP",
        )
    found = target or f"{known.remote_host}:{known.exporter_port}"
    wanted = export.Export(known, found, alertmanager, runbook_url, grafana_url)
    name = wanted.target_host.casefold()
    if name not in (*known.known_as, "localhost") and not is_own_name(name):
        say(settings.stderr, f"the exporter refuses requests to {name} unless started with --known-as {name}")
    return wanted
