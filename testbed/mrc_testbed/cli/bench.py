"""bench: one workload on a running lab, reported as perftest and nccl-tests do."""

from typing import Final

import typer

from mrc_testbed.cli import bench_collective, bench_flow

app: Final = typer.Typer(
    no_args_is_help=True, help="Measure a running lab: bandwidth, latency, incast, collectives."
)


def register(root: typer.Typer) -> None:
    bench_flow.register(app)
    bench_collective.register(app)
    root.add_typer(app, name="bench")
