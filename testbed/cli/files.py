"""validate | schema: files before anything is done with them."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.text import Text

from testbed import document
from testbed.campaign.plan import plan_campaign
from testbed.campaign.spec import campaign_schema
from testbed.cli.exit_codes import ExitCode
from testbed.cli.options import OutputFormat, Settings, command
from testbed.cli.overload import OverloadGate, OverloadOption
from testbed.cli.render import bad, good, show, write_out
from testbed.document import Kind
from testbed.errors import UsageError
from testbed.metrics.capacity import known_capacity
from testbed.printable import printable
from testbed.scenario.spec.load import load_scenario, scenario_schema, scenario_variants
from testbed.scenario.spec.resolve import resolve
from testbed.topology.resolve import load_topology
from testbed.topology.spec import TopologySpec

SCHEMA_VERSION: Final = 1


def register(app: typer.Typer) -> None:
    """Adds the commands of this module to *app*."""
    command(app, "validate")(validate)
    command(app, "schema")(schema)


def validate(
    settings: Settings,
    files: Annotated[list[Path], typer.Argument(help="Scenario, Topology and Campaign files.")],
    overload: OverloadOption = False,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="Check what virtual time can do, not this machine's labs.")
    ] = False,
) -> int:
    """Check files: keys, units, names, selectors against the fabric. Runs nothing, needs no root.

    Everything that is wrong is listed with its line, rates that this machine
    cannot carry too, and a warning says when it can, but frames may be late.
    The exit status is 2 when a file is wrong.

    [bold]Examples[/bold]

      mrc-testbed validate scenarios/*.yaml
      mrc-testbed validate --virtual scenarios/true/*.yaml
    """
    known = functools.cache(known_capacity)
    gates = (OverloadGate(insists=overload, is_virtual=virtual, known=known) for _ in files)
    items = list(map(_validation, files, gates))

    def table() -> Group:
        lines = []
        for item in items:
            lines.append(
                Text.assemble(good("ok  ") if item["valid"] else bad("bad "), printable(item["file"]))
            )
            if item["problem"] is not None:
                lines.append(Text(item["problem"], style="red"))
            if item["warning"] is not None:
                lines.append(Text(f"    warning: {item['warning']}", style="yellow"))
        return Group(*lines)

    show(settings, "Validation", SCHEMA_VERSION, {"files": items}, table, lines="files")
    return ExitCode.PASS if all(item["valid"] for item in items) else ExitCode.USAGE


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
    if kind is Kind.CAMPAIGN:
        return campaign_schema()
    return document.json_schema(kind, TopologySpec)


def _validation(path: Path, gate: OverloadGate) -> dict[str, Any]:
    """What is wrong with a file, and what is to be feared of it; None for nothing."""
    try:
        match document.load(path).kind:
            case Kind.SCENARIO:
                for variant in scenario_variants(load_scenario(path)):
                    gate.plan(variant, resolve(variant))
            case Kind.CAMPAIGN:
                plan_campaign(path, admit=gate.plan)
            case Kind.TOPOLOGY:
                spec = load_topology(path)
                gate.topology(spec, path)
    except UsageError as error:
        return {"file": str(path), "valid": False, "problem": error.message, "warning": None}
    return {"file": str(path), "valid": True, "problem": None, "warning": next(iter(gate.warnings), None)}


__all__: Sequence[str] = ("register", "schema", "validate")
