"""ev list | explain | deny | allow | probe."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.client import AgentClient
from mrc_testbed.cli.ev_argument import EvChoice, Source, Target, parse_choice, parse_ev
from mrc_testbed.cli.inspect_tables import describe_path, ev_rows, path_rows
from mrc_testbed.cli.known_topology import known_topology, live_topology
from mrc_testbed.cli.options import COMMANDS, DEFAULT_SEED, Settings, command
from mrc_testbed.cli.render import bad, good, known, rows_table, show, show_rows, show_tables, titled_table
from mrc_testbed.drawing.graph import switches_crossed
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.report.table import Columns
from mrc_testbed.shown import format_size, format_time
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.ev import decode_ev, ev_parts
from mrc_testbed.topology.ev_set import build_ev_set, one_ev_per_path
from mrc_testbed.topology.path import explain_ev, find_ev, path_carrier
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.units import parse_duration_ns

EVERY_HOST: Final = "all"

Choices = Annotated[
    list[str],
    typer.Argument(metavar="EV...", help="A plane (1), a path plane:uplink (1:0), or 32 bits (0x10000003)."),
]
AnyTarget = Annotated[str, typer.Argument(metavar="TO", help="Receiving host, or `all`.")]

_WINDOW_KEYS: Final = (
    *("qpn", "cc", "cwnd_bytes", "max_wnd_bytes", "inflight_bytes"),
    *("avg_delay_ns", "target_delay_ns", "base_rtt_ns", "cwnd_reason", "ev_profile", "cc_profile"),
)


def _columns(clos: Clos) -> Columns:
    return {
        "QP": lambda row: str(row["qpn"]),
        "EV": "ev",
        "#plane": "plane",
        "#uplink": "uplink",
        **{tier.upper(): tier.value for tier in clos.tiers[1:]},
        "state": lambda row: (good if row["state"] == "GOOD" else bad)(row["state"]),
        "use": lambda row: (
            "active" if row["active"] else Text("backup" if row["state"] == "GOOD" else "-", style="dim")
        ),
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
        **switches_crossed(clos, path),
        "state": row["state"],
        "active": row["is_active"],
        "reason": row["reason"],
        "changed_ago_ns": now_ns - row["changed_ns"] if row["changed_ns"] else None,
        **{key: row[key] for key in ("bad_count", "tx_packets", "lost_packets", "marks")},
        "rtt_ns": row["rtt_ns"] or None,
    }


app = typer.Typer(no_args_is_help=True, help="Show and control entropy values (EVs): state, path, use.")
COMMANDS.add_typer(app, name="ev")


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

    Above them are each QP's profiles, its congestion window and the reason for
    its last change.
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
        show_rows(settings, "EvList", {"evs": rows}, _columns(clos), document=document, head=head)
        return
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    evs = build_ev_set(clos, near.index, far.index, seed=seed)
    wanted = [ev for ev in evs if plane is None or decode_ev(ev).plane == plane]
    settings.stderr.print(
        f"no QP from {near.name} to {far.name} is up: the set that one would get (seed {seed})", style="dim"
    )
    rows = ev_rows(clos, near.index, far.index, wanted)
    show_tables(settings, "EvSet", {f"EVs from {near.name} to {far.name}": rows})


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
        return Group(*shown, *((Text(), rows_table(_columns(clos), states)) if states else ()))

    show(settings, "EvPath", document, shown)


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
        qps = [qp | agent.query_qp(qp["qpn"]) for qp in qps]
        rows = [(qp["qpn"], row) for qp in qps for row in agent.ev_list(qp["qpn"])]
    now_ns = monotonic_ns()
    windows = [{key: qp[key] for key in _WINDOW_KEYS} for qp in qps]
    return windows, [_ev_row(clos, source, target, qpn, row, now_ns) for qpn, row in rows]


def _window_line(window: dict[str, Any]) -> Text:
    """Describe a QP's profiles and congestion control in one line."""
    numbers = {"profile": window["ev_profile"], "CC profile": window["cc_profile"]}
    profiles = "".join(f"{name} {number}, " for name, number in numbers.items() if number is not None)
    cwnd, under_way = (format_size(max(0, window[key])) for key in ("cwnd_bytes", "inflight_bytes"))
    if window["cc"] == "fixed":
        return Text(
            f"QP {window['qpn']}  {profiles}fixed window of {cwnd}, {under_way} under way", style="dim"
        )
    delay, target = (format_time(window[key]) for key in ("avg_delay_ns", "target_delay_ns"))
    reason = window["cwnd_reason"].replace("_", " ")
    return Text(
        f"QP {window['qpn']}  {profiles}window {cwnd} of {format_size(window['max_wnd_bytes'])} "
        f"(last change: {reason}), {under_way} under way; queueing {delay}, target {target}, "
        f"empty fabric {format_time(window['base_rtt_ns'])}",
        style="dim",
    )


@command(app, "deny", flags=("name",), needs_root=True)
def deny(settings: Settings, source: Source, target: AnyTarget, choices: Choices) -> None:
    """Deny EVs: the sender uses them no more, until `ev allow`.

    A plane or a path is denied to later QPs too; a single EV only to those that
    are up. The last active EV of a QP stays in use.

    [bold]Examples[/bold]

      mrc-testbed ev deny h0 h5 1:0         uplink 1 of plane 0, towards h5
      mrc-testbed ev deny h0 all 2          plane 2, to wherever
      mrc-testbed ev deny h0 h5 0x10000003  one EV
    """
    _order(settings, source, target, choices, is_denied=True)


