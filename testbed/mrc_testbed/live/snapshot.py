"""View of a lab for `top` and `serve`, built from two observations. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from mrc_agents.abi import EvState
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.ledger import Entry
from mrc_testbed.metrics.fault_record import ActiveFault
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.series import EV_STATES, Details, Interval, Latency, Profiles, Reading, summarize
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link
from mrc_testbed.topology.port_selection import port_rates_bps

LinkState = Literal["up", "impaired", "down"]
EventKind = Literal["fault", "link", "ev", "lab"]

_NS_PER_SECOND: Final = 1e9
_OUT_OF_USE: Final = (EvState.ASSUMED_BAD, EvState.DENIED)
"""States worth a line when EVs enter or leave them; turns skipped for a mark are too many to tell."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A lab at one moment, with its faults."""

    reading: Reading  # its counters, with details
    faults: tuple[Entry, ...]  # what is injected, oldest first
    # flaps of a run between two of their outages -> their links
    resting: Mapping[ActiveFault, tuple[str, ...]] = field(default_factory=dict)
    # how often each fault of the run that has outages has begun: id -> count
    outages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LinkView:
    name: str  # of both ports
    plane: int  # its plane
    # down when either end cannot send, impaired when it has a fault otherwise, and between the outages of a
    # flap
    state: LinkState
    load_ratio: float  # of its busier direction, of its rate; without a rate, of the busiest link now
    # up_bps, down_bps: sent away from the hosts and towards them
    up_bps: float
    down_bps: float
    queue_bytes: int  # data that waits at both ends
    # share of the time in which flow control held data, in the direction where it was longer
    held_ratio: float
    dropped: int  # frames lost at both ends within the interval
    faults: tuple[str, ...]  # ids of those on it, from beginning to end
    outages: int = 0  # how often flaps have taken it down so far


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that a fault was selected by."""

    name: str  # its name
    state: LinkState  # down when its links are, impaired otherwise
    faults: tuple[str, ...]  # ids of its faults


@dataclass(frozen=True, slots=True)
class HostView:
    name: str  # its name
    goodput_bps: float  # payload placed in its memory for the first time
    sent_bps: float  # payload of its own that was acknowledged
    retransmits: int  # packets it sent again within the interval
    profiles: tuple[str, ...] = ()  # EV and CC profiles of its QPs, such as "profile 3"


@dataclass(frozen=True, slots=True)
class PlaneView:
    plane: int  # its number
    ev_states: Mapping[str, int]  # EVs of connected QPs by name of their state
    tx_bps: float  # what hosts send into it, headers included
    rtt: Latency | None  # of data packets; None without any
    state: LinkState = "up"  # down when all its links are, impaired when they have a fault otherwise


@dataclass(frozen=True, slots=True)
class FaultView:
    id: str  # its name
    kind: str  # its kind
    detail: str  # what distinguishes it from others of its kind
    places: tuple[str, ...]  # links or nodes
    is_acting: bool  # not between two outages of a flap
    left_ns: int | None  # until it ends by itself; None: until cleared
    is_interactive: bool  # not part of a run
    outages: int = 0  # of a flap, so far; 0 of any other


class Change(NamedTuple):
    """Something that changed: `link`, `ev` or `lab`, and a line about it."""

    kind: EventKind
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A lab over one interval."""

    time_ns: int  # CLOCK_MONOTONIC of its end
    interval_ns: int  # its length
    goodput_bps: float  # of all hosts together
    retransmits: int  # packets sent again
    dropped: Mapping[str, int]  # frames lost, by reason; none that are zero
    rtt: Latency | None  # of data packets, over all planes; None without any
    completion: Latency | None  # of messages; None without any
    # hosts, planes: in order
    hosts: tuple[HostView, ...]
    planes: tuple[PlaneView, ...]
    links: tuple[LinkView, ...]  # by link id
    faults: tuple[FaultView, ...]  # oldest first
    changes: tuple[Change, ...]  # what changed within the interval
    broken_nodes: tuple[NodeView, ...] = ()  # nodes that faults were selected by, in order of names


