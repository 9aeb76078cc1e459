"""bench: one workload on a lab that is up, as perftest and nccl-tests show it."""

from typing import Final

import typer

from testbed.cli import bench_collective, bench_flow

app: Final = typer.Typer(
    no_args_is_help=True, help="Measure a running lab: bandwidth, latency, incast, collectives."
)


def register(root: typer.Typer) -> None:
    """Adds the group of this module to *root*."""
    bench_flow.register(app)
    bench_collective.register(app)
    root.add_typer(app, name="bench")
