"""observe alerts."""

from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.text import Text

from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.render import bad, key_values
from mrc_testbed.cli.rows import Column, Row, show_rows
from mrc_testbed.observe.alerts import FIRING, Alert, await_alert, read_alerts
from mrc_testbed.units import format_duration_ns

SCHEMA_VERSION: Final = 1
_NS_PER_SECOND: Final = 10**9


class AlertRow(Alert, Row):
    """An alert in a table."""

    COLUMNS = (
        Column("alert", "name"),
        Column("state", lambda row: bad(row.state) if row.state == FIRING else row.state),
        Column("since", lambda row: format_duration_ns(max(1, round(row.since_s)) * _NS_PER_SECOND)),
        Column("severity", "severity"),
        Column("labels", lambda row: " ".join(f"{name}={value}" for name, value in row.labels.items())),
    )


def register(app: typer.Typer) -> None:
    command(app, "alerts")(alerts)


def alerts(
    settings: Settings,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="ALERT", help="Wait up to a minute until this alert fires."),
    ] = None,
) -> None:
    """Show the alerts that are active now.

    Below them are addresses: the dashboard to look at, and what to do.

    [bold]Examples[/bold]

      mrc-testbed observe alerts
      mrc-testbed observe alerts --wait MrcLinkDown
    """
    settings.progress("asking Prometheus")
    found = read_alerts() if wait is None else await_alert(wait)
    rows = [AlertRow(**asdict(alert)) for alert in found]
    addresses = dict.fromkeys((row.name, row.dashboard_url, row.runbook_url) for row in rows)
    links = [(name, Text("\n".join(urls))) for name, *urls in addresses]
    show_rows(
        settings,
        "Alerts",
        SCHEMA_VERSION,
        {"alerts": rows},
        empty="no alert is active",
        tail=[Text(), key_values(links)] if links else (),
    )
