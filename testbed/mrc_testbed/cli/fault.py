"""fault add | kinds | list | clear | reveal."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text
from typer.core import TyperGroup
from typer.main import get_group

from mrc_agents.clock import monotonic_ns
from mrc_agents.entropy import randbits
from mrc_testbed.cli.commands import not_imported
from mrc_testbed.cli.options import COMMANDS, DEFAULT_SEED, Settings, command, with_parameters
from mrc_testbed.cli.render import at_full_width, known, rows_table, show, show_rows
from mrc_testbed.cli.suggestion import faults as fault_names
from mrc_testbed.cli.suggestion import hosts, links, nodes
from mrc_testbed.errors import UsageError
from mrc_testbed.faults.spec import KINDS, meaning, own_fields
from mrc_testbed.report.table import Columns
from mrc_testbed.shown import format_time
from mrc_testbed.units import format_duration_ns

if TYPE_CHECKING:
    from mrc_testbed.faults.drill import Score
    from mrc_testbed.faults.fault import FaultEvent
    from mrc_testbed.faults.interactive import LabFaults
    from mrc_testbed.faults.ledger import Entry

_SUGGESTED: Final = {"towards": hosts, "link": links, "node": nodes}
_TYPES: Final = {"integer": int, "number": float, "boolean": bool}
_SHORT: Final = {
    "link": ("SELECTOR", "Links, by name, glob or `select` text."),
    "node": ("SELECTOR", "Nodes, by name, glob or `select` text."),
    "plane": ("SELECTOR", "Planes: numbers, or all."),
    "direction": ("WAY", "both, a-to-b, b-to-a (default: both)."),
    "traffic": ("PACKETS", "all, data or control (default: all)."),
    "for": ("TIME", "Duration, like 2s."),
    "until": ("cleared", "Last until `fault clear`."),
    "id": ("ID", "Fault id (default: KIND-NUMBER)."),
    "hidden": (None, "Show it nowhere before `fault reveal`."),
    "pick": ("WHICH", "all, first or random of what matches."),
    "count": ("NUMBER", "Number of targets (default: 1)."),
    "optic": ("LINKS", "Links per optical module that fails."),
}
"""Metavar and help of fields that many kinds have: shorter than in the reference of scenario files."""

_EXAMPLES: Final = {"every": "1s", "by": "100us", "burst": "8", "ev": "0x10020003"}

_PLACES_SHOWN_MAX: Final = 3
_WIDTH: Final = 78

app = typer.Typer(no_args_is_help=True, help="Inject faults into a running lab and clear them.")
COMMANDS.add_typer(app, name="fault")


_KIND_COLUMNS: Final[Columns] = {
    "kind": "fault_kind",
    "where": lambda row: f"--{row['acts_on']}",
    "options": lambda row: " ".join(f"--{name}" for name in row["options"]),
    "what happens": "meaning",
}
_ENTRY_COLUMNS: Final[Columns] = {
    "id": "id",
    "kind": lambda row: f"{row['fault_kind']} {row['detail']}".rstrip(),
    "acts": lambda row: Text("yes", style="red") if row["acting"] else Text("no", style="green"),
    "left": lambda row: "until cleared" if row["left_ns"] is None else format_time(row["left_ns"]),
    "by": lambda row: "hand" if row["owner_pid"] is None else f"run (pid {row['owner_pid']})",
    "where": lambda row: _some_places(row["nodes"] or row["links"]),
}
_CLEARED_COLUMNS: Final[Columns] = {
    "id": "id",
    "kind": "fault_kind",
    "#met": "met_packets",
    "#hit": "hit_packets",
    "#lost": "lost_packets",
    "where": lambda row: _some_places(row["nodes"] or row["links"]),
}
_SCORE_COLUMNS: Final[Columns] = {
    "fault": "fault_id",
    "kind": "fault_kind",
    "where": lambda row: _some_places(row["places"]),
    "named": lambda row: Text(row["named"], style="green" if row["named"] == "named" else "red"),
    "#after": lambda row: known(row["after_ns"]),
    "by": "by",
}


def kind_options(kind: str) -> list[inspect.Parameter]:
    """Keyword parameters with the options of one kind; one that is not given is None.

    Each name has an underscore behind it, which `for` needs.
    """
    return [
        inspect.Parameter(f"{name}_", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _annotations(kind)
    ]


def example(kind: str) -> str:
    """A command line that adds a fault of that kind."""
    model = KINDS[kind]
    properties = _schema(kind)["properties"]
    required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
    own = [
        f" --{name} {_EXAMPLES.get(name) or properties[name]['examples'][0]}"
        for name in own_fields(kind)
        if name in required
    ]
    return f"mrc-testbed fault add {kind} --{model.selects} {model.example}{''.join(own)} --for 5s"


@cache
def _schema(kind: str) -> dict[str, Any]:
    return KINDS[kind].model_json_schema()


def _annotations(kind: str) -> Iterator[tuple[str, Any]]:
    model, schema = KINDS[kind], _schema(kind)
    properties = schema["properties"]
    selector = schema["$defs"][properties["select"]["$ref"].rpartition("/")[2]]["properties"]
    yield model.selects, _annotated(model.selects, {})
    for name in (*own_fields(kind), "for", "until", "id", "hidden"):
        yield name, _annotated(name, properties[name])
    for name in ("pick", "count", "optic"):
        if name in selector:
            yield name, _annotated(name, selector[name])


def _annotated(name: str, schema: dict[str, Any]) -> Any:
    """Type and option of a field; units are parsed as in a file."""
    branches = [schema, *schema.get("anyOf", ())]
    choices = next((tuple(each["enum"]) for each in branches if "enum" in each), None)
    kind: Any = next((_TYPES[each["type"]] for each in branches if each.get("type") in _TYPES), str)
    metavar, text = _SHORT.get(name) or ("VALUE" if kind is str else "NUMBER", _described(schema))
    if choices:
        kind = Literal[choices]
    option = typer.Option(f"--{name}", metavar=metavar, autocompletion=_SUGGESTED.get(name), help=text)
    return Annotated[kind | None, option]


def _described(schema: dict[str, Any]) -> str:
    like = "".join(f", like {text}" for text in schema.get("examples", ())[:1])
    return f"{schema['description'].partition('. ')[0].rstrip('.')}{like}."


def _entry_row(entry: "Entry", now_ns: int) -> dict[str, Any]:
    """A fault in a lab's ledger; *left_ns* is None where it lasts until cleared."""
    fault = entry.fault
    return {
        "id": fault.fault_id,
        "fault_kind": fault.kind,
        "acting": entry.is_acting(now_ns),
        "links": fault.links,
        "nodes": fault.nodes,
        "detail": fault.detail,
        "age_ns": now_ns - entry.schedule.begin_ns,
        "left_ns": entry.schedule.left_ns(now_ns),
        "owner_pid": entry.lease.pid if entry.lease else None,
    }


