"""inspect | graph: a fabric on paper, with live counters."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_agents.abi import DrainerMode, PortCounter
from mrc_testbed.cli.inspect_tables import (
    Rows,
    forwarding_rows,
    link_rows,
    node_rows,
    port_rows,
    summary_rows,
)
from mrc_testbed.cli.known_topology import known_topology, live_topology
from mrc_testbed.cli.options import COMMANDS, OutputFormat, Settings, command, require_root
from mrc_testbed.cli.render import key_values, plain_table, show, show_tables, write_out
from mrc_testbed.cli.suggestion import links as link_names
from mrc_testbed.cli.suggestion import nodes
from mrc_testbed.drawing.graph import graph_dot, graph_text
from mrc_testbed.drawing.svg import graph_svg
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.queue_engine import EngineState, QueueEngine
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.naming import Tier, parse_node_name
from mrc_testbed.topology.queue_spec import LinkMode
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.select import select_links
from mrc_testbed.topology.selector_spec import parse_link_selector

PANEL: Final = "With --queues"
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

_END_COLUMNS: Final = ("interface", "id", "ifindex", "mac", "inner_address", "rate_bps")


class GraphFormat(StrEnum):
    TEXT = "text"
    DOT = "dot"
    SVG = "svg"


_DRAW: Final = {GraphFormat.TEXT: graph_text, GraphFormat.DOT: graph_dot, GraphFormat.SVG: graph_svg}


@command(COMMANDS, "inspect", flags=("topology", "name"))
def inspect(
    settings: Settings,
    what: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", autocompletion=nodes, help="nodes, links, or one node, port (h0:2) or link."
        ),
    ] = "",
    queues: Annotated[
        bool, typer.Option("--queues", help="Show the port queues of a lab: service and counters.")
    ] = False,
    drainer: DrainerOption = None,
    links: LinksOption = None,
    link: LinkOption = None,
) -> None:
    """Show a fabric: sizes, addresses, uSIDs, tables, counters, queues.

    Needs no lab: shows the fabric of -t, else that of the lab, else the default
    one. With --queues it needs a lab and root; counters begin when the lab is
    brought up. A setting lasts until the lab is removed; `queue:` of a topology
    file is the setting to begin with.

    [bold]Examples[/bold]

      mrc-testbed inspect              sizes and theory
      mrc-testbed inspect nodes        all switches and hosts with their uSIDs
      mrc-testbed inspect p0-t0-1      a switch: ports, forwarding table, counters
      mrc-testbed inspect h3:2         one link
      mrc-testbed inspect --queues
      mrc-testbed inspect --queues --drainer precise
      mrc-testbed inspect --queues --links direct --link 'p0-t0-0:*'
    """
    if queues:
        if what:
            raise UsageError(f"--queues shows the whole lab: leave {what!r} out")
        require_root("inspect --queues")
        show_queues(settings, drainer, links, link)
        return
    if drainer or links or link:
        raise UsageError("--drainer, --links and --link go with --queues")
    clos = resolve_topology(known_topology(settings))
    show_tables(settings, "Inspection", _tables(settings, clos, what))


@command(COMMANDS, "graph", flags=("topology", "name"))
def graph(
    settings: Settings,
    style: Annotated[
        GraphFormat, typer.Option("--format", "-f", help="text for terminals, dot for Graphviz, or svg.")
    ] = GraphFormat.TEXT,
) -> None:
    """Draw a fabric.

    [bold]Examples[/bold]

      mrc-testbed graph
      mrc-testbed graph -t lab.yaml -f svg > lab.svg
    """
    drawing = _DRAW[style](resolve_topology(known_topology(settings)))
    if settings.output is OutputFormat.TABLE:
        write_out(settings, drawing)
    else:
        show(settings, "Graph", {"format": style, "drawing": drawing}, lambda: drawing)


def _tables(settings: Settings, clos: Clos, what: str) -> dict[str, Rows]:
    if not what:
        return {"fabric": summary_rows(clos)}
    if what == "nodes":
        return {"nodes": node_rows(clos)}
    if what == "links":
        return {"links": link_rows(clos)}
    if parse_node_name(what) is None:
        link = clos.link(what)
        return {f"link {link.name}": _link_ends(link.ports, clos)} | _counters(settings, clos, link.ports)
    node = clos.node(what)
    tables = {f"ports of {node.name}": port_rows(clos, node)}
    if node.is_switch:
        tables[f"forwarding of {node.name}"] = forwarding_rows(clos, node)
    return tables | _counters(settings, clos, tuple(clos.ports_of(node)))


def _link_ends(ports: tuple[Port, ...], clos: Clos) -> Rows:
    ends = ((port, port_rows(clos, port.node)[port.index]) for port in ports)
    return [{"port": port.name, **{key: row[key] for key in _END_COLUMNS}} for port, row in ends]


def _counters(settings: Settings, clos: Clos, ports: tuple[Port, ...]) -> dict[str, Rows]:
    """Counters of the ports that are not zero, if the lab is up with this topology."""
    if os.geteuid() != 0 or live_topology(settings) != clos.spec:
        return {}
    with lab.attach(settings.name) as attached:
        counts = {port.name: attached.port_counters.sum(port.id) for port in ports}
    names = [counter for counter in PortCounter if counter.name != "COUNT"]
    seen = [counter for counter in names if any(values[counter] for values in counts.values())]
    return {
        "counters": [
            {"port": name, **{counter.name.lower(): values[counter] for counter in seen}}
            for name, values in counts.items()
        ]
    }


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
    show(settings, "QueueEngine", item, lambda: _table(state, tiers))


def _port_ids(live: Lab, selector: str | None) -> list[int]:
    if selector is None:
        return list(range(live.clos.numbering.port_count))
    chosen = select_links(live.clos, parse_link_selector(selector), _SEED)
    return [port.id for link in chosen for port in link.ports]


def _tiers(live: Lab) -> dict[str, dict[str, int]]:
    """Counters of frames by tier."""
    names = [counter.name.lower() for counter in _COUNTED]
    totals = {tier.value: dict.fromkeys(names, 0) for tier in (Tier.HOST, *live.clos.tiers)}
    for port in live.clos.ports():
        counters = live.port_counters.sum(port.id)
        total = totals[port.node.tier.value]
        for counter in _COUNTED:
            total[counter.name.lower()] += counters[counter]
    return totals


def _table(state: EngineState, tiers: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    columns = ("tier", "sent", "marked", "trimmed", "data full", "control full", "pool empty")
    table = plain_table(*columns, rows=((tier, *counts.values()) for tier, counts in tiers.items()))
    return Group(key_values([("queues", state.describe())]), Text(), table)
