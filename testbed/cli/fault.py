"""fault add | list | clear."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from agents.clock import monotonic_ns
from testbed.cli.fault_options import with_fields_of_kinds
from testbed.cli.options import Settings, command
from testbed.cli.render import plain_table, show
from testbed.cli.suggestion import fault_kinds, links, nodes
from testbed.cli.suggestion import faults as fault_names
from testbed.errors import UsageError
from testbed.faults.event import FaultEvent
from testbed.faults.interactive import LabFaults, parse_fault, parse_kind, plan_fault
from testbed.faults.ledger import Entry
from testbed.faults.spec import KINDS, meaning, own_fields
from testbed.faults.spec_base import Direction
from testbed.shown import format_time
from testbed.topology.selector_spec import Pick
from testbed.units import format_duration_ns

SCHEMA_VERSION: Final = 1
DEFAULT_SEED: Final = 1
_PLACES_SHOWN_MAX: Final = 3

app = typer.Typer(no_args_is_help=True, help="Inject faults into a running lab, and take them back.")


def register(root: typer.Typer) -> None:
    """Adds the group of this module to *root*."""
    root.add_typer(app, name="fault")


@command(app, "add", flags=("name", "dry_run", "seed"), needs_root=True)
@with_fields_of_kinds
def add(
    settings: Settings,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", autocompletion=fault_kinds, help="Kind of fault; `fault kinds` lists them."
        ),
    ],
    link: Annotated[
        str | None,
        typer.Option(
            "--link",
            metavar="SELECTOR",
            autocompletion=links,
            help="Links: names and globs with commas between, or the text of a file's `select`.",
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="SELECTOR", autocompletion=nodes, help="Switches or hosts, likewise."),
    ] = None,
    plane: Annotated[
        str | None, typer.Option("--plane", metavar="SELECTOR", help="Planes for plane-down, like 1 or all.")
    ] = None,
    duration: Annotated[str | None, typer.Option("--for", metavar="TIME", help="Duration, like 2s.")] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="cleared", help="In place of --for: no end until cleared."),
    ] = None,
    fault_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Fault id (default: generated).")
    ] = None,
    direction: Annotated[
        Direction | None,
        typer.Option(
            "--direction", help="Impaired direction; a is the lower end: host, then T0 (default: both)."
        ),
    ] = None,
    pick: Annotated[
        Pick | None,
        typer.Option("--pick", help="Choice among matching targets: all, the first, or at random."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="NUMBER", help="Number of targets for --pick.")
    ] = None,
    optic: Annotated[
        int | None,
        typer.Option("--optic", metavar="LINKS", help="Links per optical module; whole modules fail."),
    ] = None,
    **own: str | float | None,
) -> None:
    r"""Break something, for a while.

    A fault needs an end: `--for 2s`, or `--until cleared`. With `--for`, the
    rules of a link end by themselves and the lab's fault reaper takes back
    the rest, whatever becomes of this command.
    Overlapping faults compose, and each is cleared by its own id.
    `mrc-testbed fault kinds` lists what can break.

    [bold]Examples[/bold]

      mrc-testbed fault add link-down --link p0-t0-0:4~p0-t1-0:0 --for 2s
      mrc-testbed fault add link-flap --link 'p0-t1-0:*' \
          --every 1s --down 200ms --for 10s
      mrc-testbed fault add loss --ratio 5% --link '{links: {plane: 1}}' \
          --direction a-to-b --for 5s
      mrc-testbed fault add link-down --link 'p0-t0-0:*' --optic 4 \
          --pick random --for 5s
      mrc-testbed fault add blackhole --node p0-t1-0 --for 2s
      mrc-testbed fault add nic-port-down --link h0:2 --until cleared
    """
    fields: dict[str, str | int | float | None] = {
        "id": fault_id,
        "for": duration,
        "until": until,
        "direction": direction,
        "pick": pick,
        "count": count,
        "optic": optic,
        **own,
    }
    given = {key: value for key, value in fields.items() if value is not None}
    what = parse_kind(kind)
    where = _selector(what, link=link, node=node, plane=plane)
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    with contextlib.closing(LabFaults(settings.name)) as faults:
        fault = parse_fault(what, where, given, {entry.fault.fault_id for entry in faults.entries()})
        planned = plan_fault(fault, faults.clos, seed)
        event = None if settings.is_dry_run else faults.add(fault, seed)
    document: dict[str, Any] = {
        "lab": settings.name,
        "applied": not settings.is_dry_run,
        "id": planned.fault_id,
        "fault_kind": planned.kind,
        "links": list(planned.links),
        "direction": planned.direction,
        "nodes": list(planned.nodes),
        "detail": planned.detail,
        "for_ns": fault.for_ns,
        "seed": seed,
        "applied_ns": event.after_ns if event else None,
    }
    show(settings, "FaultAdded", SCHEMA_VERSION, document, lambda: _added(document))


@command(app, "kinds", flags=())
def kinds(settings: Settings) -> None:
    """Kinds of fault, with target and parameters.

    [bold]Examples[/bold]

      mrc-testbed fault kinds
    """
    items = [
        {
            "fault_kind": kind,
            "acts_on": KINDS[kind].selects,
            "options": own_fields(kind),
            "meaning": meaning(kind),
        }
        for kind in KINDS
    ]
    show(settings, "FaultKinds", SCHEMA_VERSION, {"kinds": items}, lambda: _kinds(items), lines="kinds")


@command(app, "list", flags=("name",), needs_root=True)
def list_faults(settings: Settings) -> None:
    """What is injected now, by whom, and how much it has left.

    Faults whose time is over, or whose run has died, are reverted first.
    """
    with contextlib.closing(LabFaults(settings.name)) as faults:
        entries = faults.entries()
    now_ns = monotonic_ns()
    items = [_entry_document(entry, now_ns) for entry in entries]
    show(
        settings,
        "FaultList",
        SCHEMA_VERSION,
        {"lab": settings.name, "faults": items},
        lambda: _listed(items),
        lines="faults",
    )


@command(app, "clear", flags=("name",), needs_root=True)
def clear(
    settings: Settings,
    fault_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", autocompletion=fault_names, help="Fault ids.")
    ] = None,
    clear_all: Annotated[
        bool, typer.Option("--all", help="All faults of the lab, those of a running scenario too.")
    ] = False,
) -> None:
    """Take faults back: the links are as they were, unless another fault still holds them.

    [bold]Examples[/bold]

      mrc-testbed fault clear optic
      mrc-testbed fault clear --all
    """
    if clear_all == bool(fault_ids):
        raise UsageError("name the faults to clear, or give --all", hint="mrc-testbed fault list")
    with contextlib.closing(LabFaults(settings.name)) as faults:
        if clear_all:
            events = faults.clear_all()
        else:
            events = [faults.clear(fault_id) for fault_id in dict.fromkeys(fault_ids or ())]
    items = [_cleared_document(event) for event in events]
    show(
        settings,
        "FaultCleared",
        SCHEMA_VERSION,
        {"lab": settings.name, "faults": items},
        lambda: _cleared(items),
        lines="faults",
    )


def _selector(kind: str, **given: str | None) -> str:
    """The selector among the options of that name, the one that the kind wants."""
    wanted = KINDS[kind].selects
    for name, text in given.items():
        if text is not None and name != wanted:
            raise UsageError(f"{kind} is given --{wanted}, not --{name}")
    text = given[wanted]
    if text is None:
        raise UsageError(f"{kind} needs --{wanted}: where it is to act")
    return text


def _entry_document(entry: Entry, now_ns: int) -> dict[str, Any]:
    fault = entry.fault
    return {
        "id": fault.fault_id,
        "fault_kind": fault.kind,
        "acting": entry.is_acting(now_ns),
        "links": list(fault.links),
        "nodes": list(fault.nodes),
        "detail": fault.detail,
        "age_ns": now_ns - entry.schedule.begin_ns,
        "left_ns": entry.schedule.left_ns(now_ns),
        "owner_pid": entry.lease.pid if entry.lease else None,
    }


def _cleared_document(event: FaultEvent) -> dict[str, Any]:
    hit = [account for account in event.accounts if account.count]
    lost = hit if event.is_losing else []
    return {
        "id": event.fault_id,
        "fault_kind": event.kind,
        "links": list(event.links),
        "nodes": list(event.nodes),
        "cleared_ns": event.after_ns,
        "met_packets": sum(account.met for account in event.accounts),
        "hit_packets": sum(account.count for account in hit),
        "lost_packets": sum(account.count for account in lost),
        "lost_data_packets": sum(account.data_count for account in lost),
        "last_lost_ns": max((account.last_ns for account in lost), default=0) or None,
    }


def _added(document: Mapping[str, Any]) -> RenderableType:
    end = "until cleared" if document["for_ns"] is None else f"for {format_duration_ns(document['for_ns'])}"
    detail = f" {document['detail']}" if document["detail"] else ""
    way = "" if document["direction"] == "both" else f", {document['direction']}"
    verb = "added" if document["applied"] else "would be added"
    head = Text.assemble(
        "fault ", (document["id"], "bold"), f" {verb}: {document['fault_kind']}{detail}{way}, {end}, on"
    )
    lines = [Text(f"  {place}") for place in document["nodes"] or document["links"]]
    return Group(head, *lines)


def _kinds(items: Iterable[Mapping[str, Any]]) -> RenderableType:
    table = plain_table("kind", "where", "options", "what happens")
    for item in items:
        options = " ".join(f"--{name}" for name in item["options"])
        table.add_row(item["fault_kind"], f"--{item['acts_on']}", options, item["meaning"])
    return table


def _listed(items: Iterable[Mapping[str, Any]]) -> RenderableType:
    table = plain_table("id", "kind", "acts", "left", "by", "where")
    for item in items:
        kind = item["fault_kind"]
        if item["detail"]:
            kind = f"{kind} {item['detail']}"
        table.add_row(
            item["id"],
            kind,
            Text("yes", style="red") if item["acting"] else Text("no", style="green"),
            "until cleared" if item["left_ns"] is None else format_time(item["left_ns"]),
            "hand" if item["owner_pid"] is None else f"run (pid {item['owner_pid']})",
            _some_places(item),
        )
    return table if table.row_count else Text("no fault is active")


def _cleared(items: Iterable[Mapping[str, Any]]) -> RenderableType:
    counts = ("met", "hit", "lost")
    table = plain_table("id", "kind", *counts, "where", right=counts)
    for item in items:
        numbers = (f"{item[f'{name}_packets']:,}" for name in counts)
        table.add_row(item["id"], item["fault_kind"], *numbers, _some_places(item))
    return table if table.row_count else Text("no fault was active")


def _some_places(item: Mapping[str, Any]) -> str:
    places: list[str] = item["nodes"] or item["links"]
    shown = ", ".join(places[:_PLACES_SHOWN_MAX])
    more = len(places) - _PLACES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
