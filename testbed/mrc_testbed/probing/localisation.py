"""Which links and nodes lose packets, inferred from which probes came back. Pure.

A probe to a T0 crosses its host's link, there and back; a probe to a T1 an uplink as well, and a probe to a
T2 one of the T1. A *part* is a link, or all links of a switch or host; the hypothesis about a part is that
each of its links loses the same share of what crosses it. Parts are found one after the other, that which
makes the losses likeliest first:

    h0 > T0         0 of 400 lost       the T1 loses 7 %  explains both; that would be two faults
    h0 > T0 > T1   28 of 400            of links. The link of h0 does not: its probes to the T0
    h4 > T0 > T1   31 of 400            came back

A part counts if it makes the losses more likely by more than chance does, and a node if no set of its links
explains them as well. Parts that explain the same losses about as well are named together, with "or". Nothing
is seen through a link that lets nothing pass.

Source: docs/guide/probing.md; the paper, section 4 (Clustermapper).
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import exp, log
from typing import Final, Self

from mrc_testbed.shown import format_share
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import PathOutcome, since

WINDOW_NS: Final = 1_000_000_000
"""A diagnosis is about the probes judged within this time: long enough to see a link that loses some."""

LOST_MIN: Final = 3
"""Probes that must be lost on the paths of a part before it is suspected."""

LOSS_MIN: Final = 0.002
"""Share of its probes, there and back, that a link must lose before it is suspected."""

_CHANCE: Final = 8.0
"""Log-likelihood that a part must add: chance does so in one diagnosis of some thousands."""

_TIE: Final = 3.0
"""Difference of log-likelihood up to which two parts explain losses equally well: a ratio of 20."""

_CONTRADICTION: Final = 14.0
"""Log-likelihood from which a path that loses too little refutes a part: a ratio of a million."""

_NOISE: Final = 2e-4
"""Share of probes that sound paths may lose."""

_NODE_LINKS_MIN: Final = 2
_SOUND_LOSS: Final = 0.02
_BLIND_LOSS: Final = 0.9
_STEPS: Final = 24
_GOLDEN: Final = (5**0.5 - 1) / 2
_NEVER: Final = 1e-12


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """The probes' view of one link."""

    probes: int = 0  # that crossed it and say something about it; 0: nothing is known
    loss: float | None = None  # share of them that it lost, there and back together; None if nothing is known


