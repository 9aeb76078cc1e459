"""A snapshot as a terminal shows it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mrc_testbed.drawing.graph import headline
from mrc_testbed.live.feed import Update
from mrc_testbed.live.jobs import JobView
from mrc_testbed.live.snapshot import LinkView, Snapshot
from mrc_testbed.metrics.series import Latency
from mrc_testbed.shown import (
    format_count,
    format_frequency,
    format_rate,
    format_share,
    format_time,
    format_times,
)
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import Tier

KEYS: Final = "q quit  p pause  s sort  ↑↓ link  f flap it  c clear  PgUp/PgDn scroll"
SORTS: Final = ("state", "load", "name")

_LOADS: Final = "·▁▂▃▄▅▆▇█"
_DOWN: Final = Text("✕", style="bold red")
_IMPAIRED: Final = Text("!", style="bold yellow")
_CHOSEN: Final = ">"
_HOSTS_SHOWN: Final = 12
_EVENTS_SHOWN: Final = 8
_EV_EVENTS_SHOWN: Final = 3
WIDE_COLUMNS: Final = 180
"""From here on there is room for two columns."""


@dataclass(frozen=True, slots=True)
class View:
    """Choices of the user."""

    sort: str = SORTS[0]  # order of links, one of SORTS
    chosen: str = ""  # name of the link that `f` flaps
    is_paused: bool = False  # whether the picture stands still
    answer: str = ""  # of the last command
    scrolled: int = 0  # lines of the picture that are above the screen


def sorted_links(snapshot: Snapshot, sort: str) -> list[LinkView]:
    """The links in the order that a user wants: broken ones first, the most lossy of them; or by one."""
    worst = ("down", "impaired", "up")
    match sort:
        case "load":
            return sorted(snapshot.links, key=lambda link: -link.load_ratio)
        case "state":
            return sorted(
                snapshot.links, key=lambda link: (worst.index(link.state), -link.dropped, -link.load_ratio)
            )
        case _:
            return sorted(snapshot.links, key=lambda link: link.name)


def render(lab: str, update: Update, view: View, now_ns: int) -> RenderableType:
    """The whole picture at *now_ns* of CLOCK_MONOTONIC, as long as it is."""
    return Group(*_head(lab, update, view, now_ns), *_body(update, view, is_wide=False))


class Screen:
    """The picture as it fits a terminal: head and keys stand, what is between them scrolls."""

    def __init__(self, lab: str, update: Update, view: View, now_ns: int) -> None:
        self._head = Group(*_head(lab, update, view, now_ns))
        self._update = update
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many lines as the terminal has."""
        height = options.height or console.height
        whole = options.update(height=None)
        is_wide = options.max_width >= WIDE_COLUMNS
        head = console.render_lines(self._head, whole)
        body = console.render_lines(Group(*_body(self._update, self._view, is_wide=is_wide)), whole)
        room = max(1, height - len(head) - 1)
        first = self._view.scrolled
        chosen = next((at for at, line in enumerate(body) if line and line[0].text.startswith(_CHOSEN)), None)
        if chosen is not None:
            first = min(max(first, chosen - room + 1), chosen)
        first = max(0, min(first, len(body) - room))
        below = len(body) - first - room
        keys = Text(KEYS, style="reverse", no_wrap=True, overflow="ellipsis")
        if first or below > 0:
            keys = Text(f"{first}↑ {max(0, below)}↓  ", style="reverse bold") + keys
        shown = [*head, *body[first : first + room]]
        shown += [[Segment("")] for _ in range(height - 1 - len(shown))]
        for line in [*shown[: height - 1], *console.render_lines(keys, whole)[:1]]:
            yield from line
            yield Segment.line()


def _head(lab: str, update: Update, view: View, now_ns: int) -> list[RenderableType]:
    """Lines that stay in sight: lab, problem, figures, jobs, the response to the last command."""
    clos, now = update.clos, update.snapshot
    head = Text.assemble((lab, "bold"), "  ", "" if clos is None else headline(clos))
    if view.is_paused:
        head.append("  PAUSED", style="bold yellow")
    if update.is_old(now_ns):
        head.append(f"  {format_time(update.age_ns(now_ns) or 0)} OLD", style="bold red")
    parts: list[RenderableType] = [head]
    if update.problem is not None:
        parts.append(Text(f"! {update.problem}", style="bold red"))
    parts += [_job(job) for job in update.jobs]
    if now is not None:
        parts.append(_figures(now))
    if view.answer:
        parts.append(Text(view.answer, style="bold"))
    return parts


def _body(update: Update, view: View, *, is_wide: bool) -> list[RenderableType]:
    """Lines that scroll, the most urgent first; in two columns where there is room."""
    clos, now = update.clos, update.snapshot
    if now is None or clos is None:
        return [Text(), *_events(update)]
    urgent: list[RenderableType] = [
        Text(),
        _faults(now),
        Text(),
        *_events(update),
        Text(),
        _links(clos, now, view),
    ]
    rest: list[RenderableType] = [Text(), _map(clos, now), Text(), _planes(now), Text(), _hosts(now)]
    if not is_wide:
        return [*urgent, *rest]
    columns = Table.grid(padding=(0, 4, 0, 0))
    columns.add_row(Group(*urgent), Group(*rest))
    return [columns]


