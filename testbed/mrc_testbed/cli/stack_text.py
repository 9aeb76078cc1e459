"""Description of the stack; apart from its commands, which take long to import."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.render import bad, key_values
from mrc_testbed.observe.stack_state import StackSettings


def describe_stack(item: Mapping[str, Any]) -> RenderableType:
    lines: list[tuple[str, RenderableType]] = [
        ("exporter", item["exporter"]),
        ("Prometheus", item["prometheus"]),
    ]
    if item["grafana"] is not None:
        lines.append(("Grafana", Text(item["grafana"], style="bold green")))
    if item["admin_password_file"] is not None:
        lines.append(
            ("", f"anybody on this machine may look; admin's password: {item['admin_password_file']}")
        )
    if item["pushed_dashboards"] is not None:
        lines.append(("", f"{item['pushed_dashboards']} dashboards are there, in the folder MRC testbed"))
    notes: list[RenderableType] = []
    if not ip_address(item["address"]).is_loopback:
        host = StackSettings(address=item["address"]).remote_host
        notes.append(Text(f"! Other machines reach all of it at {host}, without a password.", style="yellow"))
    for name, reason in item["without"].items():
        lines.append((name.capitalize(), bad("none")))
        notes.append(Text(f"! {reason}", style="yellow"))
        notes.append(Text("  Everything else works: query Prometheus, or give a Grafana with --grafana-url."))
    return Group(key_values(lines), *notes)
