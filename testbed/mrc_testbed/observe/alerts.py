"""Alerts of the stack's Prometheus. Live: asks it."""

import threading
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mrc_agents.clock import epoch_ns, monotonic_ns
from mrc_testbed.errors import FabricError
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


def read_alerts() -> tuple[Alert, ...]:
    """The alerts that hold now, those that fire first."""
    state = read_stack(stack_paths())
    prometheus = state.service(ServiceName.PROMETHEUS) if state is not None else None
    if prometheus is None:
        raise FabricError("there is no stack", hint="start it: mrc-testbed observe up")
    reply = json_of(f"{prometheus.url}/api/v1/alerts")
    if reply is None:
        raise FabricError(
            f"Prometheus does not answer at {prometheus.url}", hint="mrc-testbed observe status says more"
        )
    found = (_alert(entry) for entry in reply["data"]["alerts"])
    return tuple(
        sorted(found, key=lambda alert: (alert.state != FIRING, alert.name, sorted(alert.labels.items())))
    )


def await_alert(name: str) -> tuple[Alert, ...]:
    """The alerts *name* that fire, once one does."""
    deadline_ns, never = monotonic_ns() + WAIT_NS, threading.Event()
    while True:
        firing = tuple(alert for alert in read_alerts() if (alert.name, alert.state) == (name, FIRING))
        if firing:
            return firing
        if monotonic_ns() > deadline_ns:
            raise FabricError(
                f"no alert {name!r} has fired in {WAIT_NS // 10**9} s",
                hint="`mrc-testbed observe alerts` shows those that hold, docs/guide/alerts.md all there are",
            )
        never.wait(_POLL_S)  # an evaluation of rules is no event that could be awaited


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
    )