def _events(update: Update) -> list[RenderableType]:
    """The newest first; of EVs a few, which come and go several times a second."""
    evs = [line for line in update.tail if line.kind == "ev"][-_EV_EVENTS_SHOWN:]
    others = [line for line in update.tail if line.kind != "ev"][-(_EVENTS_SHOWN - len(evs)) :]
    shown = sorted([*evs, *others], key=lambda line: line.time_ns, reverse=True)
    return [Text(f"{line.clock}  {line.text}", no_wrap=True, overflow="ellipsis") for line in shown]


def _job(job: JobView) -> Text:
    pace = job.pace
    figures = f"{job.word}s/s -"
    if pace is not None:
        figures = (
            f"{format_count(pace.per_second)} {job.word}s/s  p50 {format_times(pace.p50_ns)}  "
            f"p99 {format_times(pace.p99_ns)}  slowest rank {pace.slowest_rank}, "
            f"last in {format_share(pace.slowest_share)}"
        )
    return Text.assemble((f"job {job.name}", "bold"), f"  {figures}\n    {job.headline}")


def _figures(now: Snapshot) -> Text:
    rtt = _latency(now.rtt)
    reasons = (f"{_per_second(count, now)} {reason}" for reason, count in now.dropped.items())
    dropped = ", ".join(reasons) or "none"
    return Text(
        f"goodput {_rate(now.goodput_bps)}   RTT p50 {rtt[0]}  p99 {rtt[1]}  p99.9 {rtt[2]}   "
        f"retransmits {_per_second(now.retransmits, now)}   frames dropped {dropped}"
    )


def _per_second(count: int, now: Snapshot) -> str:
    return format_frequency(count * 1e9 / now.interval_ns)


def _map(clos: Clos, now: Snapshot) -> RenderableType:
    """A cell per link, T0 by T0: its links to hosts, then those to T1s; then those of T1s to T2s."""
    number = clos.numbering
    places = [(tier, index) for tier in clos.tiers[:-1] for index in range(number.switches[tier.level])]
    table = _table("plane", *(f"{tier.upper()} {index}" for tier, index in places))
    for plane in range(clos.spec.planes):
        cells = []
        for tier, index in places:
            cell = Text()
            for place, port in enumerate(clos.ports_of(clos.switch(tier, plane, index))):
                if tier is Tier.T0 and place == number.hosts_per_t0:
                    cell.append(" ┊ ", style="dim")
                if tier is Tier.T0 or place >= number.downlinks[tier.level]:
                    cell.append_text(_sign(now.links[port.link_id]))
            cells.append(cell)
        table.add_row(str(plane), *cells)
    load = f"{_LOADS} {_load(clos)}"
    of_t1s = ", of a T1 to T2s" if Tier.T2 in clos.tiers else ""
    note = Text(f"a cell per link, hosts ┊ T1s{of_t1s}: {load}, ✕ down, ! has a fault", style="dim")
    return Group(table, note)


def _load(clos: Clos) -> str:
    """Name of `load_ratio`."""
    return "load" if clos.spec.port_rate else "of the busiest"


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
    table = _table("host", "receives", "sends", "retransmits", right=True)
    for host in sorted(now.hosts, key=lambda host: -host.goodput_bps)[:_HOSTS_SHOWN]:
        name = ", ".join((host.name, *host.profiles))
        table.add_row(name, _rate(host.goodput_bps), _rate(host.sent_bps), f"{host.retransmits:,}")
    return table


def _links(clos: Clos, now: Snapshot, view: View) -> Table:
    paused = () if clos.spec.flow_control == "none" else ("paused",)
    columns = ("state", _load(clos), "up", "down", *paused, "frames dropped", "faults")
    table = _table("", f"link (by {view.sort})", *columns, gap=1)
    for link in sorted_links(now, view.sort):
        table.add_row(
            _CHOSEN if link.name == view.chosen else "",
            link.name,
            Text(link.state, style={"down": "red", "impaired": "yellow"}.get(link.state, "green")),
            format_share(link.load_ratio),
            _rate(link.up_bps),
            _rate(link.down_bps),
            *(format_share(link.held_ratio) for _ in paused),
            f"{link.dropped:,}" if link.dropped else "-",
            (", ".join(link.faults) + (f" ({link.outages}\u00d7)" if link.outages else "")) or "-",
            style="reverse" if link.name == view.chosen else "",
        )
    return table


def _faults(now: Snapshot) -> RenderableType:
    if not now.faults:
        return Text("no fault is active", style="dim")
    table = _table("fault", "kind", "left", "source", "where")
    for fault in now.faults:
        left = "until cleared" if fault.left_ns is None else format_time(fault.left_ns)
        more = len(fault.places) - 1
        places = f"{fault.places[0]}{f' +{more}' if more else ''}" if fault.places else "-"
        outages = f", {fault.outages} outages" if fault.outages else ""
        kind = f"{fault.kind} {fault.detail}".rstrip() + outages
        table.add_row(fault.id, kind, left, "manual" if fault.is_interactive else "run", places)
    return table


def _table(*columns: str, right: bool = False, gap: int = 2) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if right and place else "left", no_wrap=True)
    return table


def _latency(latency: Latency | None) -> Sequence[str]:
    if latency is None:
        return "-", "-", "-"
    p50, _, p99, p999, _ = latency.shown()
    return p50, p99, p999


def _rate(rate_bps: float) -> str:
    return format_rate(rate_bps) if rate_bps >= 1 else "-"
