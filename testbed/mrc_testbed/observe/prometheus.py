"""Prometheus: its configuration, its rules, the command that runs it, and its alerts."""

import re
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml

from mrc_agents.clock import epoch_ns, monotonic_ns
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.installation import shipped
from mrc_testbed.metrics.exporter import Page
from mrc_testbed.observe.machine import json_of
from mrc_testbed.observe.service import Service, account_for
from mrc_testbed.observe.stack_state import ServiceName, StackPaths, StackSettings, read_stack, stack_paths

PROGRAM: Final = "prometheus"
IMAGE: Final = "prom/prometheus:v2.53.4"
JOB: Final = "mrc-testbed"
OBJECTIVE_RECORD: Final = "mrc:message_completion_p99_objective:seconds"

RUNBOOK: Final = "docs/guide/alerts.md"
"""Page about each alert and its remedy, by path in the repository; the rules name it."""

_SECTION: Final = re.compile(r"^## (\w+)\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_RULES: Final = "dashboards/rules/mrc-testbed.yaml"
_SCRAPE_INTERVAL: Final = "1s"
_LATE_SAMPLES: Final = "30m"
"""When the clock is set back, samples of times that it has shown before are stored, not refused."""

_BLOCK: Final = "15m"
"""Blocks are deleted whole, and the newest is not counted: with the usual two hours no bound would hold."""

FIRING: Final = "firing"
WAIT_NS: Final = 60 * 10**9

_POLL_S: Final = 0.2
_NO_PLACE: Final = ("alertname", "severity", "dashboard")


def service(paths: StackPaths, settings: StackSettings) -> Service:
    """Describe Prometheus, and write its configuration; or the user's own."""
    name, url, ready = ServiceName.PROMETHEUS, settings.prometheus_address, "/-/ready"
    if settings.is_own(name):
        return Service(name=name, url=url, ready=ready, is_own=True)
    config = write_prometheus_config(paths, settings)
    data = paths.data / name
    arguments = prometheus_arguments(config, data, settings)
    program = shutil.which(PROGRAM)
    return Service(
        name=name,
        url=url,
        ready=ready,
        wants=PROGRAM,
        command=[program, *arguments] if program else (),
        image=IMAGE,
        arguments=arguments,
        config=config.parent,
        data=data,
        account=account_for([PROGRAM], config.parent, data),
    )


def write_prometheus_config(paths: StackPaths, settings: StackSettings) -> Path:
    """Write configuration and rules, and return the configuration's file."""
    folder = paths.config(ServiceName.PROMETHEUS)
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "rules.yaml"
    grafana = settings.grafana_url or f"http://{settings.remote_host}:{settings.grafana_port}"
    shown = f"{settings.remote_host}:{settings.exporter_port}"
    text = rules_text(settings.p99_objective_ns, shown, grafana.rstrip("/"))
    rules.write_text(text, encoding="utf-8")
    config = {
        "global": {
            "scrape_interval": _SCRAPE_INTERVAL,
            "scrape_timeout": _SCRAPE_INTERVAL,
            "evaluation_interval": _SCRAPE_INTERVAL,
        },
        "storage": {"tsdb": {"out_of_order_time_window": _LATE_SAMPLES}},
        "rule_files": [str(rules)],
        **scrape_config(settings.exporter_target, shown),
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def scrape_config(target: str, shown: str | None = None) -> dict[str, Any]:
    """Configuration with which a Prometheus scrapes the exporter at *target*; links lead to *shown*."""
    labels = {"labels": {"instance": shown}} if shown else {}
    return {
        "scrape_configs": [
            {
                "job_name": JOB,
                "scrape_interval": _SCRAPE_INTERVAL,
                "scrape_timeout": _SCRAPE_INTERVAL,
                "static_configs": [{"targets": [target], **labels}],
            }
        ]
    }


def prometheus_arguments(config: Path, data: Path, settings: StackSettings) -> Sequence[str]:
    """Arguments of the program, in a container or not."""
    return [
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--storage.tsdb.retention.time={settings.retention_ns // 10**9}s",
        f"--storage.tsdb.retention.size={settings.disk_bytes >> 10}KB",
        f"--storage.tsdb.min-block-duration={_BLOCK}",
        f"--storage.tsdb.max-block-duration={_BLOCK}",
        f"--web.listen-address={settings.listen_host}:{settings.prometheus_port}",
    ]


def rules_text(p99_objective_ns: int, target: str, grafana: str, runbook_url: str | None = None) -> str:
    """The ready rules.

    Args:
        p99_objective_ns: message completion p99 above which an alert fires.
        target: host and port of the exporter, which serves the page RUNBOOK.
        grafana: address of Grafana.
        runbook_url: another address of the page; None: the exporter's.
    """
    rules = yaml.safe_load(shipped(_RULES).read_text(encoding="utf-8"))
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        if rule.get("record") == OBJECTIVE_RECORD:
            rule["expr"] = f"vector({p99_objective_ns / 1e9!r})"
        if "alert" in rule:
            annotations = rule["annotations"]
            annotations["dashboard_url"] = grafana + annotations["dashboard_url"]
            annotations["runbook_url"] = (
                f"http://{target}/alerts/{rule['alert']}"
                if runbook_url is None
                else annotations["runbook_url"].replace(RUNBOOK, runbook_url)
            )
    return yaml.safe_dump(rules, sort_keys=False, width=1000)


def alert_pages() -> Callable[[str], Page]:
    """The function from an alert's name, in any case, to its section; from no name to the whole page."""
    text = shipped(RUNBOOK).read_text(encoding="utf-8")
    parts = {found[1].casefold(): found[0].rstrip() + "\n" for found in _SECTION.finditer(text)}
    parts[""] = text

    def page(name: str) -> Page:
        part = parts.get(name.casefold())
        if part is None:
            return Page(HTTPStatus.NOT_FOUND, b"no alert has this name; /alerts has them all\n")
        return Page(HTTPStatus.OK, part.encode())

    return page


@dataclass(frozen=True, slots=True)
class Alert:
    name: str  # of its rule
    state: str  # `pending`, or FIRING when it has held long enough
    severity: str  # info, warning or critical
    since_s: float  # how long it has held
    labels: dict[str, str]  # what it names, by label
    summary: str  # in a sentence
    dashboard_url: str  # where one sees more of it
    runbook_url: str  # where one reads what to do
    command: str  # that says more about it; empty for none


def read_alerts() -> tuple[Alert, ...]:
    """The alerts that hold now, those that fire first."""
    found = (_alert(entry) for entry in _asked("alerts")["alerts"])
    return tuple(
        sorted(found, key=lambda alert: (alert.state != FIRING, alert.name, sorted(alert.labels.items())))
    )


def await_alert(name: str, say: Callable[[str], None]) -> tuple[Alert, ...]:
    """The alerts *name* that fire, once one does; says which others fire meanwhile."""
    rules = (rule for group in _asked("rules", type="alert")["groups"] for rule in group["rules"])
    if name not in (known := {str(rule["name"]) for rule in rules}):
        raise UsageError(f"there is no alert {name!r}; there are: {', '.join(sorted(known)) or 'none'}")
    deadline_ns, never = monotonic_ns() + WAIT_NS, threading.Event()
    others: dict[str, str] = {}  # text of each -> its name
    while True:
        firing = [alert for alert in read_alerts() if alert.state == FIRING]
        if found := tuple(alert for alert in firing if alert.name == name):
            return found
        for alert in firing:
            text = f"{alert.name} fires: {' '.join(map('='.join, alert.labels.items()))}"
            if text not in others:
                say(text)
            others[text] = alert.name
        if monotonic_ns() > deadline_ns:
            fired = ", ".join(sorted(set(others.values()))) or "none"
            raise FabricError(f"{name} has not fired in {WAIT_NS // 10**9} s; others that did: {fired}")
        never.wait(_POLL_S)  # an evaluation of rules is no event that could be awaited


def _asked(what: str, **parameters: str) -> Any:
    """Data of a response of the stack's Prometheus."""
    state = read_stack(stack_paths())
    prometheus = state.service(ServiceName.PROMETHEUS) if state is not None else None
    if prometheus is None:
        raise FabricError("there is no stack", hint="start it: mrc-testbed observe up")
    reply = json_of(f"{prometheus.url}/api/v1/{what}", **parameters)
    if reply is None:
        raise FabricError(
            f"Prometheus does not answer at {prometheus.url}", hint="mrc-testbed observe status says more"
        )
    return reply["data"]


def _alert(entry: dict[str, Any]) -> Alert:
    labels, annotations = entry["labels"], entry["annotations"]
    return Alert(
        labels["alertname"],
        entry["state"],
        labels.get("severity", ""),
        max(0.0, epoch_ns() / 1e9 - datetime.fromisoformat(entry["activeAt"]).timestamp()),
        {name: value for name, value in sorted(labels.items()) if name not in _NO_PLACE},
        annotations.get("summary", ""),
        annotations.get("dashboard_url", ""),
        annotations.get("runbook_url", ""),
        annotations.get("command", ""),
    )
