"""observe alerts: what Prometheus says is wrong now."""

from typing import Annotated, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from testbed.cli.options import Settings, command
from testbed.cli.render import bad, plain_table, show
from testbed.observe.alerts import FIRING, Alert, await_alert, read_alerts
from testbed.units import format_duration_ns

SCHEMA_VERSION: Final = 1
_NS_PER_SECOND: Final = 10**9


def register(app: typer.Typer) -> None:
    """Adds the command of this module to the group *app*."""
    command(app, "alerts")(alerts)


def alerts(
    settings: Settings,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="ALERT", help="Return when this alert fires, within a minute."),
    ] = None,
) -> None:
    """The alerts that hold now, and what they name; docs/guide/alerts.md says what to do.

    [bold]Examples[/bold]

      mrc-testbed observe alerts
      mrc-testbed observe alerts --wait MrcLinkDown
    """
    settings.progress("asking Prometheus")
    found = read_alerts() if wait is None else await_alert(wait)
    item: dict[str, Any] = {"alerts": [alert._asdict() for alert in found]}
    show(settings, "Alerts", SCHEMA_VERSION, item, lambda: _table(found), lines="alerts")


def _table(found: tuple[Alert, ...]) -> RenderableType:
    if not found:
        return Text("no alert holds")
    table = plain_table("alert", "state", "since", "severity", "labels")
    for alert in found:
        state = bad(alert.state) if alert.state == FIRING else Text(alert.state)
        since = format_duration_ns(max(1, round(alert.since_s)) * _NS_PER_SECOND)
        labels = " ".join(f"{name}={value}" for name, value in alert.labels.items())
        table.add_row(alert.name, state, since, alert.severity, labels)
    return table
