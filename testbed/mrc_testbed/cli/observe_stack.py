"""observe up | down | status | open | alerts: Prometheus and Grafana."""

import os
import webbrowser
from contextlib import closing
from dataclasses import asdict
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.observe_options import (
    GrafanaUrl,
    KnownAs,
    PrometheusUrl,
    TokenFile,
    describe_stack,
    read_token,
)
from mrc_testbed.cli.options import OBSERVE_COMMANDS, AddressOption, Settings, command
from mrc_testbed.cli.render import bad, good, key_values, plain_table, say, show, show_rows, write_out
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.faults.drill import note_named
from mrc_testbed.metrics.exporter import DEFAULT_PORT, process_metrics
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS
from mrc_testbed.observe import stack
from mrc_testbed.observe.prometheus import FIRING, await_alert, read_alerts
from mrc_testbed.observe.stack_state import (
    DEFAULT_DISK_BYTES,
    DEFAULT_GRAFANA_PORT,
    DEFAULT_OBJECTIVE_NS,
    DEFAULT_PROMETHEUS_PORT,
    DEFAULT_RETENTION_NS,
    ServiceName,
    StackSettings,
    StackState,
    read_stack,
    stack_paths,
)
from mrc_testbed.report.table import Columns
from mrc_testbed.units import format_duration_ns, format_size_bytes, parse_duration_ns, parse_size_bytes

_OVERVIEW: Final = "/d/mrc-overview"
_RETENTION: Final = format_duration_ns(DEFAULT_RETENTION_NS)
_DISK: Final = format_size_bytes(DEFAULT_DISK_BYTES)
_OBJECTIVE: Final = format_duration_ns(DEFAULT_OBJECTIVE_NS)
_NS_PER_SECOND: Final = 10**9
_COLUMNS: Final[Columns] = {
    "alert": "name",
    "state": lambda row: bad(row["state"]) if row["state"] == FIRING else row["state"],
    "since": lambda row: format_duration_ns(max(1, round(row["since_s"])) * _NS_PER_SECOND),
    "severity": "severity",
    "labels": lambda row: " ".join(map("=".join, row["labels"].items())),
}


def _port(option: str, what: str) -> Any:
    return typer.Option(option, min=1, max=65535, metavar="NUMBER", help=f"TCP port of {what}.")


Retention = Annotated[
    int,
    typer.Option("--retention", parser=parse_duration_ns, metavar="TIME", help="Retention time of samples."),
]
Disk = Annotated[
    int, typer.Option("--disk", parser=parse_size_bytes, metavar="SIZE", help="Retention size of samples.")
]
Objective = Annotated[
    int,
    typer.Option(
        "--p99-objective",
        parser=parse_duration_ns,
        metavar="TIME",
        help="Objective for p99 of message completion; an alert fires above it.",
    ),
]


@command(OBSERVE_COMMANDS, "up", needs_root=True)
def up(
    settings: Settings,
    grafana_url: GrafanaUrl = None,
    prometheus_url: PrometheusUrl = None,
    token_file: TokenFile = None,
    address: AddressOption = DEFAULT_ADDRESS,
    known_as: KnownAs = None,
    exporter_port: Annotated[int, _port("--exporter-port", "the exporter")] = DEFAULT_PORT,
    prometheus_port: Annotated[int, _port("--prometheus-port", "Prometheus")] = DEFAULT_PROMETHEUS_PORT,
    grafana_port: Annotated[int, _port("--grafana-port", "Grafana")] = DEFAULT_GRAFANA_PORT,
    retention: Retention = _RETENTION,  # type: ignore[assignment]
    disk: Disk = _DISK,  # type: ignore[assignment]
    p99_objective: Objective = _OBJECTIVE,  # type: ignore[assignment]
) -> None:
    """Start exporter, Prometheus and Grafana with the dashboards.

    They show all labs, also later ones, and run until `observe down`. They listen
    on 127.0.0.1; --address lets other machines look, without a password.
    Prometheus and Grafana run as installed programs, else as containers. Without
    Grafana the rest works. A service that fails is restarted.

    [bold]Examples[/bold]

      mrc-testbed observe up
      mrc-testbed observe up --retention 2h --disk 512MiB
      mrc-testbed observe up --grafana-url http://10.0.0.5:3000
      mrc-testbed observe up --address 0.0.0.0
    """
    try:
        ip_address(address)
    except ValueError:
        raise UsageError(
            f"{address!r} is no IP address", hint="give one of this machine, or 0.0.0.0 for all of them"
        ) from None
    wanted = StackSettings(
        address=address,
        known_as=tuple(known_as or ()),
        exporter_port=exporter_port,
        prometheus_port=prometheus_port,
        grafana_port=grafana_port,
        prometheus_url=prometheus_url,
        grafana_url=grafana_url,
        retention_ns=retention,
        disk_bytes=disk,
        p99_objective_ns=p99_objective,
    )
    item = bring_up(settings, wanted, token_file)
    show(settings, "StackUp", item, lambda: describe_stack(item))


