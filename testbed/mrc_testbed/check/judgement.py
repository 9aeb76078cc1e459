"""The judgement of a health check: which hosts, pairs, paths and links are slow or dead. Pure."""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal, TypeVar

from mrc_testbed.check.figures import CheckFigures, PairFigures, PathFigures
from mrc_testbed.probing.localisation import Part
from mrc_testbed.shown import format_share, format_time

SLOW_BANDWIDTH: Final = 0.6
"""Share of the median below which a pair is slow: two of three planes or more, which a host has left after a
failure that its paths show anyway, are above it; half of a host's rate is below."""

FINE_BANDWIDTH: Final = 0.8
"""Share of the median from which a pair speaks for both of its hosts; between the two it says nothing, as
equal pairs differ by some tenths on a busy machine."""

SLOW_RTT: Final = 2.0
"""Times the median from which a path is slow: paths of equal length that are idle differ by less."""

FAST_RTT: Final = 1.5
"""Times the median up to which a path speaks for all that it crosses; probes that wait for one another on a
slow link differ by some tenths."""

LOSSY: Final = 0.5
"""Share of its probes that a path must lose to be lossy, in several of them: fewer may be chance."""

LATE: Final = 2.0
"""Times the median from which a host comes late to a barrier, in which all do the same."""

Kind = Literal["dead", "slow", "lossy", "late", "wrong", "suspect"]
Subject = Literal["host", "pair", "path", "link", "switch", "all-reduce"]
State = Literal["good", "dead", "lossy", "slow"]

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A part that explains failures."""

    # the part; several: each explains the same failures, and nothing distinguishes them
    names: tuple[str, ...]
    # places, in the list of failures, of those that it explains and no earlier suspect does
    failures: tuple[int, ...]


def explain(failures: Sequence[Collection[str]], successes: Iterable[Collection[str]]) -> list[Suspect]:
    """Parts that explain *failures*, that which explains most first: all share it, and no success has it.

        fails   {a, b}  {b, c}          b explains both
        works   {a, c}                  a and c cannot be to blame

    Parts are any names: links and nodes of a path, or the two hosts of a pair. The smallest set is as hard to
    find as any set cover; the greedy one is no larger where faults do not overlap. A failure all of whose
    parts are in successes is not explained.
    """
    innocent = {part for parts in successes for part in parts}
    explained_by: dict[str, set[int]] = {}
    for place, parts in enumerate(failures):
        for part in dict.fromkeys(parts):
            if part not in innocent:
                explained_by.setdefault(part, set()).add(place)
    suspects = []
    while explained_by:
        most = max(explained_by.values(), key=len)
        names = tuple(part for part, places in explained_by.items() if places == most)
        suspects.append(Suspect(names, tuple(sorted(most))))
        left = {part: places - most for part, places in explained_by.items()}
        explained_by = {part: places for part, places in left.items() if places}
    return suspects


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be."""

    kind: Kind  # in which way
    subject: Subject  # what kind of thing it is
    names: tuple[str, ...]  # of it; several: one of these, and nobody knows which
    text: str  # the sentence for people, without the kind


def way_states(ways: Sequence[PathFigures], noise_ns: int) -> list[State]:
    """The state of each path or link probe; slow are those slower than most of as many links.

    Args:
        noise_ns: time by which the machine may make an RTT longer.
    """

    def state(way: PathFigures, share: float | None) -> State:
        if share is None:
            return "dead"
        if way.sent - way.answered >= LOSSY * way.sent:
            return "lossy"
        return "slow" if share >= SLOW_RTT else "good"

    return [state(way, share) for way, share in zip(ways, _rtt_shares(ways, noise_ns), strict=True)]


def _rtt_shares(ways: Sequence[PathFigures], noise_ns: int) -> list[float | None]:
    """The RTT of each way, less noise, as a share of the median of those with as many links."""
    usual_ns = _medians((_length(way), way.rtt_ns) for way in ways if way.rtt_ns is not None)
    return [None if way.rtt_ns is None else (way.rtt_ns - noise_ns) / usual_ns[_length(way)] for way in ways]