def _cleared_row(event: "FaultEvent") -> dict[str, Any]:
    """A fault that was cleared, and the packets that it matched, hit and dropped."""
    hit = [account for account in event.accounts if account.count]
    lost = hit if event.is_losing else []
    return {
        "id": event.fault_id,
        "fault_kind": event.kind,
        "links": event.links,
        "nodes": event.nodes,
        "cleared_ns": event.after_ns,
        "met_packets": sum(account.met for account in event.accounts),
        "hit_packets": sum(account.count for account in hit),
        "lost_packets": sum(account.count for account in lost),
        "lost_data_packets": sum(account.data_count for account in lost),
        "last_lost_ns": max((account.last_ns for account in lost), default=0) or None,
    }


def _adding(kind: str) -> Callable[..., None]:
    def add(settings: Settings, **options: Any) -> None:
        given = {key.removesuffix("_"): value for key, value in options.items() if value is not None}
        _add(settings, kind, given)

    with_parameters(add, kind_options(kind))
    command_line = fill(f"[bold]Example[/bold]: {example(kind)}", _WIDTH, break_on_hyphens=False)
    add.__doc__ = f"{meaning(kind)}\n\n{command_line}\n"
    return add


def adders(kinds: Iterable[str]) -> typer.Typer:
    """An application with the commands that add these kinds."""
    adding = typer.Typer(rich_markup_mode="rich")
    for kind in kinds:
        command(adding, kind, flags=("name", "dry_run", "seed"), needs_root=True)(_adding(kind))
    return adding


