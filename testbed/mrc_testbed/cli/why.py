"""why: what the time of an operation of a run in virtual time went into."""

import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.tables import finished_runs
from mrc_testbed.cli.options import RunsFolder, Settings, command
from mrc_testbed.cli.render import show, shown_table
from mrc_testbed.document.latest import latest_of
from mrc_testbed.errors import UsageError
from mrc_testbed.report.table import Table
from mrc_testbed.scenario.spec.plan import load_plan
from mrc_testbed.shown import format_time

SCHEMA_VERSION: Final = 1
_MESSAGES_SHOWN: Final = 6


def register(root: typer.Typer) -> None:
    command(root, "why")(why)


def why(
    settings: Settings,
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Result folder, bundle, a scenario's name for its latest run, or latest."
        ),
    ],
    operation: Annotated[
        str | None,
        typer.Argument(
            metavar="OPERATION", help="Workload and number, like 'job step 41' (default: the slowest)."
        ),
    ] = None,
    slowest: Annotated[
        bool, typer.Option("--slowest", help="Explain the slowest operation, as without OPERATION.")
    ] = False,
    runs: RunsFolder = Path("runs"),
) -> None:
    """Explain why an operation took as long as it did: the causes on its critical path.

    Repeats a run in virtual time twice and looks at each packet that others
    waited for: in which queue it was, where it was lost and what found that. Each
    nanosecond has one cause. An operation is a collective, a training step, or a
    message of a flow. The run's report shows the causes too from then on.

    [bold]Examples[/bold]

      mrc-testbed why t0-t1-flap
      mrc-testbed why runs/training-flapping-optic/latest 'job step 41'
      mrc-testbed why t0-t1-flap.tar.zst --slowest -o json
    """
    from mrc_testbed.explain.page import answer  # noqa: PLC0415 - numpy takes a while to import

    if what == "latest":
        what = str(max(runs.glob("*/latest"), key=lambda path: path.resolve().name, default=what))
    with opened(Path(what), "run") as given:
        folder = given if os.path.lexists(given / "plan.json") else latest_of(runs / what)
        [run] = finished_runs(folder)
        if not run.is_virtual:
            raise UsageError(
                f"{what} is a live run, and only one in virtual time can be repeated to be looked at",
                hint=f"explain its twin: mrc-testbed replay {what} --virtual, and mrc-testbed why latest",
            )
        document, causes = answer(
            load_plan(folder / "plan.json"),
            folder,
            run.manifest["time_zero_monotonic_ns"],
            None if slowest else operation,
            is_kept=not Path(what).is_file(),
        )
    show(settings, "Why", SCHEMA_VERSION, document, lambda: _screen(document, causes), lines="causes")


def _screen(document: dict[str, Any], causes: Table) -> RenderableType:
    parts: list[RenderableType] = [Text(document["sentence"]), Text(), shown_table(causes)]
    if messages := document["messages"]:
        times = [f"{each['hosts']} {format_time(each['ns'])}" for each in messages[-_MESSAGES_SHOWN:]]
        left = len(messages) - len(times)
        before = f"{left} messages, then " if left else ""
        parts += [Text(), Text(f"path  {before}{', '.join(times)}")]
    return Group(*parts)
