"""Files for a Prometheus, Alertmanager and Grafana that somebody else runs. Live: writes a folder.

prometheus.yml             scrapes the exporter, loads the rules, sends alerts
mrc-testbed-rules.yaml     recording and alert rules
alertmanager.yml           one route by lab and alert; its receiver is still to be filled in
compose.yaml               the three programs as containers, for Docker Compose
grafana/provisioning/      data source, and where the dashboards are
grafana/dashboards/        the dashboards
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from mrc_testbed.installation import shipped
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS
from mrc_testbed.observe import grafana_server, prometheus
from mrc_testbed.observe.stack_state import StackSettings

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
    """The content of the exported files."""

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
    files = {
        "prometheus.yml": _yaml(prometheus_config(export)),
        RULES_FILE: prometheus.rules_text(
            export.settings.p99_objective_ns, export.target, export.grafana, export.runbook_url
        ),
        "alertmanager.yml": _RECEIVER + _yaml(_alertmanager_config()),
        "compose.yaml": _yaml(_compose(export.settings)),
    }
    files |= {f"grafana/provisioning/{name}": _yaml(content) for name, content in provisioning.items()}
    return files | {f"grafana/dashboards/{name}": text for name, text in dashboard_texts().items()}


def dashboard_texts() -> dict[str, str]:
    """File name -> content of the dashboards, as Grafana imports them by hand."""
    folder = shipped(grafana_server.DASHBOARDS)
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}


def _alertmanager_config() -> dict[str, Any]:
    route = {
        "receiver": "mrc-testbed",
        "group_by": ["lab", "alertname"],
        "group_wait": "5s",
        "group_interval": "30s",
        "repeat_interval": "4h",
    }
    return {"route": route, "receivers": [{"name": "mrc-testbed"}]}


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
