"""observe: the group of its commands."""

import typer

from mrc_testbed.cli.commands import OBSERVE, add_listed, lazy
from mrc_testbed.cli.options import COMMANDS, OBSERVE_COMMANDS

app = typer.Typer(
    cls=lazy(OBSERVE, OBSERVE_COMMANDS),
    no_args_is_help=True,
    help="Run Prometheus and Grafana beside the labs.",
)
add_listed(app, OBSERVE)
COMMANDS.add_typer(app, name="observe")
