"""observe alerts."""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Final

import typer
from rich.text import Text

from mrc_testbed.cli.options import OBSERVE_COMMANDS, Settings, command
from mrc_testbed.cli.render import bad, key_values, say, show_rows
from mrc_testbed.faults.drill import note_named
from mrc_testbed.observe.alerts import FIRING, await_alert, read_alerts
from mrc_testbed.report.table import Columns
from mrc_testbed.units import format_duration_ns

_NS_PER_SECOND: Final = 10**9
_COLUMNS: Final[Columns] = {
    "alert": "name",
    "state": lambda row: bad(row["state"]) if row["state"] == FIRING else row["state"],
    "since": lambda row: format_duration_ns(max(1, round(row["since_s"])) * _NS_PER_SECOND),
    "severity": "severity",
    "labels": lambda row: " ".join(map("=".join, row["labels"].items())),
}


@command(OBSERVE_COMMANDS, "alerts")
def alerts(
    settings: Settings,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="ALERT", help="Wait up to a minute until this alert fires."),
    ] = None,
) -> None:
    """Show the alerts that are active now.

    Below them are the dashboard to look at, what to do, and the command to go on
    with.

    [bold]Examples[/bold]

      mrc-testbed observe alerts
      mrc-testbed observe alerts --wait MrcLinkDown
    """
    settings.progress("asking Prometheus")
    found = read_alerts() if wait is None else await_alert(wait, partial(say, settings.stderr))
    for lab in {alert.labels["lab"] for alert in found if "lab" in alert.labels}:
        of_lab = (alert.labels for alert in found if alert.labels.get("lab") == lab)
        note_named(lab, "observe alerts", (value for labels in of_lab for value in labels.values()))
    more = dict.fromkeys(
        (alert.name, alert.dashboard_url, alert.runbook_url, alert.command) for alert in found
    )
    links = [(name, Text("\n".join(filter(None, lines)))) for name, *lines in more]
    show_rows(
        settings,
        "Alerts",
        {"alerts": [asdict(alert) for alert in found]},
        _COLUMNS,
        empty="no alert is active",
        tail=[Text(), key_values(links)] if links else (),
    )
