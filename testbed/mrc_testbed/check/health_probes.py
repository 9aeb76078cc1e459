"""The probes of paths and links of a health check, and what becomes of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from mrc_agents.abi import Limit
from mrc_testbed.check.figures import PathFigures
from mrc_testbed.check.judgement import way_states
from mrc_testbed.check.site import Asked, Site
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.ev_set import one_ev_per_path
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.probe_path import PathOutcome

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
        over=(path.t1 or clos.t0_of(source.index, path.plane)).name,
        uplink=path.uplink if path.t1 and clos.spec.uplinks_per_pair > 1 else None,
        links=tuple(link.name for link in path.links),
        nodes=tuple(hop.node.name for hop in path.hops),
        sent=0,
        answered=0,
        rtt_ns=None,
    )


def figures_of_link_probe(clos: Clos, outcome: PathOutcome) -> PathFigures:
    """The figures of a link probe."""
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