@dataclass(frozen=True, slots=True)
class Part:
    """A link, switch or host that loses packets."""

    # its name; several: each explains the losses about as well, the likeliest first
    names: tuple[str, ...]
    is_link: bool  # whether the first is a link, rather than a node
    links: Mapping[int, str]  # the links of the first: id -> name


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The probes' view of a fabric over an interval."""

    health: Mapping[int, LinkHealth]  # by link id, for every link that was to be probed
    parts: tuple[Part, ...]  # that lose packets, the likeliest first

    @property
    def suspects(self) -> frozenset[int]:
        """The ids of the links that lose packets: on their own account, or because a node does."""
        return frozenset(chain.from_iterable(part.links for part in self.parts))

    @property
    def suspect_names(self) -> frozenset[str]:
        """The names of the same links."""
        return frozenset(chain.from_iterable(part.links.values() for part in self.parts))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of switches and hosts that are suspected as a whole."""
        return tuple(sorted(part.names[0] for part in self.parts if not part.is_link))

    def describe(self, part: Part) -> str:
        """The losses of a part, and the most of what no part explains, for people."""
        inside = [loss for link in part.links if (loss := self._loss(link)) is not None]
        outside = [
            loss for link in self.health.keys() - self.suspects if (loss := self._loss(link)) is not None
        ]
        share = format_share.range(*sorted({min(inside, default=0), max(inside, default=0)}))
        others = (
            f"all others at most {format_share(max(outside), 2)}" if any(outside) else "no other loses any"
        )
        return f"{'it loses' if part.is_link else 'its links lose'} {share} of probes, {others}"

    def _loss(self, link: int) -> float | None:
        return self.health[link].loss if link in self.health else None


def localise(clos: Clos, outcomes: Sequence[PathOutcome]) -> Diagnosis:
    """The links and nodes of a fabric that lose probes."""
    farthest: dict[int, list[PathOutcome]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: len(outcome.path.links)):
        farthest.setdefault(outcome.path.links[-1], []).append(outcome)
    health: dict[int, LinkHealth] = {}
    for link, probes in farthest.items():
        health[link] = _health(probes, health)
    return Diagnosis(health, tuple(_Search.begun(outcomes).parts(_candidates(clos, health))))


def _health(probes: Sequence[PathOutcome], health: Mapping[int, LinkHealth]) -> LinkHealth:
    """The health of the farthest link of *probes*, from those whose other links lose least."""

    def loss_before(outcome: PathOutcome) -> float:
        loss = 0.0
        for link in outcome.path.links[:-1]:
            of_link = health[link].loss if link in health else None
            loss += (1 - loss) * (1.0 if of_link is None else of_link)
        return loss

    limit = min(_BLIND_LOSS, max(_SOUND_LOSS, 2 * min(map(loss_before, probes))))
    chosen = [each for each in probes if loss_before(each) < limit]
    sent = sum(outcome.returned + outcome.lost for outcome in chosen)
    if not sent:
        return LinkHealth()
    explained = sum((outcome.returned + outcome.lost) * loss_before(outcome) for outcome in chosen)
    reached = sent - explained
    return LinkHealth(round(reached), max(0.0, sum(each.lost for each in chosen) - explained) / reached)


def _candidates(clos: Clos, health: Mapping[int, LinkHealth]) -> list[Part]:
    """Every part that probes may speak about."""
    names = {link: clos.link(link).name for link in health}
    nodes: dict[str, set[int]] = {}
    for link_id in health:
        link = clos.link(link_id)
        for port in (link.lower, link.upper):
            nodes.setdefault(port.node.name, set()).add(link_id)
    return [
        *(Part((name,), True, {link: name}) for link, name in names.items()),
        *(
            Part((node,), False, {link: names[link] for link in sorted(links)})
            for node, links in nodes.items()
            if len(links) >= _NODE_LINKS_MIN
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Probed:
    links: tuple[int, ...]  # ids of those that it crosses
    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class _Fit:
    """A part as the explanation of losses."""

    part: Part
    loss: float  # share that each of its links loses
    gain: float  # log-likelihood that it adds


class _Search:
    """The search for parts that explain the losses of paths.

    Args:
        usual: share of its probes that gets through each path where no part is broken.
    """

    def __init__(self, paths: Sequence[_Probed], usual: Sequence[float]) -> None:
        self._paths = paths
        self._usual = usual
        self._is_deep = any(len(path.links) > 2 for path in paths)  # several cross the same two links
        self._passing = list(usual)  # share of its probes that gets through the parts found so far, by path
        self._crossing: dict[int, list[int]] = {}
        for place, path in enumerate(paths):
            for link in path.links:
                self._crossing.setdefault(link, []).append(place)

    @classmethod
    def begun(cls, outcomes: Iterable[PathOutcome]) -> Self:
        """A search in which every path loses as little as the best of them, or noise."""
        judged = (_Probed(each.path.links, each.returned + each.lost, each.lost) for each in outcomes)
        paths = [path for path in judged if path.sent]
        usual = max(_NOISE, min((path.lost / path.sent for path in paths), default=0))
        return cls(paths, [1 - usual] * len(paths))

    def parts(self, candidates: Sequence[Part]) -> Iterator[Part]:
        """Parts that explain the losses, the likeliest first."""
        for fit, equals in self.fits(candidates):
            yield Part((*fit.part.names, *equals), fit.part.is_link, fit.part.links)

    def fits(self, candidates: Sequence[Part]) -> list[tuple[_Fit, list[str]]]:
        """The fits that are accepted one after the other, each with the names of parts as likely."""
        left, accepted, equals = list(candidates), list[_Fit](), list[list[str]]()
        while True:
            fits = [fit for part in left if (fit := self._fit(part)) is not None]
            fits.sort(key=lambda fit: (-fit.gain, not fit.part.is_link, fit.part.names))
            chosen = next((fit for fit in fits if self._surplus(fit) >= 0), None)
            if chosen is None:
                return list(zip(accepted, equals, strict=True))
            others = [fit for fit in fits if fit is not chosen and self._is_equal(fit, chosen)]
            accepted.append(chosen)
            equals.append([name for fit in others for name in fit.part.names])
            self._settle(accepted)
            left = [part for part in left if not part.links.keys() <= chosen.part.links.keys()]

    def _settle(self, fits: list[_Fit]) -> None:
        """Fit each part once more to what the others leave: the first took what others explain now."""
        for place, fit in enumerate(fits):
            self._let_through([*fits[:place], *fits[place + 1 :]])
            fits[place] = replace(fit, loss=_best(self._likelihood(fit.part)))
        self._let_through(fits)

    def _let_through(self, fits: Iterable[_Fit]) -> None:
        self._passing = list(self._usual)
        for fit in fits:
            for place, crossed in self._crossed(fit.part.links):
                self._passing[place] *= (1 - fit.loss) ** crossed

    def _surplus(self, fit: _Fit) -> float:
        """The log-likelihood by which a part is better than its links, each a part of its own."""
        if fit.part.is_link:
            return 0.0
        places = [place for place, _ in self._crossed(fit.part.links)]
        inside = _Search([self._paths[place] for place in places], [self._passing[place] for place in places])
        links = [Part((name,), True, {link: name}) for link, name in fit.part.links.items()]
        return fit.gain - _CHANCE - sum(found.gain - _CHANCE for found, _ in inside.fits(links))

    def _is_equal(self, fit: _Fit, chosen: _Fit) -> bool:
        """Return True if a part explains what *chosen* does, about as well."""
        is_near = chosen.gain - fit.gain <= _TIE and fit.part.links.keys() & chosen.part.links.keys()
        return bool(is_near) and self._surplus(fit) >= -_TIE

    def _crossed(self, links: Iterable[int]) -> list[tuple[int, int]]:
        """Places of the paths that cross any of some links, with how many of them."""
        return list(Counter(chain.from_iterable(self._crossing.get(link, ()) for link in links)).items())

    def _likelihood(self, part: Part) -> Callable[[float], float]:
        """The log-likelihood of the losses on its paths, by the share that each link of *part* loses."""
        paths = [(self._paths[at], self._passing[at], crossed) for at, crossed in self._crossed(part.links)]
        return lambda loss: sum(
            _log_likelihood(path, 1 - passing * (1 - loss) ** crossed) for path, passing, crossed in paths
        )

    def _fit(self, part: Part) -> _Fit | None:
        """The best share of loss of a part; None: it explains nothing, or paths refute it."""
        paths = [(self._paths[at], self._passing[at], count) for at, count in self._crossed(part.links)]
        lost = sum(path.lost for path, _, _ in paths)
        if lost < LOST_MIN or lost <= sum(path.sent * (1 - passing) for path, passing, _ in paths):
            return None
        likelihood = self._likelihood(part)
        loss = _best(likelihood)
        if part.is_link and self._is_deep and _refuted(paths, loss):
            # the link loses what its best path does: what others lose more, other links on them lose
            least = (
                1 - (path.sent - path.lost) / (path.sent * passing) for path, passing, _ in paths if passing
            )
            loss = min(least, default=0.0)
        gain = likelihood(loss) - likelihood(0)
        if gain < _CHANCE or loss < LOSS_MIN or _refuted(paths, loss):
            return None
        return _Fit(part, loss, gain)


def _log_likelihood(path: _Probed, loss: float) -> float:
    return path.lost * log(max(loss, _NEVER)) + (path.sent - path.lost) * log(max(1 - loss, _NEVER))


def _is_refuted(path: _Probed, loss: float) -> bool:
    """Return True if a path has lost far less than *loss* of its probes."""
    seen = path.lost / path.sent
    return seen < loss and _log_likelihood(path, seen) - _log_likelihood(path, loss) > _CONTRADICTION


def _refuted(paths: Iterable[tuple[_Probed, float, int]], loss: float) -> bool:
    return any(_is_refuted(path, 1 - passing * (1 - loss) ** count) for path, passing, count in paths)


def _best(likelihood: Callable[[float], float]) -> float:
    """The share at which a function is greatest, by golden sections of its logarithm."""
    low, high = log(LOSS_MIN / 4), 0.0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = likelihood(exp(left)), likelihood(exp(right))
    for _ in range(_STEPS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = likelihood(exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = likelihood(exp(right))
    return exp(max((low, left, right, high), key=lambda share: likelihood(exp(share))))


class LinkWatch:
    """Takes counts as they are read, and says what those of the last WINDOW_NS mean."""

    def __init__(self, clos: Clos) -> None:
        self._clos = clos
        self._counts: deque[tuple[int, Sequence[PathOutcome]]] = deque()

    def add(self, time_ns: int, counts: Sequence[PathOutcome]) -> Diagnosis:
        """The diagnosis of the probes judged until *time_ns*; empty for the first counts."""
        self._counts.append((time_ns, counts))
        while len(self._counts) > 1 and self._counts[1][0] <= time_ns - WINDOW_NS:
            self._counts.popleft()
        return localise(self._clos, since(counts, self._counts[0][1]))
