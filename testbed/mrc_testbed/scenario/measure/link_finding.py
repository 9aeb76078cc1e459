"""Quality and speed of the link probes in finding the links that the faults of a run broke. Pure.

    truth      ....[#########################].............
    suspected  .........[##########################]......
               localise |                      | the window of the probes

Precision looks back: a link that was broken within the last window is rightly suspected. Recall waits: a link
counts once it has been broken for long enough to be found.
"""

from dataclasses import dataclass
from typing import Final

from mrc_testbed.metrics.series import Reading
from mrc_testbed.probing.localisation import WINDOW_NS
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.measure.recovery import RecoveryPhase
from mrc_testbed.topology.probing_spec import ProbingSpec
from mrc_testbed.topology.resolve import resolve_topology

_ROUNDS_TO_FIND: Final = 5


@dataclass(frozen=True, slots=True)
class LinkFinding:
    """The results of the link probes in a run."""

    precision: float | None  # share of suspicions, over all readings, that were right; None if there was none
    # share of broken links, over all readings, that were suspected; None if none could be
    recall: float | None
    # by fault id, from the beginning of an occurrence until all its links were suspected
    localise: dict[str, RecoveryPhase]


@dataclass(frozen=True, slots=True)
class _Outage:
    fault_id: str
    links: frozenset[str]
    start_ns: int
    end_ns: int | None

    def touches(self, start_ns: int, end_ns: int) -> bool:
        """Return True if it acted at any time of that span."""
        return self.start_ns <= end_ns and (self.end_ns is None or self.end_ns >= start_ns)

    def covers(self, start_ns: int, end_ns: int) -> bool:
        """Return True if it acted all the time of that span."""
        return self.start_ns <= start_ns and (self.end_ns is None or self.end_ns >= end_ns)


def measure_link_finding(recording: Recording) -> LinkFinding | None:
    """The findings of the link probes of a run; None if its hosts did not probe."""
    probing = recording.plan.topology.probing
    readings = [reading for reading in recording.readings if reading.suspects is not None]
    if probing is None or not readings:
        return None
    outages = _outages(recording)
    find_ns = time_to_find_ns(probing, recording.plan.reading_interval_ns)
    suspected = suspected_rightly = broken = found = 0
    for reading in readings:
        suspects = reading.suspects or frozenset()
        recently = _links(
            outages, reading.time_ns - WINDOW_NS - probing.timeout, reading.time_ns, whole=False
        )
        for_long = _links(outages, reading.time_ns - find_ns, reading.time_ns, whole=True)
        suspected += len(suspects)
        suspected_rightly += len(suspects & recently)
        broken += len(for_long)
        found += len(suspects & for_long)
    return LinkFinding(
        precision=suspected_rightly / suspected if suspected else None,
        recall=found / broken if broken else None,
        localise={
            fault.fault_id: _localise([each for each in outages if each.fault_id == fault.fault_id], readings)
            for fault in recording.plan.faults
            if any(each.fault_id == fault.fault_id for each in outages)
        },
    )


def time_to_find_ns(probing: ProbingSpec, reading_interval_ns: int) -> int:
    """Time that a dead link may stay unsuspected: until probes time out, some rounds, two readings."""
    return probing.timeout + _ROUNDS_TO_FIND * probing.interval + 2 * reading_interval_ns


def _outages(recording: Recording) -> list[_Outage]:
    clos = resolve_topology(recording.plan.topology)
    return [
        _Outage(
            fault.fault_id,
            links,
            occurrence.applied.before_ns,
            None if occurrence.cleared is None else occurrence.cleared.after_ns,
        )
        for fault in recording.plan.faults
        if (links := fault.broken_links(clos))
        for occurrence in recording.occurrences(fault.fault_id)
    ]


def _links(outages: list[_Outage], start_ns: int, end_ns: int, *, whole: bool) -> frozenset[str]:
    chosen = [each for each in outages if (each.covers if whole else each.touches)(start_ns, end_ns)]
    return frozenset(link for outage in chosen for link in outage.links)


def _localise(outages: list[_Outage], readings: list[Reading]) -> RecoveryPhase:
    """The longest time over the occurrences of a fault that all its links took to be suspected."""
    times: list[int] = []
    for outage in outages:
        found = [
            reading.time_ns
            for reading in readings
            if outage.touches(reading.time_ns, reading.time_ns)
            and outage.links <= (reading.suspects or set())
        ]
        if not found:
            return RecoveryPhase(None, "not all of its links were suspected while it acted")
        times.append(min(found) - outage.start_ns)
    return RecoveryPhase(max(times))
