"""ev deny | allow | probe."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from mrc_agents.nic.client import AgentClient
from mrc_testbed.cli.ev_argument import EvChoice, Source, Target, parse_choice, parse_ev
from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.render import bad, good, known, show, show_rows
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.report.table import Columns
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.ev_set import one_ev_per_path
from mrc_testbed.topology.path import explain_ev, path_carrier
from mrc_testbed.units import parse_duration_ns

SCHEMA_VERSION: Final = 1
EVERY_HOST: Final = "all"

Choices = Annotated[
    list[str],
    typer.Argument(metavar="EV...", help="A plane (1), a path plane:uplink (1:0), or 32 bits (0x10000003)."),
]
AnyTarget = Annotated[str, typer.Argument(metavar="TO", help="Receiving host, or `all`.")]


def register(app: typer.Typer) -> None:
    command(app, "deny", flags=("name",), needs_root=True)(deny)
    command(app, "allow", flags=("name",), needs_root=True)(allow)
    command(app, "probe", flags=("name", "seed"), needs_root=True)(probe)


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
        SCHEMA_VERSION,
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


_COLUMNS: Final[Columns] = {
    "EV": "ev",
    "#plane": "plane",
    "#uplink": "uplink",
    "T1": "t1",
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
        "t1": path.t1.name if path.t1 else None,
        "sent": len(sent),
        "answered": len(rtts_ns),
        "rtt_min_ns": min(rtts_ns, default=None),
        "rtt_avg_ns": sum(rtts_ns) // len(rtts_ns) if rtts_ns else None,
        "rtt_max_ns": max(rtts_ns, default=None),
    }


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
    show_rows(settings, "EvProbes", SCHEMA_VERSION, {"evs": rows}, _COLUMNS, document=document)
