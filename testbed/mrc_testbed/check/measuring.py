"""Measures a lab for a health check: probes of all paths, WRITEs of all pairs, all-reduces, barriers.

Whatever is slow or dead is measured again, and the best counts: a busy machine is slow once, a bad link each
time. QPs and memory are there for one round of pairs alone.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Protocol, TypeVar

from mrc_agents.abi import Limit
from mrc_agents.clock import monotonic_ns
from mrc_testbed.check.figures import AllReduceFigures, CheckFigures, PairFigures, PathFigures
from mrc_testbed.check.judgement import SLOW_BANDWIDTH, bandwidth_shares, way_states
from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import AgentError
from mrc_testbed.probing.localisation import localise
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.ev_set import one_ev_per_path
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.probe_path import PathOutcome
from mrc_testbed.workloads.engine import Engine
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.load import Load, build_loads
from mrc_testbed.workloads.nccl import build_result
from mrc_testbed.workloads.spec import CollectiveSpec


@dataclass(frozen=True, slots=True)
class Asked:
    """Paths from one host to another, each to be probed once."""

    # source, target: hosts
    source: Node
    target: Node
    evs: Sequence[int]  # one for each probe


class Site(Protocol):
    clos: Clos  # its topology
    rtt_noise_ns: int  # time by which its machine may make an RTT longer
    barrier_noise_ns: int  # the same of what processes take part in

    def require_agent(self, host: str) -> None:
        """Raise AgentError unless the NIC agent of a host answers."""

    def engine(self) -> Engine:
        """A new engine over MRC."""

    def probe(self, asked: Sequence[Asked], wait_ns: int) -> list[list[int | None]]:
        """The RTT of each probe; None: it was not answered within *wait_ns*. No source is asked twice."""

    def probe_links(self, hosts: Collection[int]) -> Sequence[PathOutcome]:
        """The outcomes of link probes that hosts, by number, send until a loss of half a percent shows.

        Empty without source routes.
        """


PROBES: Final = 3
"""Probes of a path; the fastest counts."""

PATHS_MAX: Final = 64
"""Paths of a pair: those of large fabrics take turns, so that all pairs together probe all."""

WAIT_NS: Final = 300_000_000
"""Time for the response to a probe, which a busy machine may take; a dead path makes all others wait."""

_Probe = tuple[Node, Node, int]


def probe_paths(
    site: Site, rounds: Sequence[Sequence[tuple[Node, Node]]], progress: Callable[[str], object]
) -> tuple[list[PathFigures], int]:
    """Figures of the paths of all pairs, and how many there are.

    Those that are not good are probed once more.

    Args:
        rounds: pairs, no host of which sends twice in a round.
    """
    evs: dict[tuple[Node, Node], list[int]] = {}
    path_count = 0
    for number, pair in enumerate(pair for pairs in rounds for pair in pairs):
        every = one_ev_per_path(site.clos, pair[0].index, pair[1].index)
        turns = -(-len(every) // PATHS_MAX)
        evs[pair] = every[number % turns :: turns]
        path_count += len(every)
    ways: dict[_Probe, PathFigures] = {}
    for number, pairs in enumerate(_both_directions(rounds), start=1):
        progress(f"probing paths, round {number} of {len(rounds) // 2}")
        _probe(site, [Asked(*pair, evs[pair] * PROBES) for pair in pairs], ways)
    states = way_states(list(ways.values()), site.rtt_noise_ns)
    bad = {probe for probe, state in zip(ways, states, strict=True) if state != "good"}
    for pairs in _both_directions(rounds):
        again = {pair: [ev for ev in evs[pair] if (*pair, ev) in bad] for pair in pairs}
        _probe(site, [Asked(*pair, chosen) for pair, chosen in again.items() if chosen], ways)
    return list(ways.values()), path_count


def _both_directions(rounds: Sequence[Sequence[tuple[Node, Node]]]) -> Iterable[Sequence[tuple[Node, Node]]]:
    """Rounds in which each host sends and receives: probes hardly load a link."""
    for place in range(0, len(rounds), 2):
        yield [pair for pairs in rounds[place : place + 2] for pair in pairs]


def _probe(site: Site, asked: Sequence[Asked], ways: dict[_Probe, PathFigures]) -> None:
    """Probes paths, as many at a time as a NIC can, and adds the outcome to *ways*."""
    most = int(Limit.EV_MAX)
    for start in range(0, max((len(each.evs) for each in asked), default=0), most):
        part = [replace(each, evs=each.evs[start : start + most]) for each in asked]
        part = [each for each in part if each.evs]
        for each, rtts_ns in zip(part, site.probe(part, WAIT_NS), strict=True):
            for ev, rtt_ns in zip(each.evs, rtts_ns, strict=True):
                probe = (each.source, each.target, ev)
                known = ways.get(probe) or _unprobed(site.clos, *probe)
                fastest = min((rtt for rtt in (known.rtt_ns, rtt_ns) if rtt is not None), default=None)
                answered = known.answered + (rtt_ns is not None)
                ways[probe] = replace(known, sent=known.sent + 1, answered=answered, rtt_ns=fastest)


def _unprobed(clos: Clos, source: Node, target: Node, ev: int) -> PathFigures:
    path = explain_ev(clos, ev, source.index, target.index)
    return PathFigures(
        source=source.name,
        target=target.name,
        plane=path.plane,
        over=path.top.name,
        uplink=path.uplink if clos.distance(source.index, target.index) and _has_lanes(clos) else None,
        links=tuple(link.name for link in path.links),
        nodes=tuple(hop.node.name for hop in path.hops),
        sent=0,
        answered=0,
        rtt_ns=None,
    )


def _has_lanes(clos: Clos) -> bool:
    """Return True if several paths cross one switch of the highest tier."""
    return any(tier.lanes > 1 for tier in clos.numbering.tiers)


def figures_of_link_probe(clos: Clos, outcome: PathOutcome) -> PathFigures:
    path = outcome.path
    links = [clos.link(link) for link in path.links]
    host = clos.host(path.host).name
    return PathFigures(
        source=host,
        target=host,
        plane=path.plane,
        over=links[-1].upper.node.name,
        uplink=path.uplink,
        links=tuple(link.name for link in links),
        nodes=(host, *(link.upper.node.name for link in links)),
        sent=outcome.passed + outcome.failed,
        answered=outcome.returned,
        rtt_ns=outcome.rtt_sum_ns / outcome.passed if outcome.passed else None,
    )


ROUNDS_MIN: Final = 2
"""Each host meets two others at least: with one alone, nobody could tell which of the two is slow."""

Pair = tuple[int, int]

_Host = TypeVar("_Host", bound=Hashable)

SMALL_BYTES: Final = 8
"""Message of a latency or a barrier: one packet."""

DEPTH: Final = 4
"""Messages outstanding: one after the other, as a slow host would send them, hides no round trip."""

ALL_REDUCES: Final = 5
ALL_REDUCE_MEMORY_SHARE: Final = 4
"""An all-reduce has data of a pair's WRITEs, at most this part of a NIC's memory, and needs twice that."""

BARRIER_ROUNDS: Final = 4
"""Rounds of ordered pairs that make a barrier: a host sends to half as many others, for which small NICs
have QPs."""

RECHECKS: Final = 5

_TIMEOUT_NS: Final = 2_000_000_000
"""Time that messages get besides what ports need: QPs leave dead paths, and agents wait for a CPU."""

_TIMEOUT_RATIO: Final = 20
"""Times what ports need: slower is as good as dead, and what has arrived gives its bandwidth."""

_BULK: Final = "bandwidth"
_SMALL: Final = "latency"


def rounds(count: int) -> list[list[Pair]]:
    """Rounds in which each of *count* meets each other once (circle method)."""
    ring: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    found = []
    for _ in range(len(ring) - 1):
        halves = zip(ring[: len(ring) // 2], reversed(ring[len(ring) // 2 :]), strict=True)
        found.append([(a, b) for a, b in halves if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def ordered_rounds(count: int, pairs_max: int) -> list[list[Pair]]:
    """Rounds of ordered pairs: as many as hold *pairs_max*, spread evenly over those of all pairs.

    Of each pair, the two directions are rounds of their own, one after the other.

    Args:
        count: number of hosts, at least 2.
        pairs_max: ordered pairs; ROUNDS_MIN rounds there are in any case, as far as there are so many.
    """
    every = rounds(count)
    wanted = min(len(every), max(ROUNDS_MIN, pairs_max // (2 * (count // 2))))
    chosen = [every[index * len(every) // wanted] for index in range(wanted)]
    return [ordered for pairs in chosen for ordered in (pairs, [(b, a) for a, b in pairs])]


def disjoint_rounds(pairs: Iterable[tuple[_Host, _Host]]) -> list[list[tuple[_Host, _Host]]]:
    """The same pairs in rounds, each in the first in which neither of its ends takes part."""
    found: list[tuple[list[tuple[_Host, _Host]], set[_Host]]] = []
    for pair in pairs:
        place = next((entry for entry in found if entry[1].isdisjoint(pair)), None)
        if place is None:
            place = ([], set())
            found.append(place)
        place[0].append(pair)
        place[1].update(pair)
    return [listed for listed, _ in found]


@dataclass(frozen=True, slots=True)
class CheckExtent:
    size_bytes: int  # of a message
    repetitions: int  # messages of a pair, small messages, and barriers
    pairs_max: int  # ordered pairs; see `ordered_rounds`
    seed: int  # of the choice of paths


class LabMeasuring:
    def __init__(
        self, site: Site, hosts: Sequence[str], options: CheckExtent, progress: Callable[[str], object]
    ) -> None:
        self._site = site
        self._hosts = hosts
        self._options = options
        self._progress = progress

    def measured(self) -> CheckFigures:
        site, clos = self._site, self._site.clos
        self._progress("greeting the NIC agents")
        silent = self._silent()
        nodes = [clos.node(host) for host in self._hosts if host not in silent]
        rounds = ordered_rounds(len(nodes), self._options.pairs_max) if len(nodes) > 1 else []
        named = [[(nodes[a], nodes[b]) for a, b in pairs] for pairs in rounds]
        paths, path_count = probe_paths(site, named, self._progress)
        states = way_states(paths, site.rtt_noise_ns)
        self._progress("probing links")
        outcomes = site.probe_links({node.index for node in nodes})
        judged = [each for each in outcomes if each.passed + each.failed]
        living = {
            (way.source, way.target) for way, state in zip(paths, states, strict=True) if state != "dead"
        }
        alive = [[(a, b) for a, b in pairs if (a.name, b.name) in living] for pairs in named]
        figures = self._pairs(alive)
        working = [
            [(a, b) for a, b in pairs if figures[a.name, b.name].bandwidth_bps is not None] for pairs in alive
        ]
        return CheckFigures(
            hosts=self._hosts,
            silent=silent,
            pairs=list(figures.values()),
            pair_count=len(nodes) * (len(nodes) - 1),
            paths=paths,
            path_count=path_count,
            link_probes=[figures_of_link_probe(clos, each) for each in judged],
            diagnosis=localise(clos, judged),
            names_paths=clos.spec.forwarding != "ecmp",
            all_reduce=self._all_reduce({node.name for pairs in working for pair in pairs for node in pair}),
            barrier_ns=self._barrier(working[:BARRIER_ROUNDS]),
            rtt_noise_ns=site.rtt_noise_ns,
            barrier_noise_ns=site.barrier_noise_ns,
        )

    def _silent(self) -> dict[str, str]:
        silent = {}
        for host in self._hosts:
            try:
                self._site.require_agent(host)
            except AgentError as error:
                silent[host] = error.message
        return silent

    # -- pairs ------------------------------------------------------------------------------------

    def _pairs(self, rounds: Sequence[Sequence[tuple[Node, Node]]]) -> dict[tuple[str, str], PairFigures]:
        """Figures of all pairs; of slow ones the best of RECHECKS more."""
        clos = self._site.clos
        figures: dict[tuple[str, str], PairFigures] = {}
        for number, pairs in enumerate(rounds, start=1):
            self._progress(f"pairs of hosts, round {number} of {len(rounds)}")
            figures |= {(each.source, each.target): each for each in self._round(pairs)}
        for number in range(1, RECHECKS + 1):
            shares = bandwidth_shares(list(figures.values()))
            slow = [names for names, share in shares.items() if share < SLOW_BANDWIDTH]
            for names_at_once in disjoint_rounds(slow):
                self._progress(f"pairs that were slow, once more ({number} of {RECHECKS})")
                for each in self._round([(clos.node(a), clos.node(b)) for a, b in names_at_once]):
                    names = (each.source, each.target)
                    if (each.bandwidth_bps or 0) > (figures[names].bandwidth_bps or 0):
                        figures[names] = each
        return figures

    def _round(self, pairs: Sequence[tuple[Node, Node]]) -> list[PairFigures]:
        """Figures of disjoint pairs, all at once."""
        if not pairs:
            return []
        options, clos = self._options, self._site.clos
        loads = [
            Load(name, size, depth, options.repetitions, _flows(name, pairs))
            for name, size, depth in ((_SMALL, SMALL_BYTES, 1), (_BULK, options.size_bytes, DEPTH))
        ]
        with closing(self._site.engine()) as engine:
            engine.prepare(loads, options.seed)
            for load in loads:
                engine.start(load.name)
                engine.wait(monotonic_ns() + self._timeout_ns(load.size_bytes * options.repetitions))
            end_ns = monotonic_ns()
            acknowledged = engine.acknowledged_bytes()
            outcomes = {outcome.flow: outcome for outcome in engine.collect(end_ns)}
        found = []
        for (near, far), small, bulk in zip(pairs, loads[0].flows, loads[1].flows, strict=True):
            outcome = outcomes[bulk]
            found.append(
                PairFigures(
                    source=near.name,
                    target=far.name,
                    distance=clos.distance(near.index, far.index),
                    bandwidth_bps=_bandwidth_bps(outcome, acknowledged[bulk]),
                    latency_ns=_latency_ns(outcomes[small]),
                    wrong_bytes=outcome.wrong_bytes + outcomes[small].wrong_bytes,
                    error=outcome.error,
                )
            )
        return found

    def _timeout_ns(self, length_bytes: int) -> int:
        """Time for each host to send so much."""
        rate_bps = self._site.clos.spec.port_rate
        ports_ns = length_bytes * 8 * 10**9 // rate_bps if rate_bps else 0
        return _TIMEOUT_NS + _TIMEOUT_RATIO * ports_ns

    # -- all together -----------------------------------------------------------------------------

    def _all_reduce(self, able: Collection[str]) -> AllReduceFigures | None:
        """All-reduces over the hosts that some pair works with."""
        ranks = [host for host in self._hosts if host in able]
        if len(ranks) < 2:
            return None
        self._progress(f"all-reduce over {len(ranks)} hosts")
        clos = self._site.clos
        unit_bytes = 4 * len(ranks)
        wanted_bytes = min(
            self._options.size_bytes * self._options.repetitions,
            clos.spec.nic.memory // ALL_REDUCE_MEMORY_SHARE,
        )
        size_bytes = -(-wanted_bytes // unit_bytes) * unit_bytes
        values: dict[str, Tree] = {
            "name": "all-reduce",
            "kind": "all-reduce",
            "iterations": ALL_REDUCES,
            "hosts": [*ranks],
            "size": f"{size_bytes}B",
        }
        spec = validate_values(values, CollectiveSpec, "all-reduce of the health check")
        [load] = build_loads(spec, clos, seed=self._options.seed)
        with closing(self._site.engine()) as engine:
            engine.prepare([load], self._options.seed)
            engine.start(load.name)
            engine.wait(monotonic_ns() + self._timeout_ns(2 * size_bytes * ALL_REDUCES))
            outcomes = engine.collect(monotonic_ns())
            errors = [outcome.error for outcome in outcomes if outcome.error]
            if load.collective is None:
                raise ValueError(load)
            result = build_result(load.collective, engine.operations(load.name), errors)
        error = f"{result.wrong_bytes:,} bytes are wrong" if result.wrong_bytes else None
        time_ns = None if result.operation is None else result.operation.p50_ns
        return AllReduceFigures(
            ranks=len(ranks),
            size_bytes=size_bytes,
            operations=0 if result.operation is None else result.operation.count,
            time_ns=time_ns,
            busbw_bps=size_bytes * load.collective.bus_factor * 8e9 / time_ns if time_ns else 0.0,
            error=error or next(iter(result.errors), None),
        )

    def _barrier(self, rounds: Sequence[Sequence[tuple[Node, Node]]]) -> dict[str, float]:
        """Median time until a message of each host has reached some others, and is acknowledged."""
        flows = _flows("barrier", [pair for pairs in rounds for pair in pairs])
        if not flows:
            return {}
        load = Load("barrier", SMALL_BYTES, 1, 1, flows)
        with closing(self._site.engine()) as engine:
            engine.prepare([load], self._options.seed)
            self._progress("barriers")
            for _ in range(self._options.repetitions):
                engine.start(load.name)
                if not engine.wait(monotonic_ns() + self._timeout_ns(0)):
                    break
            engine.collect(monotonic_ns())
            # By host, the median over all barriers of the time until the last receiver has acknowledged it
            took_ns: dict[str, list[list[int]]] = {}
            for flow, batches in engine.batches(load.name).items():
                took_ns.setdefault(flow.source, []).append(
                    [batch.end_ns - batch.begin_ns for batch in batches]
                )
            return {
                host: median(map(max, zip(*of_flows, strict=False)))
                for host, of_flows in took_ns.items()
                if all(of_flows)
            }


def _flows(name: str, pairs: Sequence[tuple[Node, Node]]) -> tuple[Flow, ...]:
    return tuple(Flow(name, near.name, far.name, 0) for near, far in pairs)


def _bandwidth_bps(outcome: FlowOutcome, acknowledged_bytes: int) -> float | None:
    """Payload over the time it took; of a flow that was given up, what had arrived."""
    payload_bytes = acknowledged_bytes if outcome.error else outcome.payload_bytes
    if not payload_bytes or outcome.end_ns <= outcome.start_ns:
        return None
    return payload_bytes * 8e9 / (outcome.end_ns - outcome.start_ns)


def _latency_ns(outcome: FlowOutcome) -> float | None:
    if outcome.error or not outcome.messages:
        return None
    return (outcome.end_ns - outcome.start_ns) / outcome.messages
