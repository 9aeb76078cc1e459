"""Times in which the fabric's users noticed, avoided and outlived a fault: from event times alone. Pure.

    applied          first EV leaves      last packet lost     cleared        last of those EVs GOOD again
       |---- detect ------|                     |                 |                    |
       |---------------- avoid ----------------|                 |                    |
                                                                  |----- restore ------|

Every time starts at the instant *before* the injector touched the first port, so none comes out too good.
An EV counts if a link of the fault is on its path; its acknowledgements cross the same links. A NIC port that
lost its carrier counts as an EV does. A fault that loses no packet (a delay, say) has nothing to be avoided.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.scenario.measure.event import LEFT_STATES, EvTransition, NicEvent, PortTransition
from mrc_testbed.scenario.measure.recording import Occurrence, Recording
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.resolve import resolve_topology

_Key = tuple[str, int, int] | tuple[str, int]
"""(host, QP number, entropy) of an EV, (host, plane) of a NIC port."""


@dataclass(frozen=True, slots=True)
class RecoveryPhase:
    """One of the three times."""

    longest_ns: int | None  # of all occurrences; None when there is no value, or not for each of them
    reason: str = ""  # why there is none, or what to know about it; empty when nothing


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery from one fault."""

    fault_id: Annotated[str, Field(alias="id")]  # its id
    occurrence_count: Annotated[int, Field(alias="occurrences")]  # how often it really was applied
    lost_packets: int  # packets it took, over all occurrences
    left_evs: int  # EVs that left a path it hit, each counted once per occurrence
    detect: RecoveryPhase  # time to detect
    avoid: RecoveryPhase  # time to last drop
    restore: RecoveryPhase  # recovery time

    @property
    def phases(self) -> tuple[RecoveryPhase, RecoveryPhase, RecoveryPhase]:
        """The three, in order."""
        return self.detect, self.avoid, self.restore


_MISDATED: Final = RecoveryPhase(None, "the kernel dates packets that it took outside of its time")


def measure_recovery(recording: Recording, fault: ScheduledFault) -> Recovery:
    occurrences = recording.occurrences(fault.fault_id)
    if not occurrences:
        never = RecoveryPhase(None, "the fault was never applied")
        return Recovery(fault.fault_id, 0, 0, 0, never, never, never)
    lost = sum(occurrence.cleared.lost_packets for occurrence in occurrences if occurrence.cleared)
    if any(occurrence.is_misdated for occurrence in occurrences):
        return Recovery(fault.fault_id, len(occurrences), lost, 0, _MISDATED, _MISDATED, _MISDATED)
    clos = resolve_topology(recording.plan.topology)
    concerned = _Concerned(clos, fault)
    events = list(concerned.those_of(recording.nic_events))
    losing = fault.is_losing
    ends_ns = [*(later.applied.before_ns for later in occurrences[1:]), _horizon_ns(recording)]
    detects: list[int | None] = []
    avoids: list[int | None] = []
    restores: list[int | None] = []
    left_evs = 0
    for occurrence, next_ns in zip(occurrences, ends_ns, strict=True):
        left_by_ns = _left_by_ns(recording, occurrence, next_ns, is_losing=losing)
        own = [event for event in events if occurrence.applied.before_ns <= event.time_ns < next_ns]
        left = [event for event in own if _has_left(event) and event.time_ns < left_by_ns]
        left_evs += len({_key(event) for event in left if isinstance(event, EvTransition)})
        noticed = [event.time_ns for event in left]
        if noticed or _took_packets(occurrence):
            detects.append(min(noticed) - occurrence.applied.before_ns if noticed else None)
        if _took_packets(occurrence):
            avoids.append(_avoid_ns(occurrence))
        restores.append(_restore_ns(occurrence, own, left_by_ns))
    return Recovery(
        fault_id=fault.fault_id,
        occurrence_count=len(occurrences),
        lost_packets=lost,
        left_evs=left_evs,
        detect=_longest(detects, "no EV left it"),
        avoid=_longest(avoids, "its end was not recorded")
        if losing
        else RecoveryPhase(None, "it loses no packet"),
        restore=_longest(restores, "EVs were still avoided when the next occurrence began or the run ended"),
    )


