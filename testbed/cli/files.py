"""validate | schema: files before anything is done with them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.text import Text

from testbed import document
from testbed.cli.exit_codes import ExitCode
from testbed.cli.options import OutputFormat, Settings, command
from testbed.cli.render import bad, good, show, write_out
from testbed.document import Kind
from testbed.errors import UsageError
from testbed.scenario.load import load_scenario, scenario_schema
from testbed.scenario.resolve import resolve
from testbed.topology.spec import TopologySpec

SCHEMA_VERSION: Final = 1
PANEL: Final = "Files"


def register(app: typer.Typer) -> None:
    """Adds the commands of this module to *app*."""
    command(app, "validate", panel=PANEL)(validate)
    command(app, "schema", panel=PANEL)(schema)


def validate(
    settings: Settings, files: Annotated[list[Path], typer.Argument(help="Scenario and Topology files.")]
) -> int:
    """Check files: keys, units, names, selectors against the fabric. Runs nothing, needs no root.

    Everything that is wrong is listed with its line. The exit status is 2 when
    a file is wrong.

    [bold]Examples[/bold]

      mrc-testbed validate scenarios/*.yaml
    """
    problems = {str(path): _problem(path) for path in files}
    items = [
        {"file": file, "valid": problem is None, "problem": problem} for file, problem in problems.items()
    ]

    def table() -> Group:
        lines = []
        for file, problem in problems.items():
            lines.append(Text.assemble(good("ok  ") if problem is None else bad("bad "), file))
            if problem is not None:
                lines.append(Text(problem, style="red"))
        return Group(*lines)

    show(settings, "Validation", SCHEMA_VERSION, {"files": items}, table, lines="files")
    return ExitCode.PASS if not any(problems.values()) else ExitCode.USAGE


def schema(
    settings: Settings,
    kind: Annotated[Kind, typer.Argument(case_sensitive=False, help="Kind of file.")],
) -> None:
    """JSON Schema of a kind of file: editors complete and check with it.

    [bold]Examples[/bold]

      mrc-testbed schema Scenario > scenario.schema.json

    and, for editors with the YAML language server, above a scenario:

      # yaml-language-server: $schema=scenario.schema.json
    """
    found = _schema_of(kind)
    if settings.output is OutputFormat.YAML:
        show(settings, "Schema", SCHEMA_VERSION, {"schema": found}, lambda: "")
        return
    write_out(settings, json.dumps(found, indent=2) + "\n")


def _schema_of(kind: Kind) -> dict[str, Any]:
    if kind is Kind.SCENARIO:
        return scenario_schema()
    if kind is Kind.TOPOLOGY:
        return document.json_schema(kind, TopologySpec)
    raise UsageError(f"there are no {kind} files yet", hint="kinds with a schema: Scenario, Topology")


def _problem(path: Path) -> str | None:
    """What is wrong with a file; None for nothing."""
    try:
        if document.load(path).kind is Kind.SCENARIO:
            resolve(load_scenario(path))
        else:
            document.validate(document.load(path, Kind.TOPOLOGY), TopologySpec)
    except UsageError as error:
        return error.message
    return None


__all__: Sequence[str] = ("register", "schema", "validate")
