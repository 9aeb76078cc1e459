"""Options that several commands of the stack share, and its description."""

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.render import bad, key_values
from mrc_testbed.errors import UsageError
from mrc_testbed.observe.stack_state import StackSettings

_TOKEN_VARIABLE: Final = "MRC_TESTBED_GRAFANA_TOKEN"  # noqa: S105 - its name, not a token

GrafanaUrl = Annotated[
    str | None,
    typer.Option(
        "--grafana-url", metavar="URL", help="Grafana to use; its token is in MRC_TESTBED_GRAFANA_TOKEN."
    ),
]
PrometheusUrl = Annotated[
    str | None,
    typer.Option("--prometheus-url", metavar="URL", help="Prometheus to use; configure its scrape yourself."),
]


def _host_name(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+", text):
        raise UsageError(f"{text}: expected a host name without a port")
    return text.casefold()


KnownAs = Annotated[
    list[str] | None,
    typer.Option(
        "--known-as",
        parser=_host_name,
        metavar="NAME",
        help="Another name by which the exporter may be reached; give it again for more.",
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token for --grafana-url.")
]


def read_token(file: Path | None) -> str:
    """Read the token for a Grafana of the user's own from *file* or the environment.

    It is no option by itself: everybody on the machine can read command lines.
    """
    hint = f"put it into {_TOKEN_VARIABLE}, or into a file that --token-file names"
    if file is None:
        token, where = os.environ.get(_TOKEN_VARIABLE, "").strip(), _TOKEN_VARIABLE
    else:
        where = str(file)
        try:
            token = file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise UsageError(f"no token can be read from {file}: {error}", hint=hint) from error
    if not token:
        raise UsageError("a Grafana of your own needs a token, and none is given", hint=hint)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{where} holds no token: it has spaces or unprintable characters", hint=hint)
    return token


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