class _Concerned:
    """Which EVs and NIC ports a fault touches."""

    def __init__(self, clos: Clos, fault: ScheduledFault) -> None:
        self._clos = clos
        self._rule = next((each.rule for each in fault.rules), None)
        self._links = frozenset(clos.link(name).id for name in fault.links)
        self._known: dict[tuple[str, str, int], bool] = {}

    def those_of(self, events: Iterable[NicEvent]) -> Iterator[EvTransition | PortTransition]:
        """The events of EVs and of NIC ports that the fault touches."""
        for event in events:
            match event:
                case EvTransition() if self._has_on_its_path(event):
                    yield event
                case PortTransition() if self._is_port(event):
                    yield event

    def _has_on_its_path(self, event: EvTransition) -> bool:
        """Return True if a link of the fault is on the EV's path, and the fault is about that EV."""
        rule = self._rule
        if rule is not None and rule.ev is not None and (event.entropy ^ rule.ev) & rule.ev_mask:
            return False
        route = (event.host, event.peer, event.entropy)
        if route not in self._known:
            source, target = self._clos.node(event.host).index, self._clos.node(event.peer).index
            path = explain_ev(self._clos, event.entropy, source, target)
            self._known[route] = any(link.id in self._links for link in path.links)
        return self._known[route]

    def _is_port(self, event: PortTransition) -> bool:
        """Return True if the NIC port is at an end of a link of the fault."""
        host = self._clos.node(event.host).index
        return self._clos.host_link(host, event.plane).id in self._links


def _key(event: EvTransition | PortTransition) -> _Key:
    if isinstance(event, PortTransition):
        return event.host, event.plane
    return event.host, event.qpn, event.entropy


def _has_left(event: EvTransition | PortTransition) -> bool:
    return not event.is_up if isinstance(event, PortTransition) else event.after in LEFT_STATES


def _took_packets(occurrence: Occurrence) -> bool:
    """Return True if there was anything to notice, as far as one knows."""
    return occurrence.cleared is None or occurrence.cleared.lost_packets > 0


def _horizon_ns(recording: Recording) -> int:
    """Until when EVs were watched: to the last reading, with which the last events were fetched."""
    return recording.readings[-1].time_ns if recording.readings else recording.start_ns


def _avoid_ns(occurrence: Occurrence) -> int | None:
    """None when its end, with which the account comes, was not recorded."""
    last_ns = None if occurrence.cleared is None else occurrence.cleared.last_lost_ns
    return None if last_ns is None else last_ns - occurrence.applied.before_ns


def _left_by_ns(recording: Recording, occurrence: Occurrence, next_ns: int, *, is_losing: bool) -> int:
    """Until when an EV that leaves does so because of the occurrence.

    A packet that was lost is missed after the repair too, up to when something else breaks; one that was only
    late is not.
    """
    if occurrence.cleared is None:
        return next_ns
    cleared_ns = occurrence.cleared.before_ns
    if not is_losing:
        return cleared_ns
    later = [
        change.before_ns
        for change in recording.fault_changes
        if change.action == "applied" and change.before_ns >= cleared_ns
    ]
    return min([next_ns, *later])


def _restore_ns(
    occurrence: Occurrence, own: Iterable[EvTransition | PortTransition], left_by_ns: int
) -> int | None:
    """0 when no EV had left by *left_by_ns*; None when one was still away at the end of *own*."""
    if occurrence.cleared is None:
        return None
    away: set[_Key] = set()
    last_return_ns = occurrence.cleared.before_ns
    for event in sorted(own, key=lambda event: event.time_ns):
        if _has_left(event):
            if event.time_ns < left_by_ns:
                away.add(_key(event))
        elif _key(event) in away:
            away.remove(_key(event))
            last_return_ns = max(last_return_ns, event.time_ns)
    return None if away else last_return_ns - occurrence.cleared.before_ns


def _longest(times_ns: Sequence[int | None], reason: str) -> RecoveryPhase:
    if not times_ns:
        return RecoveryPhase(None, "it took no packet, so there was nothing to notice or avoid")
    known = [time_ns for time_ns in times_ns if time_ns is not None]
    missing = len(times_ns) - len(known)
    if not missing:
        return RecoveryPhase(max(known))
    if len(times_ns) == 1:
        return RecoveryPhase(None, reason)
    return RecoveryPhase(None, f"{missing} of {len(times_ns)} occurrences: {reason}")
