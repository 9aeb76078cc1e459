"""View of a lab for `top` and `serve`, built from two observations. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from mrc_agents.abi import EvReason, EvState
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.ledger import Entry
from mrc_testbed.metrics.fault_record import ActiveFault
from mrc_testbed.metrics.series import EV_STATES, Interval, Latency, Reading, summarize
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import port_rates_bps

LinkState = Literal["up", "impaired", "down"]
EventKind = Literal["fault", "link", "ev", "lab"]

_NS_PER_SECOND: Final = 1e9
_OUT_OF_USE: Final = (EvState.ASSUMED_BAD, EvState.DENIED)
"""States worth a line when EVs enter or leave them; turns skipped for a mark are too many to tell."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A lab at one moment, link by link."""

    reading: Reading  # its counters
    ports_up: tuple[bool, ...]  # whether each port can send: (port_count,)
    tx_bytes: tuple[int, ...]  # sent by each port since the lab was made: (port_count,)
    dropped: tuple[int, ...]  # frames that each port has lost since then: (port_count,)
    queue_bytes: tuple[int, ...]  # data that waits at each port: (port_count,); empty in an unshaped lab
    # EVs of all hosts that changed their state: (before, after, reason, plane) -> count
    transitions: Mapping[tuple[EvState, EvState, EvReason, int], int]
    faults: tuple[Entry, ...]  # what is injected, oldest first
    # flaps of a run between two of their outages -> their links
    resting: Mapping[ActiveFault, tuple[str, ...]] = field(default_factory=dict)
    # how long flow control has held data at each port: (port_count,); empty without it
    held_ns: tuple[int, ...] = ()
    # how often each fault of the run that has outages has begun: id -> count
    outages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link."""

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
    """A host."""

    name: str  # its name
    goodput_bps: float  # payload placed in its memory for the first time
    sent_bps: float  # payload of its own that was acknowledged
    retransmits: int  # packets it sent again within the interval


@dataclass(frozen=True, slots=True)
class PlaneView:
    """A plane."""

    plane: int  # its number
    ev_states: Mapping[str, int]  # EVs of connected QPs by name of their state
    tx_bps: float  # what hosts send into it, headers included
    rtt: Latency | None  # of data packets; None without any
    state: LinkState = "up"  # down when all its links are, impaired when they have a fault otherwise


@dataclass(frozen=True, slots=True)
class FaultView:
    """A fault that is injected."""

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
    faults = _faults(later, interval.end_ns)
    links = _links(clos, earlier, later, faults)
    return Snapshot(
        time_ns=interval.end_ns,
        interval_ns=interval.end_ns - interval.start_ns,
        goodput_bps=interval.goodput_bps,
        retransmits=sum(host.retransmits for host in hosts),
        dropped={reason: count for reason, count in interval.port_drops.items() if count},
        rtt=interval.packet_rtt_overall(),
        completion=summarize(interval.message_completion),
        hosts=hosts,
        planes=_planes(interval, links),
        links=links,
        faults=faults,
        changes=(*_link_changes(clos, earlier, later), *_ev_changes(earlier, later), *left_out),
        broken_nodes=_broken_nodes(later, interval.end_ns),
    )


def _comparable(earlier: Reading, later: Reading) -> tuple[Reading, list[Change]]:
    """The earlier reading with histograms that the later ones follow, and a line for each that did not."""
    left_out = [
        Change("lab", f"plane {plane}: RTTs of this interval are left out, the count of a host went down")
        for plane, (then, now) in enumerate(zip(earlier.packet_rtt, later.packet_rtt, strict=True))
        if not now.follows(then)
    ]
    if not later.message_completion.follows(earlier.message_completion):
        left_out.append(
            Change("lab", "completion times of this interval are left out, the count of a host went down")
        )
    return replace(
        earlier,
        packet_rtt=tuple(
            then if now.follows(then) else now
            for then, now in zip(earlier.packet_rtt, later.packet_rtt, strict=True)
        ),
        message_completion=later.message_completion
        if not later.message_completion.follows(earlier.message_completion)
        else earlier.message_completion,
    ), left_out


def _bps(count_bytes: int, duration_ns: int) -> float:
    return count_bytes * 8 * _NS_PER_SECOND / duration_ns


def _hosts(interval: Interval) -> tuple[HostView, ...]:
    duration_ns = interval.end_ns - interval.start_ns
    return tuple(
        HostView(
            name=name,
            goodput_bps=_bps(counts.goodput_bytes, duration_ns),
            sent_bps=_bps(counts.acknowledged_bytes, duration_ns),
            retransmits=counts.retransmits,
        )
        for name, counts in interval.hosts.items()
    )


def _planes(interval: Interval, links: Sequence[LinkView]) -> tuple[PlaneView, ...]:
    duration_ns = interval.end_ns - interval.start_ns
    return tuple(
        PlaneView(
            plane=plane,
            ev_states={state.name: interval.ev_states.get((plane, state), 0) for state in EV_STATES},
            tx_bps=_bps(tx_bytes, duration_ns),
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


def _links(
    clos: Clos, earlier: Observation, later: Observation, faults: Iterable[FaultView]
) -> tuple[LinkView, ...]:
    duration_ns = later.reading.time_ns - earlier.reading.time_ns
    port_bps = [
        _bps(now - then, duration_ns) for now, then in zip(later.tx_bytes, earlier.tx_bytes, strict=True)
    ]
    busiest_bps = max(port_bps) or 1.0
    full_bps = [rate_bps or busiest_bps for rate_bps in port_rates_bps(clos)]
    on_link = _faults_by_link(later, faults)
    views = []
    for link in clos.links():
        lower, upper = link.lower.id, link.upper.id
        own = on_link[link.name]
        views.append(
            LinkView(
                name=link.name,
                plane=link.plane,
                state=_link_state(later, lower, upper, is_faulted=bool(own)),
                load_ratio=min(1.0, max(port_bps[port] / full_bps[port] for port in (lower, upper))),
                up_bps=port_bps[lower],
                down_bps=port_bps[upper],
                queue_bytes=later.queue_bytes[lower] + later.queue_bytes[upper] if later.queue_bytes else 0,
                held_ratio=max(_held_ratio(earlier, later, port) for port in (lower, upper)),
                dropped=sum(later.dropped[port] - earlier.dropped[port] for port in (lower, upper)),
                faults=tuple(fault.id for fault in own),
                outages=sum(fault.outages for fault in own),
            )
        )
    return tuple(views)


def _held_ratio(earlier: Observation, later: Observation, port_id: int) -> float:
    if not (earlier.held_ns and later.held_ns):
        return 0.0
    duration_ns = later.reading.time_ns - earlier.reading.time_ns
    return min(1.0, (later.held_ns[port_id] - earlier.held_ns[port_id]) / duration_ns)


def _link_state(seen: Observation, lower: int, upper: int, *, is_faulted: bool) -> LinkState:
    if not (seen.ports_up[lower] and seen.ports_up[upper]):
        return "down"
    return "impaired" if is_faulted else "up"


def _faults_by_link(seen: Observation, faults: Iterable[FaultView]) -> defaultdict[str, list[FaultView]]:
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


def _broken_nodes(seen: Observation, now_ns: int) -> tuple[NodeView, ...]:
    found: defaultdict[str, list[ScheduledFault]] = defaultdict(list)
    for entry in seen.faults:
        if entry.is_on(now_ns):
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


def _faults(seen: Observation, now_ns: int) -> tuple[FaultView, ...]:
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
    return (*(_fault(entry, seen, now_ns) for entry in seen.faults), *resting)


def _fault(entry: Entry, seen: Observation, now_ns: int) -> FaultView:
    fault = entry.fault
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


def _link_changes(clos: Clos, earlier: Observation, later: Observation) -> list[Change]:
    changed: dict[bool, list[str]] = {False: [], True: []}
    for link in clos.links():
        before, after = (
            seen.ports_up[link.lower.id] and seen.ports_up[link.upper.id] for seen in (earlier, later)
        )
        if before != after:
            changed[after].append(link.name)
    lines = []
    for is_up, names in changed.items():
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(Change("link", f"link {'up' if is_up else 'down'}: {', '.join(names[:3])}{more}"))
    return lines


def _ev_changes(earlier: Observation, later: Observation) -> list[Change]:
    lines = []
    for key, count in later.transitions.items():
        before, after, reason, plane = key
        changed = count - earlier.transitions.get(key, 0)
        if changed and (before in _OUT_OF_USE or after in _OUT_OF_USE):
            evs = "1 EV" if changed == 1 else f"{changed:,} EVs"
            text = f"plane {plane}: {evs} {before.name} to {after.name} ({reason.name.lower()})"
            lines.append(Change("ev", text))
    return lines
