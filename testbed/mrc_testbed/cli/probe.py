"""probe links: localise lossy links by packets that hosts send to themselves."""

from dataclasses import asdict
from itertools import chain
from threading import Event
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.interruption import signals_stop
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import bad, good, key_values, rows_table, show
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.link_probes import LinkProbeCounts, link_probes_running
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.drill import note_named
from mrc_testbed.probing.avoidance import paths_around
from mrc_testbed.probing.localisation import Diagnosis, LinkHealth, localise
from mrc_testbed.report.table import Columns
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import quick_interval_ns, rounds_wanted
from mrc_testbed.topology.probing_spec import INTERVAL_MIN_NS, ProbingSpec
from mrc_testbed.units import format_duration_ns, parse_duration_ns

app = typer.Typer(no_args_is_help=True, help="Probe the links of a running lab.")
COMMANDS.add_typer(app, name="probe")


_COLUMNS: Final[Columns] = {
    "link": lambda row: bad(row["link"]),
    "#plane": "plane",
    "#lost": lambda row: None if row["loss"] is None else f"{row['loss']:.1%}",
    "#of probes": lambda row: row["probes"] or None,
}


def _row(clos: Clos, link_id: int, diagnosis: Diagnosis) -> dict[str, Any]:
    """A link; *loss* is None where no probe was judged."""
    link, health = clos.link(link_id), diagnosis.health.get(link_id, LinkHealth())
    return {
        "link": link.name,
        "plane": link.plane,
        "suspect": link_id in diagnosis.suspects,
        "probes": health.probes,
        "loss": health.loss,
    }


@command(app, "links", flags=("name",), needs_root=True)
def probe_links(
    settings: Settings,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            "-d",
            metavar="TIME",
            help="Duration of probing (default: until a loss of 0.5 % shows).",
        ),
    ] = None,
    interval: Annotated[
        str | None, typer.Option("--interval", "-i", metavar="TIME", help="Time between two rounds.")
    ] = None,
    deny: Annotated[
        bool,
        typer.Option("--deny", show_default=False, help="Deny the paths across these links at all hosts."),
    ] = False,
) -> None:
    """Find the links that lose packets.

    Every host sends probes that a source route brings back to it over its T0s and
    T1s; the losses identify a link, switch or host. Parts that explain the same
    losses equally well are named together, with "or": probe for longer.

    [bold]Examples[/bold]

      mrc-testbed probe links
      mrc-testbed probe links --duration 60s --interval 2ms -o json
      mrc-testbed probe links --deny               and keep traffic away from them
    """
    duration_ns = None if duration is None else parse_duration_ns(duration)
    interval_ns = None if interval is None else parse_duration_ns(interval)
    if interval_ns is not None and interval_ns < INTERVAL_MIN_NS:
        raise UsageError(f"--interval: at least {format_duration_ns(INTERVAL_MIN_NS)} between two rounds")
    with lab.attach(settings.name) as attached:
        diagnosis, probing, count = _diagnose(settings, attached, duration_ns, interval_ns)
        clos = attached.clos
        note_named(settings.name, "probe links", chain.from_iterable(part.names for part in diagnosis.parts))
        denied = _deny(attached, diagnosis) if deny else None
    suspects = [_row(clos, link, diagnosis) for link in sorted(diagnosis.suspects)]
    links = [_row(clos, link, diagnosis) for link in sorted(diagnosis.health)]
    document: dict[str, Any] = {
        "probes": count,
        "interval_ns": probing.interval,
        "timeout_ns": probing.timeout,
        "nodes": list(diagnosis.nodes),
        "suspects": suspects,
        "parts": [
            {"names": list(part.names), "losses": diagnosis.describe(part)} for part in diagnosis.parts
        ],
        "denied_evs": denied,
        "links": links,
    }
    facts = key_values(_facts(diagnosis, count, probing, denied))
    is_all_in_sight = all(row["probes"] for row in links)
    verdict = good("no link loses probes" if is_all_in_sight else "no link in sight loses probes")
    named = [
        bad(f"suspect: {' or '.join(part.names)}: {diagnosis.describe(part)}") for part in diagnosis.parts
    ]
    shown = Group(Text(), rows_table(_COLUMNS, suspects), Text(), *named) if suspects else verdict
    show(settings, "LinkHealth", document, lambda: Group(facts, shown), lines="links", version=2)


def _diagnose(
    settings: Settings, attached: Lab, duration_ns: int | None, interval_ns: int | None
) -> tuple[Diagnosis, ProbingSpec, int]:
    """Probe for *duration_ns*; return the diagnosis, the settings and the number of judged probes."""
    ended = Event()
    if interval_ns is None and duration_ns is None:
        interval_ns = quick_interval_ns(attached.clos)
    with (
        LinkProbeCounts(attached.paths, attached.clos) as counts,
        link_probes_running(attached, interval_ns) as probing,
        signals_stop(ended.set),
    ):
        # probes judged at first were sent before this command, under whatever faults there were then
        ended.wait((probing.timeout + probing.interval) / 1e9)
        before = counts.read()
        if duration_ns is None:
            duration_ns = rounds_wanted(before) * probing.interval
        settings.progress(f"probing for {format_duration_ns(duration_ns)}")
        ended.wait(duration_ns / 1e9)
        outcomes = counts.judged(before, probing, ended)
    judged = sum(outcome.passed + outcome.failed for outcome in outcomes)
    if not judged:
        raise UsageError(
            f"no probe was judged in {format_duration_ns(duration_ns)}",
            hint=f"--duration must exceed the time-out, {format_duration_ns(probing.timeout)}",
        )
    return localise(attached.clos, outcomes), probing, judged


def _deny(attached: Lab, diagnosis: Diagnosis) -> int:
    """Deny the paths across the suspects at all hosts, for later QPs too; return the number of EVs denied."""
    denied = 0
    for host, paths in paths_around(attached.clos, diagnosis.suspects).items():
        agent = attached.agent(attached.clos.host(host).name)
        denied += sum(int(agent.call("deny_path", **asdict(path))) for path in paths)
    return denied


def _facts(
    diagnosis: Diagnosis, count: int, probing: ProbingSpec, denied: int | None
) -> list[tuple[str, RenderableType]]:
    unknown = [link for link, health in diagnosis.health.items() if not health.probes]
    healthy = len(diagnosis.health) - len(diagnosis.suspects) - len(set(unknown) - diagnosis.suspects)
    facts: list[tuple[str, RenderableType]] = [
        ("probes", f"{count:,}, a round every {format_duration_ns(probing.interval)}"),
        ("links", f"{healthy} healthy, {len(diagnosis.suspects)} suspected, {len(unknown)} out of sight"),
    ]
    if denied is not None:
        facts.append(("denied", f"{denied} EVs of QPs that are up; `ev allow` gives them back"))
    return facts
