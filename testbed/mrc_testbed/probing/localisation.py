"""Which links lose packets, inferred from which probes came back. Pure.

A probe to a T0 crosses only its host's link, so its losses are that link's. A probe to a T1 crosses an uplink
as well: what it loses beyond what the host's link explains is the uplink's. Probes of hosts whose own link is
sound are believed first; through a link that lets next to nothing pass, nothing is seen at all.

    lost on the way to the T1   <- all of it
    lost on the way to the T0   <- explained by the host's link
                                   the rest is the uplink's, if it is more than chance

When all links of a switch, or of a host, lose most of their probes, it is the switch or the host; then the
links behind a T0, which nobody can see any more, are taken to be gone as well.

Source: docs/guide/probing.md; the paper, section 4 (Clustermapper).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_outcome import PathOutcome

LOST_MIN: Final = 3
"""Probes that must be lost before a link is suspected."""

LOSS_MIN: Final = 0.005
"""Share of its probes, there and back, that a link must lose before it is suspected."""

_SIGMAS: Final = 4.0
_SOUND_LOSS: Final = 0.02
_BLIND_LOSS: Final = 0.9
_NODE_LOSS: Final = 0.5
_NODE_LINKS_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """The probes' view of one link."""

    probes: int = 0  # that crossed it and say something about it; 0: nothing is known
    loss: float | None = None  # share of them that it lost, there and back together; None if nothing is known
    is_suspect: bool = False  # whether that is more than chance


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The probes' view of a fabric over an interval."""

    health: Mapping[int, LinkHealth]  # by link id, for every link that was to be probed
    nodes: tuple[str, ...]  # names of switches and hosts that are suspected as a whole
    suspects: frozenset[int]  # ids of the links that are: on their own account, or because a node is


def localise(clos: Clos, outcomes: Iterable[PathOutcome]) -> Diagnosis:
    """The links and nodes of a fabric that lose probes."""
    to_t0: dict[int, PathOutcome] = {}
    to_t1: dict[int, list[PathOutcome]] = {}
    for outcome in outcomes:
        if outcome.path.uplink is None:
            to_t0[outcome.path.links[0]] = outcome
        else:
            to_t1.setdefault(outcome.path.links[1], []).append(outcome)
    health = {link: _host_link(outcome) for link, outcome in to_t0.items()}
    health |= {link: _uplink(probes, health) for link, probes in to_t1.items()}
    found = frozenset(link for link, state in health.items() if state.is_suspect)
    nodes = _suspected_nodes(clos, health)
    behind = frozenset(port.link_id for name in nodes for port in clos.ports_of(clos.node(name)))
    return Diagnosis(health, nodes, found | behind)


def _host_link(outcome: PathOutcome) -> LinkHealth:
    probes = outcome.returned + outcome.lost
    if not probes:
        return LinkHealth()
    loss = outcome.lost / probes
    return LinkHealth(probes, loss, outcome.lost >= LOST_MIN and loss >= LOSS_MIN)


def _uplink(probes: Sequence[PathOutcome], health: Mapping[int, LinkHealth]) -> LinkHealth:
    """An uplink's health from the probes of several hosts, each behind a link of its own."""

    def host_loss(outcome: PathOutcome) -> float:
        loss = health[outcome.path.links[0]].loss if outcome.path.links[0] in health else None
        return 1.0 if loss is None else loss

    seeing = [outcome for outcome in probes if host_loss(outcome) < _BLIND_LOSS]
    sound = [outcome for outcome in seeing if host_loss(outcome) < _SOUND_LOSS]
    chosen = sound or seeing
    sent = sum(outcome.returned + outcome.lost for outcome in chosen)
    if not sent:
        return LinkHealth()
    lost = sum(outcome.lost for outcome in chosen)
    explained = sum((outcome.returned + outcome.lost) * host_loss(outcome) for outcome in chosen)
    reached = sent - explained
    loss = max(0.0, lost - explained) / reached
    # what the host's link explains is itself an estimate from as many probes: its chance counts twice
    chance = _SIGMAS * sqrt(2 * explained)
    is_suspect = lost - explained >= max(LOST_MIN, chance) and loss >= LOSS_MIN
    return LinkHealth(round(reached), loss, is_suspect)


def _suspected_nodes(clos: Clos, health: Mapping[int, LinkHealth]) -> tuple[str, ...]:
    """T1s all of whose links are mostly lost, T0s all of whose host links are, and hosts likewise."""
    if not any(state.is_suspect for state in health.values()):
        return ()
    t1s: dict[str, list[int]] = {}
    t0s: dict[str, list[int]] = {}
    hosts: dict[str, list[int]] = {}
    for link_id in health:
        link = clos.link(link_id)
        if link.is_host_link:
            hosts.setdefault(link.lower.node.name, []).append(link_id)
            t0s.setdefault(link.upper.node.name, []).append(link_id)
        else:
            t1s.setdefault(link.upper.node.name, []).append(link_id)

    def is_lost(link_id: int) -> bool:
        loss = health[link_id].loss
        return health[link_id].is_suspect and loss is not None and loss >= _NODE_LOSS

    switches = _all_lost({**t0s, **t1s}, is_lost)
    explained = {link_id for name in switches for link_id in (*t0s.get(name, ()), *t1s.get(name, ()))}
    # a host is blamed for what no switch explains
    return (*switches, *_all_lost(hosts, lambda link_id: link_id not in explained and is_lost(link_id)))


def _all_lost(links_of: Mapping[str, Sequence[int]], is_lost: Callable[[int], bool]) -> tuple[str, ...]:
    return tuple(
        name
        for name, links in sorted(links_of.items())
        if len(links) >= _NODE_LINKS_MIN and all(is_lost(link_id) for link_id in links)
    )