@command(app, "allow", flags=("name",), needs_root=True)
def allow(settings: Settings, source: Source, target: AnyTarget, choices: Choices) -> None:
    """Allow EVs that `ev deny` denied, in the same notation.

    [bold]Examples[/bold]

      mrc-testbed ev allow h0 h5 1:0
      mrc-testbed ev allow h0 all 2
    """
    _order(settings, source, target, choices, is_denied=False)


def _order(settings: Settings, source: str, target: str, choices: Sequence[str], *, is_denied: bool) -> None:
    with lab.attach(settings.name) as attached:
        near = attached.clos.node(source)
        far = None if target == EVERY_HOST else attached.clos.node(target)
        agent = attached.agent(near.name)
        wanted = [parse_choice(attached.clos, text) for text in choices]
        items = [
            {"ev": choice.text, "changed": _carry_out(agent, choice, far, is_denied=is_denied)}
            for choice in wanted
        ]
    verb = "denied" if is_denied else "allowed"
    show(
        settings,
        "EvOrder",
        {"from": near.name, "to": target, "order": verb, "evs": items},
        lambda: "\n".join(
            f"{item['ev']}: {verb}; that changed {item['changed']} EVs of QPs that are up" for item in items
        ),
        lines="evs",
    )


def _carry_out(agent: AgentClient, choice: EvChoice, far: Node | None, *, is_denied: bool) -> int:
    """Deny or allow; return the number of EVs of live QPs that changed."""
    peer = None if far is None else far.index
    if choice.ev is None:
        path = {"plane": choice.plane, "uplink": choice.uplink, "peer_host": peer}
        if not is_denied and path not in agent.denied_paths():
            towards = "all hosts" if far is None else far.name
            raise UsageError(
                f"{choice.text!r} is not denied towards {towards}", hint="write it as `ev deny` was given it"
            )
        return int(agent.call("deny_path" if is_denied else "allow_path", **path))
    changed = 0
    for qp in agent.list_qps():
        if peer not in {None, qp["peer_host"]}:
            continue
        rows = [row for row in agent.ev_list(qp["qpn"]) if row["entropy"] == choice.ev]
        chosen = [row["index"] for row in rows if (row["state"] == "DENIED") is not is_denied]
        (agent.ev_deny if is_denied else agent.ev_allow)(qp["qpn"], chosen)
        changed += len(chosen)
    return changed


def _probe_columns(clos: Clos) -> Columns:
    return {
        "EV": "ev",
        "#plane": "plane",
        "#uplink": "uplink",
        **{tier.upper(): tier.value for tier in clos.tiers[1:]},
        "#sent": "sent",
        "#answered": lambda row: (good if row["answered"] == row["sent"] else bad)(f"{row['answered']}"),
        "#RTT min": lambda row: known(row["rtt_min_ns"]),
        "#avg": lambda row: known(row["rtt_avg_ns"]),
        "#max": lambda row: known(row["rtt_max_ns"]),
    }


def _probe_row(
    clos: Clos, near: Node, far: Node, ev: int, rounds: Sequence[Sequence[dict[str, Any]]]
) -> dict[str, Any]:
    """Probes of an EV; *rounds* are the agent's outcomes, one per EV in each."""
    path = explain_ev(clos, ev, near.index, far.index)
    sent = [outcome for outcomes in rounds for outcome in outcomes if outcome["ev"] == ev]
    rtts_ns = [outcome["rtt_ns"] for outcome in sent if outcome["rtt_ns"] is not None]
    return {
        "ev": f"{ev:#010x}",
        "plane": ev >> 28,
        "uplink": path.uplink,
        **switches_crossed(clos, path),
        "sent": len(sent),
        "answered": len(rtts_ns),
        "rtt_min_ns": min(rtts_ns, default=None),
        "rtt_avg_ns": sum(rtts_ns) // len(rtts_ns) if rtts_ns else None,
        "rtt_max_ns": max(rtts_ns, default=None),
    }


@command(app, "probe", flags=("name", "seed"), needs_root=True)
def probe(
    settings: Settings,
    source: Source,
    target: Target,
    evs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EV...]", help="32 bits, or plane:uplink[:copy] (default: every path)."),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="Probes per EV.")] = 3,
    wait: Annotated[str, typer.Option("--wait", metavar="TIME", help="Time-out of a probe.")] = "1s",
) -> None:
    """Probe paths between two hosts without a QP, and print the RTT of each.

    A probe is an Endpoint Request on the EV; the remote NIC responds on the same
    path. A response counts if its request id, host and EV match.

    [bold]Examples[/bold]

      mrc-testbed ev probe h0 h5
      mrc-testbed ev probe h0 h5 1:0 0x20010003 --count 10
    """
    wait_ns = parse_duration_ns(wait)
    with lab.attach(settings.name) as attached:
        clos = attached.clos
        near, far = clos.node(source), clos.node(target)
        path_carrier(clos, near.index, far.index, 0, 0)
        chosen = [parse_ev(clos, near.index, far.index, text) for text in evs or ()]
        for ev in chosen:
            explain_ev(clos, ev, near.index, far.index)
        chosen = chosen or one_ev_per_path(clos, near.index, far.index)
        agent = attached.agent(near.name)
        rounds = [agent.probe_evs(far.index, chosen, wait_ns) for _ in range(count)]
    rows = [_probe_row(clos, near, far, ev, rounds) for ev in dict.fromkeys(chosen)]
    document: dict[str, Any] = {"from": near.name, "to": far.name, "count": count}
    show_rows(settings, "EvProbes", {"evs": rows}, _probe_columns(clos), document=document)