def build_snapshot(clos: Clos, earlier: Observation, later: Observation) -> Snapshot:
    """Build the view of the interval between two observations.

    A node can write to the maps of its own NIC. Times of which fewer are counted later than earlier are left
    out, and the changes say so.
    """
    start, left_out = _comparable(earlier.reading, later.reading)
    interval = later.reading.since(start)
    hosts = _hosts(interval)
    faults = _faults(later)
    links = _links(clos, interval, _faults_by_link(later, faults))
    return Snapshot(
        time_ns=interval.end_ns,
        interval_ns=interval.duration_ns,
        goodput_bps=interval.goodput_bps,
        retransmits=sum(host.retransmits for host in hosts),
        dropped={reason: count for reason, count in interval.port_drops.items() if count},
        rtt=interval.packet_rtt_overall(),
        completion=summarize(interval.message_completion),
        hosts=hosts,
        planes=_planes(interval, links),
        links=links,
        faults=faults,
        changes=(*_link_changes(clos, start, later.reading), *_ev_changes(interval), *left_out),
        broken_nodes=_broken_nodes(later),
    )


def _comparable(earlier: Reading, later: Reading) -> tuple[Reading, list[Change]]:
    """The earlier reading with histograms that the later ones follow, and a line for each that did not."""
    rtt = tuple(map(_start, earlier.packet_rtt, later.packet_rtt))
    completion = _start(earlier.message_completion, later.message_completion)
    left_out = [
        f"plane {plane}: RTTs"
        for plane, (start, then) in enumerate(zip(rtt, earlier.packet_rtt, strict=True))
        if start is not then
    ]
    if completion is not earlier.message_completion:
        left_out.append("completion times")
    changes = [
        Change("lab", f"{what} of this interval are left out, the count of a host went down")
        for what in left_out
    ]
    return replace(earlier, packet_rtt=rtt, message_completion=completion), changes


def _start(then: Histogram, now: Histogram) -> Histogram:
    return then if now.follows(then) else now


def _bps(count_bytes: int, duration_ns: int) -> float:
    return count_bytes * 8 * _NS_PER_SECOND / duration_ns


def _hosts(interval: Interval) -> tuple[HostView, ...]:
    return tuple(
        HostView(
            name=name,
            goodput_bps=_bps(counts.goodput_bytes, interval.duration_ns),
            sent_bps=_bps(counts.acknowledged_bytes, interval.duration_ns),
            retransmits=counts.retransmits,
            profiles=_profile_names(interval.details.profiles.get(name, frozenset())),
        )
        for name, counts in interval.hosts.items()
    )


def _profile_names(found: Profiles) -> tuple[str, ...]:
    return tuple(
        f"{kind} {number}"
        for at, kind in enumerate(("profile", "CC profile"))
        for number in sorted({pair[at] - 1 for pair in found if pair[at]})
    )


def _planes(interval: Interval, links: Sequence[LinkView]) -> tuple[PlaneView, ...]:
    return tuple(
        PlaneView(
            plane=plane,
            ev_states={state.name: interval.ev_states.get((plane, state), 0) for state in EV_STATES},
            tx_bps=_bps(tx_bytes, interval.duration_ns),
            rtt=summarize(interval.packet_rtt[plane]),
            state=_common_state([link.state for link in links if link.plane == plane]),
        )
        for plane, tx_bytes in enumerate(interval.plane_tx_bytes)
    )


def _common_state(states: Collection[LinkState]) -> LinkState:
    """Down if all links are, impaired if none is without a fault."""
    if "up" in states:
        return "up"
    return "impaired" if "impaired" in states else "down"


