"""scenarios list | copy: the ready scenarios and campaigns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.text import Text

from mrc_testbed.campaign.spec import CampaignSpec
from mrc_testbed.cli.options import COMMANDS, ForceOption, Settings, command
from mrc_testbed.cli.ready import FOLDER, complete, ready_file, ready_files
from mrc_testbed.cli.render import known, say, show, show_rows
from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Kind
from mrc_testbed.document.text_file import write_files
from mrc_testbed.installation import shipped
from mrc_testbed.report.table import Columns
from mrc_testbed.scenario.spec.load import build_scenario
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.scenario_spec import ScenarioSpec
from mrc_testbed.workloads.spec import TraceSpec
from mrc_testbed.workloads.trace import trace_files

_VIRTUAL_TAG: Final = "virtual"
"""Tag of scenarios that no live lab can carry."""

app = typer.Typer(no_args_is_help=True, help="List ready scenarios and campaigns; copy them to edit.")
COMMANDS.add_typer(app, name="scenarios")


_COLUMNS: Final[Columns] = {
    "name": "name",
    "kind": "kind",
    "#NICs": "hosts",
    "#length": lambda row: known(row["length_ns"]),
    "description": lambda row: (
        row["description"].partition(";")[0].removesuffix(".")
        + (" (only --virtual)" if row["virtual_only"] else "")
    ),
}


def _row(name: str, path: Path) -> dict[str, Any]:
    """A ready file. NICs and length of one run are of a scenario, without its variants; else None."""
    loaded = document.load(path)
    hosts = length_ns = None
    if loaded.kind is Kind.SCENARIO:
        scenario = build_scenario(loaded)
        plan = resolve(scenario)
        hosts = scenario.topology.numbering.host_count
        length_ns = None if plan.end_ns is None else plan.end_ns - plan.start_ns
    metadata = loaded.metadata
    return {
        "name": name,
        "kind": loaded.kind.value,
        "hosts": hosts,
        "length_ns": length_ns,
        "virtual_only": _VIRTUAL_TAG in metadata.tags,
        "tags": metadata.tags,
        "description": metadata.description,
    }


@command(app, "list")
def list_ready(
    settings: Settings,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Part of a name, tag or description.", show_default=False)
    ] = "",
) -> None:
    """List ready scenarios and campaigns.

    `run`, `campaign run` and `validate` take these names in place of a file.

    [bold]Examples[/bold]

      mrc-testbed scenarios list
      mrc-testbed scenarios list incast
      mrc-testbed scenarios list -o json
    """
    rows = [
        row
        for row in (_row(name, path) for name, path in ready_files().items())
        if text.casefold() in " ".join((row["name"], *row["tags"], row["description"])).casefold()
    ]
    empty = f"no ready scenario has {text!r}"
    show_rows(settings, "ScenarioList", {"scenarios": rows}, _COLUMNS, empty=empty)


@command(app, "copy")
def copy(
    settings: Settings,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", autocompletion=complete, help="Ready scenarios.")
    ],
    folder: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="Folder to write; created if needed.")
    ] = Path(FOLDER),
    force: ForceOption = False,
) -> None:
    """Copy ready scenarios and campaigns, with the files that they name, to edit them.

    Sub-folders are kept. A file that exists and differs is left as it is, and
    then nothing is copied, unless --force replaces it.

    [bold]Examples[/bold]

      mrc-testbed scenarios copy t0-t1-flap
      mrc-testbed scenarios copy campaigns/loss-ratio --to mine
    """
    root = shipped(FOLDER).resolve()
    paths = [path for name in names for path in _with_named(ready_file(name).resolve())]
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    written = write_files(folder, contents, replace=force)
    item = {"folder": str(folder), "files": [str(path) for path in written]}
    show(settings, "ScenariosCopied", item, lambda: Group(*(Text(str(path)) for path in written)))
    say(settings.stderr, "a path runs the copy, a name the ready one")


def _with_named(path: Path) -> Iterator[Path]:
    """The file and all files that it names."""
    yield path
    loaded = document.load(path)
    named: list[str] = []
    if loaded.kind is Kind.CAMPAIGN:
        named = [entry.path for entry in document.validate(loaded, CampaignSpec).entries()]
    elif loaded.kind is Kind.SCENARIO:
        spec = document.validate(loaded, ScenarioSpec)
        named = [spec.topology] if isinstance(spec.topology, str) else []
        for trace in spec.workloads:
            if isinstance(trace, TraceSpec):
                yield from map(Path, trace_files(str(path.parent / trace.files)))
    for each in named:
        yield from _with_named((path.parent / each).resolve())