class _KindGroup(TyperGroup):
    """The kinds; the options of one, which take a while, are made when it is typed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in KINDS:
            self.commands[args[0]] = get_group(adders(args[:1])).commands[args[0]]
        return super().resolve_command(ctx, args)


add_app = typer.Typer(
    cls=_KindGroup, no_args_is_help=True, help="Inject a fault; each kind has its own options."
)
for _kind in KINDS:
    add_app.command(_kind, help=meaning(_kind))(not_imported)
app.add_typer(add_app, name="add")


def _lab_faults(settings: Settings) -> "LabFaults":
    from mrc_testbed.faults.interactive import LabFaults  # noqa: PLC0415 - takes a while to import

    return LabFaults(settings.name)


def _add(settings: Settings, kind: str, given: dict[str, Any]) -> None:
    from mrc_testbed.faults.interactive import parse_fault, plan_fault  # noqa: PLC0415 - likewise

    place = given.pop(KINDS[kind].selects, None)
    if place is None:
        raise UsageError(f"{kind} needs --{KINDS[kind].selects}: where it is to act")
    is_hidden = bool(given.get("hidden"))
    usual = randbits(32) if is_hidden else DEFAULT_SEED  # whoever knows the default one knows what it draws
    seed = usual if settings.seed is None else settings.seed
    with _lab_faults(settings) as faults:
        fault = parse_fault(kind, place, given, faults.taken_ids())
        planned = plan_fault(fault, faults.clos, seed)
        event = None if settings.is_dry_run else faults.add(fault, seed)
    document: dict[str, Any] = {
        "lab": settings.name,
        "applied": not settings.is_dry_run,
        "id": planned.fault_id,
        "fault_kind": planned.kind,
        "hidden": is_hidden,
        "links": [] if is_hidden else list(planned.links),
        "direction": planned.direction,
        "nodes": [] if is_hidden else list(planned.nodes),
        "detail": planned.detail,
        "for_ns": fault.for_ns,
        "seed": seed,
        "applied_ns": event.after_ns if event else None,
    }
    show(settings, "FaultAdded", document, lambda: _added(document))


@command(app, "kinds")
def kinds(settings: Settings) -> None:
    """List the kinds of fault, with target and parameters.

    [bold]Examples[/bold]

      mrc-testbed fault kinds
      mrc-testbed fault add loss --help
    """
    rows = [
        {"fault_kind": name, "acts_on": kind.selects, "options": own_fields(name), "meaning": meaning(name)}
        for name, kind in KINDS.items()
    ]
    show_rows(settings, "FaultKinds", {"kinds": rows}, _KIND_COLUMNS)


@command(app, "list", flags=("name",), needs_root=True)
def list_faults(settings: Settings) -> None:
    """List active faults: kind, owner, time left, place.

    First clears faults that are overdue or whose run has died.
    """
    with _lab_faults(settings) as faults:
        entries = faults.shown_entries()
    now_ns = monotonic_ns()
    rows = [_entry_row(entry, now_ns) for entry in entries]
    show_rows(
        settings,
        "FaultList",
        {"faults": rows},
        _ENTRY_COLUMNS,
        document={"lab": settings.name},
        empty="no fault is active",
    )


@command(app, "clear", flags=("name",), needs_root=True)
def clear(
    settings: Settings,
    fault_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", autocompletion=fault_names, help="Fault ids.")
    ] = None,
    clear_all: Annotated[
        bool, typer.Option("--all", help="Every fault of the lab, also those of a running scenario.")
    ] = False,
) -> None:
    """End faults: links work again, unless another fault still acts on them.

    [bold]Examples[/bold]

      mrc-testbed fault clear optic
      mrc-testbed fault clear --all
    """
    if clear_all == bool(fault_ids):
        raise UsageError("name the faults to clear, or give --all", hint="mrc-testbed fault list")
    with _lab_faults(settings) as faults:
        if clear_all:
            events = faults.clear_all()
        else:
            events = [faults.clear(fault_id) for fault_id in dict.fromkeys(fault_ids or ())]
    hidden = sum(event.is_hidden for event in events)
    show_rows(
        settings,
        "FaultCleared",
        {"faults": [_cleared_row(event) for event in events if not event.is_hidden]},
        _CLEARED_COLUMNS,
        document={"lab": settings.name, "hidden": hidden},
        empty="" if hidden else "no fault was active",
        tail=[Text(f"{hidden} hidden fault{'s' * (hidden > 1)}: `fault reveal` names them")] * bool(hidden),
    )


@command(app, "reveal", flags=("name",), needs_root=True)
def reveal(settings: Settings) -> None:
    """Show hidden faults, also ended ones, and which commands named them.

    From then on they are shown everywhere.

    [bold]Example[/bold]: mrc-testbed fault reveal
    """
    with _lab_faults(settings) as faults:
        scores = faults.reveal()
    now_ns = monotonic_ns()
    show_rows(
        settings,
        "FaultsRevealed",
        {"faults": [{**asdict(score), "age_ns": now_ns - score.begin_ns} for score in scores]},
        {**_SCORE_COLUMNS, "#begun": lambda row: f"{format_time(row['age_ns'])} ago"},
        document={"lab": settings.name},
        empty="no fault is hidden",
    )


def _added(document: Mapping[str, Any]) -> RenderableType:
    if document["hidden"]:
        return Text.assemble("fault ", (document["id"], "bold"), " is hidden until `fault reveal`")
    end = "until cleared" if document["for_ns"] is None else f"for {format_duration_ns(document['for_ns'])}"
    detail = f" {document['detail']}" if document["detail"] else ""
    way = "" if document["direction"] == "both" else f", {document['direction']}"
    verb = "added" if document["applied"] else "would be added"
    head = Text.assemble(
        "fault ", (document["id"], "bold"), f" {verb}: {document['fault_kind']}{detail}{way}, {end}, on"
    )
    return Group(head, *(Text(f"  {place}") for place in document["nodes"] or document["links"]))


def show_scores(settings: Settings, scores: "Sequence[Score]") -> None:
    """Print the scores of a run to stderr, before its result."""
    settings.progress.hide()
    table = rows_table(_SCORE_COLUMNS, [asdict(score) for score in scores])
    settings.stderr.file.write(at_full_width(settings.stderr, table))


def _some_places(places: Sequence[str]) -> str:
    shown = ", ".join(places[:_PLACES_SHOWN_MAX])
    more = len(places) - _PLACES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