def bandwidth_shares(
    pairs: Sequence[PairFigures], is_judged: Callable[[PairFigures], bool] = lambda _: True
) -> dict[tuple[str, str], float]:
    """Bandwidth of each pair as a share of the median of those with a way of its length.

    Args:
        pairs: all of them; those without bandwidth have no share.
        is_judged: which have a share, and count for the median.
    """
    known = [
        (pair, pair.bandwidth_bps) for pair in pairs if pair.bandwidth_bps is not None and is_judged(pair)
    ]
    usual_bps = _medians((pair.distance, bandwidth_bps) for pair, bandwidth_bps in known)
    return {
        (pair.source, pair.target): bandwidth_bps / usual_bps[pair.distance] for pair, bandwidth_bps in known
    }


def judge(measured: CheckFigures) -> list[Finding]:
    """All that is not as it should be, hosts first, then what may be to blame, then paths."""
    states = way_states(measured.paths, measured.rtt_noise_ns)
    findings = [
        Finding("dead", "host", (host,), f"host {host}: {why}") for host, why in measured.silent.items()
    ]
    findings += _dead_pairs(measured, states)
    findings += _slow_pairs(measured, states)
    findings += _late_hosts(measured)
    findings += [
        Finding(
            "wrong",
            "pair",
            (pair.source, pair.target),
            f"{pair.source} > {pair.target}: {pair.wrong_bytes:,} bytes arrive changed",
        )
        for pair in measured.pairs
        if pair.wrong_bytes
    ]
    if measured.all_reduce is not None and measured.all_reduce.error is not None:
        text = f"all-reduce does not complete: {measured.all_reduce.error}"
        findings.append(Finding("dead", "all-reduce", ("all-reduce",), text))
    if measured.names_paths:
        findings += _suspects(measured)
    findings += [
        Finding(state, "path", (way.name,), _way_text(way, state))
        for way, state in zip(measured.paths, states, strict=True)
        if state != "good"
    ]
    return findings


def _dead_pairs(measured: CheckFigures, states: Sequence[State]) -> list[Finding]:
    """Hosts that nobody reaches, and pairs none of whose paths lives or whose WRITEs do not arrive."""
    alive: dict[tuple[str, str], bool] = {}
    for way, state in zip(measured.paths, states, strict=True):
        pair = (way.source, way.target)
        alive[pair] = alive.get(pair, False) or state != "dead"
    alive |= {(pair.source, pair.target): pair.bandwidth_bps is not None for pair in measured.pairs}
    dead = [pair for pair, is_alive in alive.items() if not is_alive]
    suspects = explain(dead, (pair for pair, is_alive in alive.items() if is_alive))
    hosts = {suspect.names[0]: suspect.failures for suspect in suspects if len(suspect.names) == 1}
    explained = {place for places in hosts.values() for place in places}
    return [
        *(
            Finding("dead", "host", (host,), f"host {host}: none of its {len(places)} pairs works")
            for host, places in hosts.items()
        ),
        *(
            Finding("dead", "pair", pair, f"{pair[0]} > {pair[1]}: nothing arrives")
            for place, pair in enumerate(dead)
            if place not in explained
        ),
    ]


def _slow_pairs(measured: CheckFigures, states: Sequence[State]) -> list[Finding]:
    """Hosts that send or receive slowly, and slow pairs that no host explains.

    A pair with a bad path is not judged: recovery takes its time, and its paths are named. Nor is a single
    one whose paths cross what loses link probes.
    """
    bad = {
        (way.source, way.target)
        for way, state in zip(measured.paths, states, strict=True)
        if state in {"dead", "lossy"}
    }
    shares = bandwidth_shares(measured.pairs, lambda pair: (pair.source, pair.target) not in bad)
    slow = [pair for pair, share in shares.items() if share < SLOW_BANDWIDTH]
    fine = [pair for pair, share in shares.items() if share >= FINE_BANDWIDTH]
    roles = {  # of a single pair, nobody knows which of its hosts is slow
        suspect.names[0]: suspect.failures
        for suspect in explain([_roles(pair) for pair in slow], map(_roles, fine))
        if len(suspect.names) == 1 and len(suspect.failures) > 1
    }
    losing = measured.diagnosis.suspect_names
    losers = {(way.source, way.target) for way in measured.paths if not losing.isdisjoint(way.links)}
    explained = {place for places in roles.values() for place in places}
    explained |= {place for place, pair in enumerate(slow) if pair in losers}

    def found(subject: Subject, names: tuple[str, ...], text: str, places: Iterable[int]) -> Finding:
        share = format_share(median(shares[slow[place]] for place in places), 2)
        return Finding("slow", subject, names, f"{text} at {share} of the median")

    return [
        *(found("host", (role.split()[0],), role, places) for role, places in roles.items()),
        *(
            found("pair", pair, " > ".join(pair), [place])
            for place, pair in enumerate(slow)
            if place not in explained
        ),
    ]


