"""observe export: files for a Prometheus, Alertmanager and Grafana elsewhere."""

import logging
import re
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.observe_options import KnownAs
from mrc_testbed.cli.options import (
    OBSERVE_COMMANDS,
    AddressOption,
    ForceOption,
    PortOption,
    Settings,
    command,
)
from mrc_testbed.cli.render import key_values, say, show, write_out
from mrc_testbed.document.text_file import write_files
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.fabric.paths import state_root
from mrc_testbed.faults.attendance import restore_reaper
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.metrics.exporter import DEFAULT_PORT, Pages, exporter_running, is_own_name
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS
from mrc_testbed.observe import grafana_server, prometheus
from mrc_testbed.observe.prometheus import alert_pages
from mrc_testbed.observe.run_reports import report_page
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
RULES_FILE: Final = "mrc-testbed-rules.yaml"
ALERTMANAGER_IMAGE: Final = "prom/alertmanager:v0.27.0"
DEFAULT_ALERTMANAGER: Final = f"{DEFAULT_ADDRESS}:9093"

_INSIDE: Final = "/etc/mrc-testbed"
"""Where containers see the folder."""

_RECEIVER: Final = """\
# Alerts of mrc-testbed, to be merged into the configuration of your Alertmanager. The receiver sends nothing
# until it has a webhook_configs, email_configs or the like.
"""


@dataclass(frozen=True, slots=True)
class Export:
    settings: StackSettings  # of the stack: ports, the objective
    target: str  # host and port of the exporter, as Prometheus finds it
    alertmanager: str = DEFAULT_ALERTMANAGER  # its host and port
    runbook_url: str | None = None  # address of the page of alerts; None: the exporter's
    grafana_url: str | None = None  # address of Grafana; None: the stack's own, or beside the exporter

    @property
    def target_host(self) -> str:
        return self.target.rpartition(":")[0]

    @property
    def grafana(self) -> str:
        """Where people who get an alert find Grafana."""
        beside = f"http://{self.target_host}:{self.settings.grafana_port}"
        return (self.grafana_url or self.settings.grafana_url or beside).rstrip("/")


def prometheus_config(export: Export) -> dict[str, Any]:
    """The configuration that a Prometheus needs: the exporter, the rules, where alerts go."""
    targets = {"static_configs": [{"targets": [export.alertmanager]}]}
    alerting = {"alertmanagers": [targets]}
    return {**prometheus.scrape_config(export.target), "rule_files": [RULES_FILE], "alerting": alerting}


def stack_files(export: Export) -> dict[str, str]:
    """Path below the folder -> content, of all files."""
    prometheus_url = f"http://{DEFAULT_ADDRESS}:{export.settings.prometheus_port}"
    provisioning = grafana_server.provisioning_files(prometheus_url, f"{_INSIDE}/dashboards")
    route = {
        "receiver": "mrc-testbed",
        "group_by": ["lab", "alertname"],
        "group_wait": "5s",
        "group_interval": "30s",
        "repeat_interval": "4h",
    }
    files = {
        "prometheus.yml": _yaml(prometheus_config(export)),
        RULES_FILE: prometheus.rules_text(
            export.settings.p99_objective_ns, export.target, export.grafana, export.runbook_url
        ),
        "alertmanager.yml": _RECEIVER + _yaml({"route": route, "receivers": [{"name": "mrc-testbed"}]}),
        "compose.yaml": _yaml(_compose(export.settings)),
    }
    files |= {f"grafana/provisioning/{name}": _yaml(content) for name, content in provisioning.items()}
    return files | {
        f"grafana/dashboards/{name}": text for name, text in grafana_server.dashboard_texts().items()
    }


def _compose(settings: StackSettings) -> dict[str, Any]:
    """The three on the machine's own network, where the exporter is, listening on this machine only."""
    port = settings.prometheus_port
    return {
        "name": "mrc-testbed",
        "services": {
            "prometheus": _container(
                prometheus.IMAGE,
                ["./prometheus.yml", f"./{RULES_FILE}"],
                command=[
                    f"--config.file={_INSIDE}/prometheus.yml",
                    "--storage.tsdb.path=/prometheus",
                    f"--web.listen-address={DEFAULT_ADDRESS}:{port}",
                ],
                data="prometheus:/prometheus",
            ),
            "alertmanager": _container(
                ALERTMANAGER_IMAGE,
                ["./alertmanager.yml"],
                command=[
                    f"--config.file={_INSIDE}/alertmanager.yml",
                    "--storage.path=/alertmanager",
                    f"--web.listen-address={DEFAULT_ALERTMANAGER}",
                    "--cluster.listen-address=",
                ],
                data="alertmanager:/alertmanager",
            ),
            "grafana": _container(
                grafana_server.IMAGE,
                ["./grafana/provisioning", "./grafana/dashboards"],
                environment={
                    "GF_SERVER_HTTP_ADDR": DEFAULT_ADDRESS,
                    "GF_SERVER_HTTP_PORT": str(settings.grafana_port),
                    "GF_SECURITY_ADMIN_PASSWORD": "${GRAFANA_PASSWORD:?the password of admin}",
                    "GF_AUTH_ANONYMOUS_ENABLED": "true",
                    "GF_DASHBOARDS_MIN_REFRESH_INTERVAL": grafana_server.REFRESH,
                    "GF_PATHS_PROVISIONING": f"{_INSIDE}/provisioning",
                },
                data="grafana:/var/lib/grafana",
            ),
        },
        "volumes": {"prometheus": {}, "alertmanager": {}, "grafana": {}},
    }


