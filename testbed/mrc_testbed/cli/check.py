"""check: name slow and dead hosts, paths and links."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from statistics import median
from threading import Event
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_agents.nic.client import AgentClient
from mrc_testbed.check.figures import CheckFigures
from mrc_testbed.check.judgement import Finding, State, judge, way_states
from mrc_testbed.check.measuring import Asked, CheckExtent, LabMeasuring, Site
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import COMMANDS, DEFAULT_SEED, Settings, command
from mrc_testbed.cli.render import bad, good, key_values, known, rows_table, show
from mrc_testbed.cli.suggestion import hosts as host_names
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.link_probes import LinkProbeCounts, link_probes_running
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.drill import note_named
from mrc_testbed.report.table import Columns
from mrc_testbed.shown import format_rate, format_size, format_time, format_times
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import PathOutcome, quick_interval_ns, rounds_wanted
from mrc_testbed.units import parse_size_bytes
from mrc_testbed.virtual.check_site import virtual_site
from mrc_testbed.workloads.connectors import open_mrc
from mrc_testbed.workloads.engine import Engine, WorkloadEngine

PATHS_SHOWN: Final = 8
"""Bad paths that are listed for people: one broken link breaks dozens."""

_WAY_KEYS: Final = ("source", "target", "plane", "over", "uplink", "state", "sent", "answered", "rtt_ns")
_HOST_COLUMNS: Final[Columns] = {
    "host": "host",
    "#sends": lambda row: known(row["send_bps"], format_rate),
    "#receives": lambda row: known(row["receive_bps"], format_rate),
    "#latency": lambda row: known(row["latency_ns"]),
    "#barrier": lambda row: known(row["barrier_ns"]),
    "#paths": "paths",
    "#bad": lambda row: bad(str(row["bad_paths"])) if row["bad_paths"] else None,
}

DEFAULT_REPETITIONS: Final = 16
DEFAULT_PAIRS: Final = 240
GREETING_NS: Final = 3_000_000_000
"""Time in which an agent answers: it may wait for a CPU, and one that stands still makes all others wait."""

_THREADS: Final = 16


class LiveSite:
    """A lab that is up.

    Attributes:
        clos: its topology.
        rtt_noise_ns: what a busy machine adds to the fastest of a few probes, which kernels alone answer.
        barrier_noise_ns: what it adds to a median of messages that agents post.
    """

    rtt_noise_ns = 300_000
    barrier_noise_ns = 10_000_000

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.clos = lab.clos

    def require_agent(self, host: str) -> None:
        """Raise AgentError unless the NIC agent of a host answers."""
        with AgentClient(self._lab.paths.agent_socket(host), GREETING_NS) as agent:
            agent.hello()

    def engine(self) -> Engine:
        """A new engine over MRC."""
        return WorkloadEngine(open_mrc(self._lab))

    def probe(self, asked: Sequence[Asked], wait_ns: int) -> list[list[int | None]]:
        """The RTT of each probe: agents wait for the responses, each for its own."""
        agents = [self._lab.agent(each.source.name) for each in asked]
        with ThreadPoolExecutor(min(_THREADS, len(asked)) or 1) as threads:
            outcomes = threads.map(
                lambda agent, each: agent.probe_evs(each.target.index, list(each.evs), wait_ns), agents, asked
            )
            return [[outcome["rtt_ns"] for outcome in listed] for listed in outcomes]

    def probe_links(self, hosts: Collection[int]) -> Sequence[PathOutcome]:
        """The outcomes of link probes that hosts send until a loss of half a percent shows."""
        if self.clos.spec.forwarding != "srv6":
            return ()
        names = {self.clos.host(host).name for host in hosts}
        with ExitStack() as stack:
            counts = stack.enter_context(LinkProbeCounts(self._lab.paths, self.clos))
            interval_ns = quick_interval_ns(self.clos)
            probing = stack.enter_context(link_probes_running(self._lab, interval_ns, names))
            before = counts.read()
            asked = [outcome for outcome in before if outcome.path.host in hosts]
            ended = Event()
            ended.wait((probing.timeout + rounds_wanted(asked) * probing.interval) / 1e9)
            outcomes = counts.judged(before, probing, ended)
        return [outcome for outcome in outcomes if outcome.path.host in hosts]


@command(COMMANDS, "check", flags=("name", "topology", "seed"), needs_root=True)
def check(
    settings: Settings,
    hosts: Annotated[
        str,
        typer.Argument(
            metavar="[HOSTS]", autocompletion=host_names, help="Host names with commas (default: all)."
        ),
    ] = "all",
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Payload of a message.")] = "64KiB",
    repetitions: Annotated[
        int,
        typer.Option(
            "--repetitions", min=1, max=10_000, metavar="NUMBER", help="Messages of a pair, and barriers."
        ),
    ] = DEFAULT_REPETITIONS,
    pairs: Annotated[
        int,
        typer.Option("--pairs", min=2, metavar="NUMBER", help="Ordered pairs of hosts to measure, about."),
    ] = DEFAULT_PAIRS,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="Check a lab in virtual time: no lab, no root; exact.")
    ] = False,
) -> int:
    """Check a lab for slow and dead hosts, paths and links, and name them.

    Probes every path, sends RDMA WRITEs between the pairs of hosts, runs
    all-reduces over all hosts and barriers; then finds the hosts, links and
    switches that explain what is slow or dead. With more hosts than 16, only some
    pairs are measured; each host is in several. The exit status is 4 when
    something is slow or dead.

    With --virtual, -t names a Topology file, or a Scenario file whose faults are
    in force from the beginning.

    [bold]Examples[/bold]

      mrc-testbed check
      mrc-testbed check h0,h1,h4 --size 1MiB -o json
      mrc-testbed check --virtual -t gray-blackhole.yaml
    """
    if settings.topology is not None and not virtual:
        raise UsageError("-t: it is for --virtual; without it, the lab that is up is checked")
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    options = CheckExtent(parse_size_bytes(size), repetitions, pairs, seed)
    with _site(settings, seed, is_virtual=virtual) as site:
        measuring = LabMeasuring(site, _chosen(site.clos, hosts), options, settings.progress)
        measured = measuring.measured()
    findings = judge(measured)
    if not virtual:
        parts = (name for each in findings if each.kind == "suspect" for name in each.names)
        note_named(settings.name, "check", parts)
    document: dict[str, Any] = {
        "lab": None if virtual else settings.name,
        "seed": seed,
        "size_bytes": options.size_bytes,
        "repetitions": repetitions,
        **health_document(measured, findings),
    }
    show(settings, "HealthCheck", document, lambda: health_text(measured, findings), lines="findings")
    return ExitCode.EXPECTATION_FAILED if findings else ExitCode.PASS


@contextmanager
def _site(settings: Settings, seed: int, *, is_virtual: bool) -> Iterator[Site]:
    if is_virtual:
        with virtual_site(settings.topology, seed) as site:
            yield site
    else:
        with lab.attach(settings.name) as attached:
            yield LiveSite(attached)


def _chosen(clos: Clos, hosts: str) -> list[str]:
    """Hosts of a list with commas, each once."""
    if hosts == "all":
        names = [host.name for host in clos.hosts()]
    else:
        nodes = [clos.node(name.strip()) for name in hosts.split(",")]
        for node in nodes:
            if node.is_switch:
                raise UsageError(f"{node.name} is a switch: give hosts")
        names = list(dict.fromkeys(node.name for node in nodes))
    if len(names) < 2:
        raise UsageError(f"{len(names)} host: a check takes two or more")
    return names


def health_document(measured: CheckFigures, findings: Sequence[Finding]) -> dict[str, Any]:
    states = way_states(measured.paths, measured.rtt_noise_ns)
    return {
        "healthy": not findings,
        "pair_count": measured.pair_count,
        "path_count": measured.path_count,
        "findings": [{**asdict(finding), "names": list(finding.names)} for finding in findings],
        "hosts": _host_rows(measured, states),
        "all_reduce": None if measured.all_reduce is None else asdict(measured.all_reduce),
        "pairs": [asdict(pair) | {"is_local": pair.distance == 0} for pair in measured.pairs],
        "paths": [
            {key: state if key == "state" else getattr(way, key) for key in _WAY_KEYS}
            for way, state in zip(measured.paths, states, strict=True)
        ],
    }


def health_text(measured: CheckFigures, findings: Sequence[Finding]) -> RenderableType:
    states = way_states(measured.paths, measured.rtt_noise_ns)
    rows = _host_rows(measured, states)
    others = [finding for finding in findings if finding.subject != "path"]
    paths = [finding for finding in findings if finding.subject == "path"]
    lines = [bad(f"{finding.kind}: {finding.text}") for finding in (*others, *paths[:PATHS_SHOWN])]
    if len(paths) > PATHS_SHOWN:
        lines.append(bad(f"and {len(paths) - PATHS_SHOWN} more paths; -o json lists all"))
    verdict = [] if findings else [good("no host, path or link is slow or dead")]
    return Group(
        rows_table(_HOST_COLUMNS, rows),
        Text(),
        key_values(_facts(measured, states)),
        Text(),
        *lines,
        *verdict,
    )


def _host_rows(measured: CheckFigures, states: Sequence[State]) -> list[dict[str, Any]]:
    """The hosts, in medians over the pairs and paths that each takes part in."""
    paths = Counter(host for way in measured.paths for host in (way.source, way.target))
    bad_paths = Counter(
        host
        for way, state in zip(measured.paths, states, strict=True)
        if state != "good"
        for host in (way.source, way.target)
    )
    return [
        {
            "host": host,
            "send_bps": _median(pair.bandwidth_bps for pair in measured.pairs if pair.source == host),
            "receive_bps": _median(pair.bandwidth_bps for pair in measured.pairs if pair.target == host),
            "latency_ns": _median(pair.latency_ns for pair in measured.pairs if pair.source == host),
            "barrier_ns": measured.barrier_ns.get(host),
            "paths": paths[host],
            "bad_paths": bad_paths[host],
        }
        for host in measured.hosts
    ]


def _facts(measured: CheckFigures, states: Sequence[State]) -> list[tuple[str, RenderableType]]:
    bandwidth_bps = _median(pair.bandwidth_bps for pair in measured.pairs)
    latency_ns = _median(pair.latency_ns for pair in measured.pairs)
    pairs = f"{len(measured.pairs):,} of {measured.pair_count:,} measured"
    if bandwidth_bps is not None:
        pairs += f", median {format_rate(bandwidth_bps)}"
    if latency_ns is not None:
        pairs += f", {format_time(latency_ns)}"
    counts = Counter(states)
    rtt_ns = _median(way.rtt_ns for way in measured.paths)
    paths = ", ".join(
        [
            f"{len(measured.paths):,} of {measured.path_count:,} between these pairs probed",
            *(f"{counts[state]:,} {state}" for state in ("good", "dead", "lossy", "slow") if counts[state]),
            *(() if rtt_ns is None else (f"median RTT {format_time(rtt_ns)}",)),
        ]
    )
    facts: list[tuple[str, RenderableType]] = [("pairs", pairs), ("paths", paths)]
    if measured.all_reduce is not None and measured.all_reduce.time_ns is not None:
        figures = measured.all_reduce
        text = f"{format_size(figures.size_bytes)} over {figures.ranks} hosts in "
        facts.append(
            (
                "all-reduce",
                f"{text}{format_time(measured.all_reduce.time_ns)}, "
                f"bus bandwidth {format_rate(figures.busbw_bps)}",
            )
        )
    if measured.barrier_ns:
        last, _ = max(measured.barrier_ns.items(), key=lambda each: each[1])
        times = format_times(min(measured.barrier_ns.values()), max(measured.barrier_ns.values()))
        facts.append(("barrier", f"hosts come after {times}, {last} last"))
    return facts


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
