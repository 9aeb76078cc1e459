"""A snapshot as a terminal shows it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.drawing.graph import headline
from testbed.live.feed import Update
from testbed.live.snapshot import LinkView, Snapshot
from testbed.metrics.series import Latency
from testbed.topology.clos import Clos
from testbed.units import format_duration_ns, format_rate_bps

KEYS: Final = "q quit  p pause  s sort  ↑↓ choose a link  f flap it  c clear faults by hand"
SORTS: Final = ("load", "name", "state")

_LOADS: Final = "·▁▂▃▄▅▆▇█"
_DOWN: Final = Text("✕", style="bold red")
_IMPAIRED: Final = Text("!", style="bold yellow")
_HOSTS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class View:
    """How a user looks at a lab.

    Attributes:
        sort: order of links, one of SORTS.
        chosen: name of the link that `f` flaps.
        is_paused: whether the picture stands still.
        answer: of the last command.
        links_shown: at most.
        tail_lines: at most.
    """

    sort: str = SORTS[0]
    chosen: str = ""
    is_paused: bool = False
    answer: str = ""
    links_shown: int = 12
    tail_lines: int = 6


def sorted_links(snapshot: Snapshot, sort: str) -> list[LinkView]:
    """The links in the order that a user wants: the busiest, or the broken ones, first."""
    match sort:
        case "load":
            return sorted(snapshot.links, key=lambda link: -link.load_ratio)
        case "state":
            worst = ("down", "impaired", "up")
            return sorted(snapshot.links, key=lambda link: worst.index(link.state))
        case _:
            return sorted(snapshot.links, key=lambda link: link.name)


def render(lab: str, update: Update, view: View, now_ns: int) -> RenderableType:
    """The whole screen at *now_ns* of CLOCK_MONOTONIC."""
    clos, now = update.clos, update.snapshot
    head = Text.assemble((lab, "bold"), "  ", "" if clos is None else headline(clos))
    if view.is_paused:
        head.append("  PAUSED", style="bold yellow")
    if update.is_old(now_ns):
        head.append(f"  {format_duration_ns(update.age_ns(now_ns) or 0, 2)} OLD", style="bold red")
    parts: list[RenderableType] = [head]
    if update.problem is not None:
        parts.append(Text(f"! {update.problem}", style="bold red"))
    if now is not None and clos is not None:
        parts += [_figures(now), Text(), _map(clos, now), Text(), _planes(now), Text()]
        parts += [_hosts(now), Text(), _links(clos, now, view), Text(), _faults(now), Text()]
    parts += [Text(f"{line.clock}  {line.text}") for line in update.tail[-view.tail_lines :]]
    if view.answer:
        parts.append(Text(view.answer, style="bold"))
    return Group(*parts)


def _figures(now: Snapshot) -> Text:
    rtt = _latency(now.rtt)
    lost = ", ".join(f"{count:,} {reason}" for reason, count in now.dropped.items()) or "none"
    return Text(
        f"goodput {_rate(now.goodput_bps)}   RTT p50 {rtt[0]}  p99 {rtt[1]}  p99.9 {rtt[2]}   "
        f"sent again {now.retransmits:,}   lost {lost}"
    )


def _map(clos: Clos, now: Snapshot) -> RenderableType:
    """A cell per link, T0 by T0: its links to hosts, then those to T1s."""
    table = _table("plane", *(f"T0 {row}" for row in range(clos.spec.t0)))
    for plane in range(clos.spec.planes):
        cells = []
        for row in range(clos.spec.t0):
            ports = clos.ports_of(clos.t0(plane, row))
            cell = Text()
            for place, port in enumerate(ports):
                if place == clos.spec.hosts_per_t0:
                    cell.append(" ┊ ", style="dim")
                cell.append_text(_sign(now.links[port.link_id]))
            cells.append(cell)
        table.add_row(str(plane), *cells)
    note = Text(f"a cell per link, hosts ┊ T1s: {_LOADS} load, ✕ down, ! a fault acts", style="dim")
    return Group(table, note)


def _sign(link: LinkView) -> Text:
    if link.state == "down":
        return _DOWN
    if link.state == "impaired":
        return _IMPAIRED
    step = 0 if link.load_ratio < 0.01 else 1 + min(7, int(link.load_ratio * 8))
    return Text(_LOADS[step], style="dim" if step == 0 else "cyan")


def _planes(now: Snapshot) -> Table:
    names = ("GOOD", "SKIP", "ASSUMED_BAD", "DENIED")
    table = _table("plane", *names, "sent", "RTT p50", "p99", "p99.9", right=True)
    for plane in now.planes:
        states = [
            Text(f"{plane.ev_states[name]:,}", style="red" if at >= 2 and plane.ev_states[name] else "")
            for at, name in enumerate(names)
        ]
        table.add_row(str(plane.plane), *states, _rate(plane.tx_bps), *_latency(plane.rtt))
    return table


def _hosts(now: Snapshot) -> Table:
    table = _table("host", "receives", "sends", "sent again", right=True)
    for host in sorted(now.hosts, key=lambda host: -host.goodput_bps)[:_HOSTS_SHOWN]:
        table.add_row(host.name, _rate(host.goodput_bps), _rate(host.sent_bps), f"{host.retransmits:,}")
    return table


def _links(clos: Clos, now: Snapshot, view: View) -> Table:
    held = () if clos.spec.flow_control == "none" else ("held",)
    table = _table("", f"link (by {view.sort})", "state", "load", "up", "down", *held, "lost", "faults")
    links = sorted_links(now, view.sort)
    names = [link.name for link in links]
    at = names.index(view.chosen) if view.chosen in names else 0
    first = max(0, min(at - view.links_shown // 2, len(links) - view.links_shown))
    for link in links[first : first + view.links_shown]:
        table.add_row(
            ">" if link.name == view.chosen else "",
            link.name,
            Text(link.state, style={"down": "red", "impaired": "yellow"}.get(link.state, "green")),
            f"{link.load_ratio:.0%}",
            _rate(link.up_bps),
            _rate(link.down_bps),
            *(f"{link.held_ratio:.0%}" for _ in held),
            f"{link.dropped:,}" if link.dropped else "-",
            ", ".join(link.faults) or "-",
            style="reverse" if link.name == view.chosen else "",
        )
    return table


def _faults(now: Snapshot) -> RenderableType:
    if not now.faults:
        return Text("no fault is active", style="dim")
    table = _table("fault", "kind", "left", "by", "where")
    for fault in now.faults:
        left = "until cleared" if fault.left_ns is None else format_duration_ns(fault.left_ns, 2)
        places = ", ".join(fault.places[:2]) + (" …" if len(fault.places) > 2 else "")
        kind = f"{fault.kind} {fault.detail}".rstrip()
        table.add_row(fault.id, kind, left, "hand" if fault.is_interactive else "run", places)
    return table


def _table(*columns: str, right: bool = False) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if right and place else "left", no_wrap=True)
    return table


def _latency(latency: Latency | None) -> Sequence[str]:
    if latency is None:
        return "-", "-", "-"
    times_ns = (latency.p50_ns, latency.p99_ns, latency.p999_ns)
    return tuple(format_duration_ns(round(time_ns), 3) for time_ns in times_ns)


def _rate(rate_bps: float) -> str:
    return format_rate_bps(round(rate_bps), 3) if rate_bps >= 1 else "-"