def _roles(pair: tuple[str, str]) -> tuple[str, str]:
    return f"{pair[0]} sends", f"{pair[1]} receives"


def _late_hosts(measured: CheckFigures) -> list[Finding]:
    if len(measured.barrier_ns) < 3:
        return []  # of two, nobody knows which is late
    usual_ns = median(measured.barrier_ns.values())
    return [
        Finding(
            "late",
            "host",
            (host,),
            f"{host} comes to barriers after {format_time(took_ns)}, the median host {format_time(usual_ns)}",
        )
        for host, took_ns in measured.barrier_ns.items()
        if took_ns >= LATE * usual_ns + measured.barrier_noise_ns
    ]


def _suspects(measured: CheckFigures) -> list[Finding]:
    """Links, switches and hosts that lose link probes, then those that explain other dead and slow paths."""
    diagnosis = measured.diagnosis
    losing = diagnosis.suspect_names
    dead: list[PathFigures] = []
    lives: list[PathFigures] = []
    slow: list[PathFigures] = []
    fast: list[PathFigures] = []
    for ways in (measured.paths, measured.link_probes):
        shares = _rtt_shares(ways, measured.rtt_noise_ns)
        for way, state, share in zip(ways, way_states(ways, measured.rtt_noise_ns), shares, strict=True):
            if state not in {"dead", "lossy"}:
                lives.append(way)
            elif losing.isdisjoint(way.links):
                dead.append(way)
            if state == "slow":
                slow.append(way)
            elif share is not None and share <= FAST_RTT:
                fast.append(way)
    return [
        *(_losing(part, diagnosis.describe(part)) for part in diagnosis.parts),
        *(_suspicion(suspect, dead, "dead", "works") for suspect in explain(_parts(dead), _parts(lives))),
        *(_suspicion(suspect, slow, "slow", "is fast") for suspect in explain(_parts(slow), _parts(fast))),
    ]


def _losing(part: Part, losses: str) -> Finding:
    subject = _subject(part.names[0])
    return Finding("suspect", subject, part.names, f"{subject} {' or '.join(part.names)}: {losses}")


def _parts(ways: Iterable[PathFigures]) -> list[tuple[str, ...]]:
    return [(*way.links, *way.nodes) for way in ways]


def _suspicion(suspect: Suspect, failed: Sequence[PathFigures], how: str, other: str) -> Finding:
    paths = [way for way in failed if way.is_path]
    crossing = sum({*suspect.names} <= {*way.links, *way.nodes} for way in paths)
    subject = _subject(suspect.names[0])
    text = (
        f"{subject} {' or '.join(suspect.names)} ({crossing} of {len(paths)} {how} paths cross it, "
        f"no path that {other} does)"
    )
    return Finding("suspect", subject, suspect.names, text)


def _subject(name: str) -> Literal["host", "link", "switch"]:
    if "~" in name:
        return "link"
    return "host" if name.startswith("h") else "switch"


def _way_text(way: PathFigures, state: State) -> str:
    match state:
        case "lossy":
            return f"path {way.name} ({way.answered} of {way.sent} probes answered)"
        case "slow" if way.rtt_ns is not None:
            return f"path {way.name} ({format_time(way.rtt_ns)})"
    return f"path {way.name}"


def _length(way: PathFigures) -> tuple[bool, int]:
    return way.is_path, len(way.links)


def _medians(values: Iterable[tuple[_Key, float]]) -> dict[_Key, float]:
    found: dict[_Key, list[float]] = {}
    for key, value in values:
        found.setdefault(key, []).append(value)
    return {key: median(each) for key, each in found.items()}
