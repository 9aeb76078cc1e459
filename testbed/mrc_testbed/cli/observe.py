"""observe: the group of its commands."""

import typer

from mrc_testbed.cli.commands import OBSERVE, add_listed, lazy


def register(root: typer.Typer) -> None:
    app = typer.Typer(
        no_args_is_help=True, cls=lazy(OBSERVE), help="Run Prometheus and Grafana beside the labs."
    )
    add_listed(app, OBSERVE)
    root.add_typer(app, name="observe")
