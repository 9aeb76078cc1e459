"""inspect --queues: service of a lab's port queues."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_agents.abi import DrainerMode, PortCounter
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import key_values, plain_table, show
from mrc_testbed.cli.suggestion import links as link_names
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.queue_engine import EngineState, QueueEngine
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.queue_spec import LinkMode
from mrc_testbed.topology.select import select_links
from mrc_testbed.topology.selector_spec import parse_link_selector

PANEL: Final = "With --queues"
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


DrainerOption = Annotated[
    Literal["auto", "precise", "eco"] | None,
    typer.Option("--drainer", rich_help_panel=PANEL, help="Set how drainers wait."),
]
LinksOption = Annotated[
    LinkMode | None,
    typer.Option("--links", rich_help_panel=PANEL, help="Set how frames cross links between switches."),
]
LinkOption = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="SELECTOR",
        rich_help_panel=PANEL,
        autocompletion=link_names,
        help="Links for --links (default: all).",
    ),
]


def show_queues(settings: Settings, drainer: str | None, links: LinkMode | None, link: str | None) -> None:
    """Show how a lab serves its port queues, after setting what is not None."""
    if link is not None and links is None:
        raise UsageError("--link needs --links: it names the links that --links sets")
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
    """Counters of frames by tier."""
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
