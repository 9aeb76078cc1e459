"""Alerts of the stack's Prometheus. Live: asks it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mrc_agents.clock import epoch_ns, monotonic_ns
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.observe.machine import json_of
from mrc_testbed.observe.stack_state import ServiceName, read_stack, stack_paths

FIRING: Final = "firing"
WAIT_NS: Final = 60 * 10**9

_POLL_S: Final = 0.2
_NO_PLACE: Final = ("alertname", "severity", "dashboard")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that is pending or firing."""

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