@command(OBSERVE_COMMANDS, "down", needs_root=True)
def down(settings: Settings) -> None:
    """Stop them and delete their samples; labs stay.

    It is no error if none runs. Dashboards in a Grafana of your own stay;
    `observe dashboards remove` removes them.

    [bold]Examples[/bold]

      mrc-testbed observe down
    """
    state = read_stack(stack_paths())
    existed = stack.down(progress=settings.progress)
    own = state.settings.grafana_url if state is not None else None
    if own is not None:
        say(settings.stderr, f"the dashboards stay in Grafana at {own}: observe dashboards remove")
    text = "the stack is removed" if existed else "there was no stack"
    show(settings, "StackRemoved", {"existed": existed}, lambda: Text(text))


@command(OBSERVE_COMMANDS, "status")
def status(settings: Settings) -> int:
    """Show the state of the services; exit status 1 on a problem.

    [bold]Examples[/bold]

      mrc-testbed observe status
      mrc-testbed observe status -o json
    """
    found = stack.status()
    item: dict[str, Any] = {
        "up": found.state is not None,
        "services": [
            {**service.record.model_dump(mode="json"), "version": service.version}
            for service in found.services
        ],
        "without": dict(found.state.without) if found.state else {},
        "problems": list(found.problems),
    }
    show(settings, "StackStatus", item, lambda: _status_table(found))
    return ExitCode.PASS if not found.problems else ExitCode.ERROR


@command(OBSERVE_COMMANDS, "open")
def open_stack(settings: Settings) -> None:
    """Print the address of the dashboards and open a browser.

    Without Grafana it is Prometheus's page.

    [bold]Examples[/bold]

      mrc-testbed observe open
    """
    url = _first_address()
    write_out(settings, f"{url}\n")
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not (settings.stdout.is_terminal and has_display and webbrowser.open(url)):
        say(settings.stderr, "there is no browser to start here: open the address in one")


def bring_up(settings: Settings, wanted: StackSettings, token_file: Path | None) -> dict[str, Any]:
    """Start the stack, put the dashboards into the user's own Grafana, and return the document."""
    process_metrics()  # a missing extra is said before anything starts
    token = read_token(token_file) if wanted.grafana_url is not None else ""
    state = stack.up(wanted, progress=settings.progress)
    pushed = _push(settings, state, token) if wanted.grafana_url is not None else None
    return stack_document(state, pushed)


def known_settings(grafana_url: str | None, prometheus_url: str | None) -> StackSettings:
    """Settings of the stack that is up, or the usual ones, with the given addresses."""
    state = read_stack(stack_paths())
    if state is not None and grafana_url is None and prometheus_url is None:
        return state.settings
    return StackSettings(grafana_url=grafana_url, prometheus_url=prometheus_url)


def stack_document(state: StackState, pushed: int | None) -> dict[str, Any]:
    grafana = state.service(ServiceName.GRAFANA)
    return {
        "address": state.settings.address,
        "exporter": _address(state, ServiceName.EXPORTER),
        "prometheus": _address(state, ServiceName.PROMETHEUS),
        "grafana": None if grafana is None else grafana.url + _OVERVIEW,
        "without": {str(name): reason for name, reason in state.without.items()},
        "admin_password_file": (
            str(stack_paths().password_file) if grafana is not None and grafana.kind != "own" else None
        ),
        "pushed_dashboards": pushed,
    }


def _push(settings: Settings, state: StackState, token: str) -> int:
    """Put the dashboards into the user's own Grafana and return their number."""
    from mrc_testbed.observe.grafana_api import Grafana  # noqa: PLC0415 - a third of a second to import

    grafana, prometheus = state.service(ServiceName.GRAFANA), state.service(ServiceName.PROMETHEUS)
    if grafana is None or prometheus is None:
        raise FabricError("the stack has no Grafana to put dashboards into")
    settings.progress("putting dashboards into Grafana")
    with closing(Grafana(grafana.url, token)) as client:
        return len(client.push(prometheus.url).dashboards)


def _address(state: StackState, name: ServiceName) -> str | None:
    service = state.service(name)
    return None if service is None else service.url


def _first_address() -> str:
    state = read_stack(stack_paths())
    for name in (ServiceName.GRAFANA, ServiceName.PROMETHEUS):
        service = state.service(name) if state is not None else None
        if service is not None:
            return service.url + (_OVERVIEW if name is ServiceName.GRAFANA else "/graph")
    raise FabricError("there is no stack", hint="start it: mrc-testbed observe up")


def _status_table(found: stack.StackStatus) -> RenderableType:
    if found.state is None:
        return Text("there is no stack; `mrc-testbed observe up` starts one")
    table = plain_table("part", "state", "version", "address", "as")
    for service in found.services:
        health = bad("no answer") if service.version is None else good("answers")
        record = service.record
        kind = {"own": "your own", "container": "container", "process": f"pid {record.pid}"}[record.kind]
        table.add_row(record.name, health, service.version or "-", record.url, kind)
    for name in found.state.without:
        table.add_row(name, "none", "-", "-", "-")
    reasons = (Text(reason, style="yellow") for reason in found.state.without.values())
    return Group(table, *reasons, *(Text(f"! {problem}", style="red") for problem in found.problems))


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
