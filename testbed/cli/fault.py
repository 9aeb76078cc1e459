"""fault add | list | clear."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from testbed.cli.options import Settings, command
from testbed.cli.render import plain_table, show
from testbed.cli.suggestion import faults as fault_names
from testbed.cli.suggestion import links
from testbed.errors import UsageError
from testbed.faults.by_hand import LabFaults, parse_fault, plan_fault
from testbed.faults.injector import FaultEvent
from testbed.faults.ledger import Entry, Phase
from testbed.faults.occurrence import FaultKind
from testbed.faults.spec import Direction
from testbed.topology.selector import Pick
from testbed.units import format_duration_ns, format_ratio

SCHEMA_VERSION: Final = 1
DEFAULT_SEED: Final = 1
_LINKS_SHOWN_MAX: Final = 3

app = typer.Typer(no_args_is_help=True, help="Inject faults into a running lab, and take them back.")


def register(root: typer.Typer) -> None:
    """Adds the group of this module to *root*."""
    root.add_typer(app, name="fault", rich_help_panel="Use")


@command(app, "add", heeds=("name", "dry_run", "seed"), needs_root=True)
def add(
    settings: Settings,
    kind: Annotated[FaultKind, typer.Argument(help="What breaks.")],
    link: Annotated[
        str,
        typer.Option(
            "--link",
            metavar="SELECTOR",
            autocompletion=links,
            help="Which links: names and globs with commas between, or what a file's `select` would hold.",
        ),
    ],
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Ends by itself after, like 2s.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="cleared", help="In place of --for: lasts until cleared.")
    ] = None,
    fault_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its name; left out, one is made up.")
    ] = None,
    direction: Annotated[
        Direction | None,
        typer.Option(
            "--direction", help="a is the lower end (host, then T0), b the upper; left out, both ways."
        ),
    ] = None,
    ratio: Annotated[
        str | None, typer.Option("--ratio", metavar="PERCENT", help="loss: chance of a packet, like 5%.")
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="TIME", help="link-flap: from one outage to the next.")
    ] = None,
    down: Annotated[
        str | None, typer.Option("--down", metavar="TIME", help="link-flap: how long each outage is.")
    ] = None,
    jitter: Annotated[
        str | None,
        typer.Option("--jitter", metavar="PERCENT", help="link-flap: random delay of each, of --every."),
    ] = None,
    pick: Annotated[
        Pick | None, typer.Option("--pick", help="Of the links that match: all, the first, or at random.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="NUMBER", help="With --pick: how many links.")
    ] = None,
) -> None:
    r"""Break something, for a while.

    A fault needs an end: `--for 2s`, or `--until cleared`. With `--for`, the
    lab's fault keeper takes it back on time, whatever becomes of this command.
    Overlapping faults compose: losses combine, down wins, and each is cleared
    by its own id.

    [bold]Examples[/bold]

      mrc-testbed fault add link-down --link p0-t0-0:4~p0-t1-0:0 --for 2s
      mrc-testbed fault add link-flap --link 'p0-t1-0:*' \
          --every 1s --down 200ms --for 10s
      mrc-testbed fault add loss --ratio 5% --link '{links: {plane: 1}}' \
          --direction a-to-b --for 5s
      mrc-testbed fault add nic-port-down --link h0:2 --until cleared
    """
    fields: dict[str, str | int | None] = {
        "id": fault_id,
        "for": duration,
        "until": until,
        "direction": direction,
        "ratio": ratio,
        "every": every,
        "down": down,
        "jitter": jitter,
        "pick": pick,
        "count": count,
    }
    given = {key: value for key, value in fields.items() if value is not None}
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    with contextlib.closing(LabFaults(settings.name)) as faults:
        fault = parse_fault(kind, link, given, {entry.fault.fault_id for entry in faults.entries()})
        planned = plan_fault(fault, faults.clos, seed)
        event = None if settings.is_dry_run else faults.add(fault, seed)
    document: dict[str, Any] = {
        "lab": settings.name,
        "applied": not settings.is_dry_run,
        "id": planned.fault_id,
        "fault_kind": planned.kind,
        "links": list(planned.links),
        "direction": planned.direction,
        "loss_ratio": planned.loss_ratio,
        "for_ns": planned.end_ns,
        "seed": seed,
        "applied_ns": event.after_ns if event else None,
    }
    show(settings, "FaultAdded", SCHEMA_VERSION, document, lambda: _added(document))


@command(app, "list", heeds=("name",), needs_root=True)
def list_faults(settings: Settings) -> None:
    """What is injected now, by whom, and how much it has left.

    Faults whose time is over, or whose run has died, are reverted first.
    """
    with contextlib.closing(LabFaults(settings.name)) as faults:
        entries = faults.entries()
    now_ns = time.monotonic_ns()
    items = [_entry_document(entry, now_ns) for entry in entries]
    show(
        settings,
        "FaultList",
        SCHEMA_VERSION,
        {"lab": settings.name, "faults": items},
        lambda: _listed(items),
        lines="faults",
    )


@command(app, "clear", heeds=("name",), needs_root=True)
def clear(
    settings: Settings,
    fault_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", autocompletion=fault_names, help="Which faults.")
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


def _entry_document(entry: Entry, now_ns: int) -> dict[str, Any]:
    fault = entry.fault
    return {
        "id": fault.fault_id,
        "fault_kind": fault.kind,
        "acting": entry.phase is Phase.ON,
        "links": list(fault.links),
        "loss_ratio": max((effect.loss_ratio for effect in fault.effects), default=0.0) or None,
        "age_ns": now_ns - entry.added_ns,
        "left_ns": None if entry.expires_ns is None else max(0, entry.expires_ns - now_ns),
        "owner_pid": entry.owner.pid if entry.owner else None,
    }


def _cleared_document(event: FaultEvent) -> dict[str, Any]:
    lost = [drops for drops in event.drops if drops.count]
    return {
        "id": event.fault_id,
        "fault_kind": event.kind,
        "links": list(event.links),
        "cleared_ns": event.after_ns,
        "lost_packets": sum(drops.count for drops in lost),
        "lost_data_packets": sum(drops.data_count for drops in lost),
        "last_lost_ns": max((drops.last_ns for drops in lost), default=0) or None,
    }


def _added(document: Mapping[str, Any]) -> RenderableType:
    end = "until cleared" if document["for_ns"] is None else f"for {format_duration_ns(document['for_ns'])}"
    ratio = "" if document["loss_ratio"] is None else f" {format_ratio(document['loss_ratio'])}"
    way = "" if document["direction"] == "both" else f", {document['direction']}"
    verb = "added" if document["applied"] else "would be added"
    head = Text.assemble(
        "fault ", (document["id"], "bold"), f" {verb}: {document['fault_kind']}{ratio}{way}, {end}, on"
    )
    lines = [Text(f"  {link}") for link in document["links"]]
    return Group(head, *lines)


def _listed(items: Iterable[Mapping[str, Any]]) -> RenderableType:
    table = plain_table("id", "kind", "acts", "left", "by", "links")
    for item in items:
        kind = item["fault_kind"]
        if item["loss_ratio"] is not None:
            kind = f"{kind} {format_ratio(item['loss_ratio'], 3)}"
        table.add_row(
            item["id"],
            kind,
            Text("yes", style="red") if item["acting"] else Text("no", style="green"),
            "until cleared" if item["left_ns"] is None else format_duration_ns(item["left_ns"], 2),
            "hand" if item["owner_pid"] is None else f"run (pid {item['owner_pid']})",
            _some_links(item["links"]),
        )
    return table if table.row_count else Text("no fault is active")


def _cleared(items: Iterable[Mapping[str, Any]]) -> RenderableType:
    table = plain_table("id", "kind", "lost packets", "links", right=("lost packets",))
    for item in items:
        table.add_row(item["id"], item["fault_kind"], f"{item['lost_packets']:,}", _some_links(item["links"]))
    return table if table.row_count else Text("no fault was active")


def _some_links(links: list[str]) -> str:
    shown = ", ".join(links[:_LINKS_SHOWN_MAX])
    more = len(links) - _LINKS_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
