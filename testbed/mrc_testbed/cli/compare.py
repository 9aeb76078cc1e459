"""compare: two runs, figure by figure."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.run_figures import ComparedFigure, compare_runs
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import plain_table, show
from mrc_testbed.document.one_step import latest_of
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.report.run_record import has_ended, load_manifest


@command(COMMANDS, "compare")
def compare(
    settings: Settings,
    before: Annotated[
        str, typer.Argument(metavar="A", help="Result folder, bundle, or a scenario's name for its latest.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Run to compare with.")],
    runs: Annotated[Path, typer.Option("--runs", metavar="FOLDER", help="Folder of result folders.")] = Path(
        "runs"
    ),
) -> None:
    """Compare two runs: every figure that both have, and the ratio.

    [bold]Examples[/bold]

      mrc-testbed compare runs/t0-t1-flap/20261121T170000Z-3fa2b1 t0-t1-flap
    """
    manifests = [_manifest(runs, what) for what in (before, after)]
    figures = compare_runs(*manifests)
    names = [f"{manifest['scenario']} {manifest['run']}" for manifest in manifests]
    document = {
        "before": manifests[0]["run"],
        "after": manifests[1]["run"],
        "figures": [figure_document(figure) for figure in figures],
    }

    def table() -> RenderableType:
        shown = plain_table("", "#A", "#B", "#B/A", rows=map(figure_cells, figures))
        heads = [
            Text(f"{letter}  {name}: {manifest['status']}")
            for letter, name, manifest in zip("AB", names, manifests, strict=True)
        ]
        return Group(*heads, Text(), shown)

    show(settings, "Comparison", document, table, lines="figures")


def figure_document(figure: ComparedFigure) -> dict[str, Any]:
    return {**asdict(figure), "ratio": figure.ratio}


def figure_cells(figure: ComparedFigure) -> tuple[str, ...]:
    """Its name, both values and the ratio."""
    ratio = "-" if figure.ratio is None else f"{figure.ratio:.3f}"
    return figure.name, figure.shown(figure.before), figure.shown(figure.after), ratio


def _manifest(runs: Path, what: str) -> Mapping[str, Any]:
    with opened(Path(what), "run") as given:
        folder = given if os.path.lexists(given / "manifest.json") else latest_of(runs / what)
        try:
            found = load_manifest(folder / "manifest.json")
        except OSError as error:
            raise UsageError(
                f"there is no run at {what} or {folder}: {error.strerror}",
                hint="name a result folder, a bundle, or a scenario and the folder of its --runs",
            ) from error
    if not has_ended(found):
        raise UsageError(f"{folder}: the run has not ended, or was killed")
    return found
