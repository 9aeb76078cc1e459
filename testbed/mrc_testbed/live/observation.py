"""Observes a lab: its maps and its fault ledger. Live; changes nothing and runs no program."""

from collections import Counter
from itertools import product
from typing import Final

from mrc_agents.abi import EvReason, EvState, PortCounter, TrafficClass
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.live.snapshot import Observation
from mrc_testbed.metrics.counters import PORT_DROPS
from mrc_testbed.metrics.fault_record import FaultRecord
from mrc_testbed.metrics.reader import LabReader, ev_transition_index
from mrc_testbed.metrics.run_info import RunInfo
from mrc_testbed.metrics.sampler import take_reading
from mrc_testbed.metrics.series import EV_STATES

_TRANSITIONS: Final = tuple(
    (before, after, reason)
    for before, after, reason in product(EV_STATES, EV_STATES, EvReason)
    if before != after and reason is not EvReason.COUNT
)


def observe(lab: LabReader, ledger: Ledger, record: FaultRecord, run: RunInfo | None) -> Observation:
    """Observe the lab.

    Args:
        lab: its maps.
        ledger: of its faults.
        record: of its faults up to now.
        run: that uses it.
    """
    reading = take_reading(lab)
    counters = lab.port_counters()
    entries = tuple(ledger.entries().values())
    shown = {entry.fault.fault_id for entry in entries}
    resting = record.between_outages(run, reading.time_ns)
    return Observation(
        reading=reading,
        ports_up=tuple(lab.ports_up()),
        tx_bytes=tuple(counters[PortCounter.TX_BYTES]),
        dropped=tuple(map(sum, zip(*(counters[drop] for drop in PORT_DROPS), strict=True))),
        queue_bytes=tuple(lab.queue_bytes(TrafficClass.DATA)),
        held_ns=() if lab.lossless is None else tuple(link.stalled_ns for link in lab.lossless.links()),
        transitions=_transitions(lab),
        faults=entries,
        # an outage may have begun since the entries were read
        outages=record.outages(run),
        resting={fault: links for fault, links in resting.items() if fault.fault_id not in shown},
    )


def _transitions(lab: LabReader) -> Counter[tuple[EvState, EvState, EvReason, int]]:
    found: Counter[tuple[EvState, EvState, EvReason, int]] = Counter()
    counts = lab.ev_transitions()
    for before, after, reason in _TRANSITIONS:
        for plane, count in enumerate(counts[ev_transition_index(before, after, reason)]):
            if count:
                found[before, after, reason, plane] = count
    return found
