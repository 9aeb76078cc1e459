"""queues: how a lab that is up serves its ports, to see and to change."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from agents.abi import DrainerMode, PortCounter
from testbed.cli.options import Settings, command
from testbed.cli.render import key_values, plain_table, show
from testbed.cli.suggestion import links as link_names
from testbed.errors import UsageError
from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.fabric.queue_engine import EngineState, QueueEngine
from testbed.topology.naming import Tier
from testbed.topology.queue_spec import LinkMode
from testbed.topology.select import select_links
from testbed.topology.selector_spec import parse_link_selector

SCHEMA_VERSION: Final = 1
_SEED: Final = 1
_COUNTED: Final = (
    PortCounter.TX_PACKETS,
    PortCounter.ECN_MARKS,
    PortCounter.TRIMS,
    PortCounter.DROP_QUEUE_FULL,
    PortCounter.DROP_CONTROL_FULL,
    PortCounter.DROP_POOL_EMPTY,
)


def register(app: typer.Typer) -> None:
    """Adds the command of this module to *app*."""
    command(app, "queues", flags=("name",), needs_root=True)(queues)


def queues(
    settings: Settings,
    drainer: Annotated[
        Literal["auto", "precise", "eco"] | None,
        typer.Option("--drainer", help="How drainers wait from now on."),
    ] = None,
    links: Annotated[
        LinkMode | None,
        typer.Option("--links", help="How frames cross links between switches from now on."),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            "--link",
            metavar="SELECTOR",
            autocompletion=link_names,
            help="With --links: links (default: all).",
        ),
    ] = None,
) -> None:
    """Port queues of a lab: service and counters; with an option change the service.

    Counts are since the lab was made. What is changed here lasts as long as the
    lab; `queue:` of a topology file says how a lab begins.

    [bold]Examples[/bold]

      mrc-testbed queues
      mrc-testbed queues --drainer precise
      mrc-testbed queues --links direct --link 'p0-t0-0:*'
    """
    if link is not None and links is None:
        raise UsageError("--link says which links --links is for: give --links too")
    with lab.attach(settings.name) as live:
        if not live.spec.is_shaped and drainer is not None:
            raise UsageError(
                f"lab {live.name!r} has no queues: its ports have no rate",
                hint="give its topology a port_rate",
            )
        with QueueEngine(live.paths, is_shaped=live.spec.is_shaped) as engine:
            if drainer is not None:
                engine.set_drainer(DrainerMode[drainer.upper()])
            if links is not None:
                engine.set_direct(_port_ids(live, link), is_direct=links == "direct")
            state = engine.state()
        tiers = _tiers(live)
    item = {"name": settings.name, **asdict(state), "tiers": tiers}
    show(settings, "QueueEngine", SCHEMA_VERSION, item, lambda: _table(state, tiers))


def _port_ids(live: Lab, selector: str | None) -> list[int]:
    if selector is None:
        return list(range(live.clos.numbering.port_count))
    chosen = select_links(live.clos, parse_link_selector(selector), _SEED)
    return [port.id for link in chosen for port in link.ports]


def _tiers(live: Lab) -> dict[str, dict[str, int]]:
    """By tier, what became of the frames that its nodes queued."""
    totals = {tier.value: dict.fromkeys((counter.name.lower() for counter in _COUNTED), 0) for tier in Tier}
    for port in live.clos.ports():
        counters = live.port_counters.sum(port.id)
        total = totals[port.node.tier.value]
        for counter in _COUNTED:
            total[counter.name.lower()] += counters[counter]
    return totals


def _table(state: EngineState, tiers: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    table = plain_table("tier", "sent", "marked", "trimmed", "data full", "control full", "pool empty")
    for tier, counts in tiers.items():
        table.add_row(tier, *(f"{count:,}" for count in counts.values()))
    return Group(key_values([("queues", state.describe())]), Text(), table)