def _links(clos: Clos, interval: Interval, faults: Mapping[str, Sequence[FaultView]]) -> tuple[LinkView, ...]:
    details, duration_ns = interval.details, interval.duration_ns
    port_bps = [_bps(sent, duration_ns) for sent in details.tx_bytes]
    busiest_bps = max(port_bps) or 1.0
    full_bps = [rate_bps or busiest_bps for rate_bps in port_rates_bps(clos)]
    views = []
    for link in clos.links():
        ends = lower, upper = link.lower.id, link.upper.id
        own = faults.get(link.name, ())
        views.append(
            LinkView(
                name=link.name,
                plane=link.plane,
                state="down" if not _is_up(details, link) else "impaired" if own else "up",
                load_ratio=min(1.0, max(port_bps[port] / full_bps[port] for port in ends)),
                up_bps=port_bps[lower],
                down_bps=port_bps[upper],
                queue_bytes=sum(details.queue_bytes[port] for port in ends) if details.queue_bytes else 0,
                held_ratio=min(1.0, max(details.held_ns[port] for port in ends) / duration_ns)
                if details.held_ns
                else 0.0,
                dropped=sum(details.dropped[port] for port in ends),
                faults=tuple(fault.id for fault in own),
                outages=sum(fault.outages for fault in own),
            )
        )
    return tuple(views)


def _is_up(details: Details, link: Link) -> bool:
    return details.ports_up[link.lower.id] and details.ports_up[link.upper.id]


def _faults_by_link(seen: Observation, faults: Iterable[FaultView]) -> Mapping[str, list[FaultView]]:
    """The faults on each link: those that act, and flaps between two outages."""
    links = {
        entry.fault.fault_id: entry.fault.links for entry in seen.faults if entry.is_on(seen.reading.time_ns)
    }
    links |= {fault.fault_id: names for fault, names in seen.resting.items()}
    found: defaultdict[str, list[FaultView]] = defaultdict(list)
    for fault in faults:
        for link in links.get(fault.id, ()):
            found[link].append(fault)
    return found


def _broken_nodes(seen: Observation) -> tuple[NodeView, ...]:
    found: defaultdict[str, list[ScheduledFault]] = defaultdict(list)
    for entry in seen.faults:
        if entry.is_on(seen.reading.time_ns):
            for node in entry.fault.nodes:
                found[node].append(entry.fault)
    return tuple(
        NodeView(
            name=name,
            state="down" if any(fault.is_outage for fault in faults) else "impaired",
            faults=tuple(fault.fault_id for fault in faults),
        )
        for name, faults in sorted(found.items())
    )


def _faults(seen: Observation) -> tuple[FaultView, ...]:
    resting = (
        FaultView(
            id=fault.fault_id,
            kind=fault.kind,
            detail="between outages",
            places=links,
            is_acting=False,
            left_ns=None,
            is_interactive=False,
            outages=seen.outages.get(fault.fault_id, 0),
        )
        for fault, links in seen.resting.items()
    )
    return (*(_fault(entry, seen) for entry in seen.faults), *resting)


def _fault(entry: Entry, seen: Observation) -> FaultView:
    fault, now_ns = entry.fault, seen.reading.time_ns
    outages = entry.schedule.outage_count(now_ns) or seen.outages.get(fault.fault_id, 0)
    return FaultView(
        id=fault.fault_id,
        kind=fault.kind,
        detail=fault.detail,
        places=fault.nodes or fault.links,
        is_acting=entry.is_acting(now_ns),
        left_ns=entry.schedule.left_ns(now_ns),
        is_interactive=entry.lease is None,
        outages=outages,
    )


def _link_changes(clos: Clos, earlier: Reading, later: Reading) -> list[Change]:
    states = {link.name: [_is_up(seen.details, link) for seen in (earlier, later)] for link in clos.links()}
    lines = []
    for is_up in (False, True):
        names = [name for name, state in states.items() if state == [not is_up, is_up]]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(Change("link", f"link {'up' if is_up else 'down'}: {', '.join(names[:3])}{more}"))
    return lines


def _ev_changes(interval: Interval) -> list[Change]:
    lines = []
    for (before, after, reason, plane), changed in interval.details.ev_changes.items():
        if changed and (before in _OUT_OF_USE or after in _OUT_OF_USE):
            evs = "1 EV" if changed == 1 else f"{changed:,} EVs"
            text = f"plane {plane}: {evs} {before.name} to {after.name} ({reason.name.lower()})"
            lines.append(Change("ev", text))
    return lines
