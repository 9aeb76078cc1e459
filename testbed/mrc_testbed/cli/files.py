"""validate: checks and schemas of files."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import COMMANDS, OutputFormat, Settings, command
from mrc_testbed.cli.ready import complete, file_or_ready
from mrc_testbed.cli.render import bad, good, show, write_out
from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Kind
from mrc_testbed.errors import UsageError
from mrc_testbed.printable import printable
from mrc_testbed.scenario.spec.load import load_scenario, scenario_schema, scenario_variants
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.resolve import load_topology
from mrc_testbed.topology.spec import TopologySpec


@command(COMMANDS, "validate", flags=("overload",))
def validate(
    settings: Settings,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            autocompletion=complete,
            help="Scenario, Topology and Campaign files, or names of `scenarios list`.",
        ),
    ] = None,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="Check for virtual time, not for labs of this machine.")
    ] = False,
    schema: Annotated[
        Kind | None,
        typer.Option(
            "--schema", case_sensitive=False, help="Print the JSON Schema of a kind of file, for editors."
        ),
    ] = None,
) -> int:
    """Check scenario, topology and campaign files; print their schemas.

    Checks keys, units, names, and selectors against the fabric. Lists every
    error with its line, and warns of rates at which frames may be late. Runs
    nothing and needs no root. The exit status is 2 when a file is wrong.

    [bold]Examples[/bold]

      mrc-testbed validate scenarios/*.yaml
      mrc-testbed validate --virtual true/permutation-400g
      mrc-testbed validate --schema Scenario > scenario.schema.json

    and, for editors with the YAML language server, above a scenario:

      # yaml-language-server: $schema=scenario.schema.json
    """
    if (schema is None) == (not files):
        raise UsageError("give files to check, or --schema and a kind of file")
    if schema is not None:
        printed = _schema_of(schema)
        if settings.output is OutputFormat.YAML:
            show(settings, "Schema", {"schema": printed}, lambda: "")
        else:
            write_out(settings, json.dumps(printed, indent=2) + "\n")
        return ExitCode.PASS
    items = [_validation(file, Admission(is_virtual=virtual)) for file in files or ()]

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

    show(settings, "Validation", {"files": items}, table, lines="files")
    return ExitCode.PASS if all(item["valid"] for item in items) else ExitCode.USAGE


def _schema_of(kind: Kind) -> dict[str, Any]:
    if kind is Kind.SCENARIO:
        return scenario_schema()
    if kind is Kind.CAMPAIGN:
        from mrc_testbed.campaign.spec import campaign_schema  # noqa: PLC0415 - few files are campaigns

        return campaign_schema()
    return document.json_schema(kind, TopologySpec)


def _validation(given: Path, admission: Admission) -> dict[str, Any]:
    """Problem and warning of a file or ready name, each None for none."""
    try:
        path = file_or_ready(given)
        match document.load(path).kind:
            case Kind.SCENARIO:
                for variant in scenario_variants(load_scenario(path)):
                    admission.plan(variant, resolve(variant))
            case Kind.CAMPAIGN:
                from mrc_testbed.campaign.plan import plan_campaign  # noqa: PLC0415 - likewise

                plan_campaign(path, admit=admission.plan)
            case Kind.TOPOLOGY:
                admission.topology(load_topology(path))
    except UsageError as error:
        return {"file": str(given), "valid": False, "problem": error.message, "warning": None}
    return {"file": str(given), "valid": True, "problem": None, "warning": admission.warning}
