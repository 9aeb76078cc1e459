"""ev list | explain, and the group of all ev commands."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.client import AgentClient
from mrc_testbed.cli import ev_control
from mrc_testbed.cli.ev_argument import Source, Target, parse_ev
from mrc_testbed.cli.inspect_tables import describe_path, ev_rows, path_rows
from mrc_testbed.cli.known_topology import known_topology, live_topology
from mrc_testbed.cli.options import DEFAULT_SEED, Settings, command
from mrc_testbed.cli.render import bad, good, known, rows_table, show, show_rows, show_tables, titled_table
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.report.table import Columns
from mrc_testbed.shown import format_size, format_time
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.ev import decode_ev, ev_parts
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import explain_ev, find_ev
from mrc_testbed.topology.resolve import resolve_topology

SCHEMA_VERSION: Final = 1
_WINDOW_KEYS: Final = (
    *("qpn", "cc", "cwnd_bytes", "max_wnd_bytes", "inflight_bytes"),
    *("avg_delay_ns", "target_delay_ns", "base_rtt_ns", "cwnd_reason"),
)


def _use(row: Mapping[str, Any]) -> RenderableType:
    """Use of an EV: active, or backup where it could be."""
    return "active" if row["active"] else Text("backup" if row["state"] == "GOOD" else "-", style="dim")


_COLUMNS: Final[Columns] = {
    "QP": lambda row: str(row["qpn"]),
    "EV": "ev",
    "#plane": "plane",
    "#uplink": "uplink",
    "T1": "t1",
    "state": lambda row: (good if row["state"] == "GOOD" else bad)(row["state"]),
    "use": _use,
    "#tx": "tx_packets",
    "#lost": lambda row: row["lost_packets"] or None,
    "#marks": lambda row: row["marks"] or None,
    "#RTT": lambda row: known(row["rtt_ns"]),
    "why": lambda row: None if row["reason"] == "none" else row["reason"],
    "since": lambda row: f"{format_time(row['changed_ago_ns'])} ago" if row["changed_ago_ns"] else None,
}


def _ev_row(
    clos: Clos, source: Node, target: Node, qpn: int, row: Mapping[str, Any], now_ns: int
) -> dict[str, Any]:
    """An EV of a QP that is up; *row* is of the agent's ev_list."""
    path = explain_ev(clos, row["entropy"], source.index, target.index)
    return {
        "qpn": qpn,
        "index": row["index"],
        "ev": f"{row['entropy']:#010x}",
        "plane": path.plane,
        "uplink": path.uplink,
        "t1": path.t1.name if path.t1 else None,
        "state": row["state"],
        "active": row["is_active"],
        "reason": row["reason"],
        "changed_ago_ns": now_ns - row["changed_ns"] if row["changed_ns"] else None,
        **{key: row[key] for key in ("bad_count", "tx_packets", "lost_packets", "marks")},
        "rtt_ns": row["rtt_ns"] or None,
    }


app = typer.Typer(no_args_is_help=True, help="Show and control entropy values (EVs): state, path, use.")


def register(root: typer.Typer) -> None:
    ev_control.register(app)
    root.add_typer(app, name="ev")


@command(app, "list", flags=("topology", "name", "seed"))
def list_evs(
    settings: Settings,
    source: Source,
    target: Target,
    plane: Annotated[
        int | None, typer.Option("--plane", min=0, metavar="NUMBER", help="Only this plane.")
    ] = None,
) -> None:
    """List the EVs of the QPs between two hosts: state, reason, counters, RTT.

    Above them is each QP's congestion window and the reason for its last change.
    Without such a QP, lists the EV set that one would get.

    [bold]Examples[/bold]

      mrc-testbed ev list h0 h5
      mrc-testbed ev list h0 h5 --plane 0 -o json
    """
    clos = resolve_topology(known_topology(settings))
    near, far = clos.node(source), clos.node(target)
    find_ev(clos, near.index, far.index, plane or 0, 0)  # refuses what there is no path for
    windows, rows = _live_evs(settings, clos, near, far) if settings.topology is None else ([], [])
    rows = [row for row in rows if plane is None or row["plane"] == plane]
    if rows:
        document: dict[str, Any] = {"from": near.name, "to": far.name, "windows": windows}
        head = list(map(_window_line, windows))
        show_rows(settings, "EvList", SCHEMA_VERSION, {"evs": rows}, _COLUMNS, document=document, head=head)
        return
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    evs = build_ev_set(clos, near.index, far.index, seed=seed)
    wanted = [ev for ev in evs if plane is None or decode_ev(ev).plane == plane]
    settings.stderr.print(
        f"no QP from {near.name} to {far.name} is up: the set that one would get (seed {seed})", style="dim"
    )
    rows = ev_rows(clos, near.index, far.index, wanted)
    show_tables(settings, "EvSet", SCHEMA_VERSION, {f"EVs from {near.name} to {far.name}": rows})


