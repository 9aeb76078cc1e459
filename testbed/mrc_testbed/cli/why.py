"""why: what the time of an operation of a run in virtual time went into."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.bundle.bundle import opened
from mrc_testbed.campaign.tables import finished_runs
from mrc_testbed.cli.options import RunsFolder, Settings, command
from mrc_testbed.cli.render import show, shown_table
from mrc_testbed.document.latest import latest_of
from mrc_testbed.errors import UsageError
from mrc_testbed.explain.answer import cause_table, document, sentence
from mrc_testbed.explain.page import add_to_report
from mrc_testbed.explain.why import Explanation, explain
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

    Repeats a run in virtual time twice and looks at each packet that others waited
    for: in which queue it was, where it was lost and what found that. Each
    nanosecond has one cause. An operation is a collective, a training step, or a
    message of a flow. The report of the run shows the causes too from then on.

    [bold]Examples[/bold]

      mrc-testbed why t0-t1-flap
      mrc-testbed why runs/training-flapping-optic/latest 'job step 41'
      mrc-testbed why t0-t1-flap.tar.zst --slowest -o json
    """
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
        zero_ns = run.manifest["time_zero_monotonic_ns"]
        found = explain(load_plan(folder / "plan.json"), folder, zero_ns, None if slowest else operation)
        if not Path(what).is_file():
            add_to_report(found, folder / "report.html")
    show(settings, "Why", SCHEMA_VERSION, document(found), lambda: _screen(found), lines="causes")


def _screen(found: Explanation) -> RenderableType:
    parts: list[RenderableType] = [Text(sentence(found)), Text(), shown_table(cause_table(found))]
    if found.messages:
        shown = found.messages[-_MESSAGES_SHOWN:]
        times = [f"{hosts} {format_time(ns)}" for hosts, ns in shown]
        left = len(found.messages) - len(shown)
        before = f"{left} messages, then " if left else ""
        parts += [Text(), Text(f"path  {before}{', '.join(times)}")]
    return Group(*parts)