def _container(image: str, files: list[str], *, data: str, **more: object) -> dict[str, Any]:
    """A service that reads *files* of the folder and stores in the volume *data*."""
    mounts = [f"{file}:{_INSIDE}/{Path(file).name}:ro" for file in files]
    return {
        "image": image,
        "network_mode": "host",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "unless-stopped",
        "volumes": [*mounts, data],
        **more,
    }


def _yaml(content: object) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=1000)


@command(OBSERVE_COMMANDS, "export")
def export_stack(
    settings: Settings,
    folder: Folder,
    target: Target = None,
    alertmanager: Alertmanager = DEFAULT_ALERTMANAGER,
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
    files = stack_files(wanted)
    written = write_files(folder, {name: text.encode() for name, text in files.items()}, replace=force)
    item = {"folder": str(folder), "target": wanted.target, "files": [str(path) for path in written]}

    def table() -> RenderableType:
        return key_values(
            [
                ("prometheus.yml", f"scrapes {wanted.target}, loads the rules beside it"),
                (RULES_FILE, "recording and alert rules"),
                ("alertmanager.yml", "a route for the alerts; its receiver is for you to fill in"),
                ("compose.yaml", "the three as containers: GRAFANA_PASSWORD=... docker compose up -d"),
                ("grafana/dashboards", f"{len(grafana_server.dashboard_texts())} dashboards"),
            ]
        )

    show(settings, "StackExport", item, lambda: Group(Text(f"in {folder}:"), table()))


def _export(
    settings: Settings,
    target: str | None,
    alertmanager: str,
    runbook_url: str | None,
    grafana_url: str | None,
) -> Export:
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
    wanted = Export(known, found, alertmanager, runbook_url, grafana_url)
    name = wanted.target_host.casefold()
    if name not in (*known.known_as, "localhost") and not is_own_name(name):
        say(settings.stderr, f"the exporter refuses requests to {name} unless started with --known-as {name}")
    return wanted


_LOG: Final = logging.getLogger(__name__)
_READY: Final = "metrics of {labs} are at {url} (Ctrl-C ends)"


@command(OBSERVE_COMMANDS, "metrics", flags=("name",), needs_root=True)
def serve_metrics(
    settings: Settings,
    address: AddressOption = DEFAULT_ADDRESS,
    port: PortOption = DEFAULT_PORT,
    known_as: KnownAs = None,
) -> None:
    """Serve metrics for Prometheus, until Ctrl-C.

    Serves all labs, or with -n one. Reads the BPF maps at each scrape, so it may
    be started and stopped at any time. Prints the URL on stdout once it is ready.
    A scrape also restarts the fault reaper if that was killed. /alerts/NAME says
    what to do about an alert; /runs/RUN is the report of a run.

    [bold]Examples[/bold]

      mrc-testbed observe metrics &
      curl -s http://127.0.0.1:9847/metrics | grep mrc_goodput
    """
    labs = [settings.name] if settings.names_lab else []
    pages: Pages = {"alerts": alert_pages(), "runs": partial(report_page, state_root())}
    with exporter_running(labs, address, port, _attend, KINDS, pages, known_as or ()) as url:
        shown = f"lab {settings.name}" if settings.names_lab else "all labs"
        say(settings.stderr, _READY.format(labs=shown, url=url))
        write_out(settings, f"{url}\n")
        threading.Event().wait()


def _attend(lab: str) -> None:
    """Restart the fault reaper if needed; a failure is logged and metrics are served all the same."""
    try:
        for done in restore_reaper(lab):
            _LOG.warning("lab %s: %s", lab, done)
    except TestbedError as error:
        _LOG.warning("lab %s: %s", lab, error.message)