@command(app, "explain", flags=("topology", "name"))
def explain(
    settings: Settings,
    source: Source,
    target: Target,
    ev: Annotated[str, typer.Argument(metavar="EV", help="32 bits (0x10010000), or plane:uplink[:copy].")],
) -> None:
    """Explain the path of an EV between two hosts, hop by hop.

    Marks links that a fault acts on. For QPs that are up, also shows the state of
    the EV and what it carried.

    [bold]Examples[/bold]

      mrc-testbed ev explain h0 h5 0x10010000
      mrc-testbed ev explain h0 h5 1:1            plane 1, uplink 1
    """
    clos = resolve_topology(known_topology(settings))
    hosts = clos.node(source).index, clos.node(target).index
    entropy = parse_ev(clos, *hosts, ev)
    path = explain_ev(clos, entropy, *hosts)
    hops = path_rows(path)
    faults = _faults_by_link(settings)
    parts = ev_parts(entropy, clos.spec.forwarding)
    near, far = clos.node(source), clos.node(target)
    _, live = _live_evs(settings, clos, near, far) if settings.topology is None else ([], [])
    states = [row for row in live if row["ev"] == f"{entropy:#010x}"]
    document: dict[str, Any] = {
        "ev": f"{entropy:#010x}",
        **parts,
        "uplink": path.uplink,
        "forwarding": clos.spec.forwarding,
        "carrier": None if path.carrier is None else str(path.carrier),
        "usids": [{"value": f"{usid.value:04x}", "meaning": str(usid)} for usid in path.usids],
        "hops": [{**row, "faults": faults.get(str(row["link"]), [])} for row in hops],
        "qps": states,
    }

    def shown() -> RenderableType:
        meaning = ", ".join(f"{name} {value}" for name, value in parts.items())
        head = Text(f"EV {entropy:#010x}: {meaning}; forwarding: {clos.spec.forwarding}")
        hit = (f"! {link.name}: {', '.join(faults[link.name])}" for link in path.links if link.name in faults)
        shown = [head, titled_table(describe_path(path), hops), *map(bad, hit)]
        return Group(*shown, *((Text(), rows_table(_COLUMNS, states)) if states else ()))

    show(settings, "EvPath", SCHEMA_VERSION, document, shown)


def _faults_by_link(settings: Settings) -> dict[str, list[str]]:
    if settings.topology is not None:
        return {}
    found: dict[str, list[str]] = {}
    for entry in Ledger(lab_paths(settings.name).faults).shown_entries().values():
        for link in entry.fault.links:
            found.setdefault(link, []).append(f"{entry.fault.fault_id} ({entry.fault.kind})")
    return found


def _live_evs(
    settings: Settings, clos: Clos, source: Node, target: Node
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Windows and EVs of every QP that the source's agent has to the target; empty without a lab."""
    if os.geteuid() != 0 or live_topology(settings) is None:
        return [], []
    with lab.attach(settings.name) as attached:
        agent: AgentClient = attached.agent(source.name)
        qps = [
            qp
            for qp in agent.list_qps()
            if qp["peer_host"] == target.index and qp["state"] == "RTS" and "cwnd_bytes" in qp
        ]
        rows = [(qp["qpn"], row) for qp in qps for row in agent.ev_list(qp["qpn"])]
    now_ns = monotonic_ns()
    windows = [{key: qp[key] for key in _WINDOW_KEYS} for qp in qps]
    return windows, [_ev_row(clos, source, target, qpn, row, now_ns) for qpn, row in rows]


def _window_line(window: dict[str, Any]) -> Text:
    """Describe a QP's congestion control in one line."""
    cwnd, under_way = (format_size(max(0, window[key])) for key in ("cwnd_bytes", "inflight_bytes"))
    if window["cc"] == "fixed":
        return Text(f"QP {window['qpn']}  fixed window of {cwnd}, {under_way} under way", style="dim")
    delay, target = (format_time(window[key]) for key in ("avg_delay_ns", "target_delay_ns"))
    reason = window["cwnd_reason"].replace("_", " ")
    return Text(
        f"QP {window['qpn']}  window {cwnd} of {format_size(window['max_wnd_bytes'])} "
        f"(last change: {reason}), {under_way} under way; queueing {delay}, target {target}, "
        f"empty fabric {format_time(window['base_rtt_ns'])}",
        style="dim",
    )
