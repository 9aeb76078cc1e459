"""Everything that is measured at one instant of a run. Pure.

All counts are cumulative readings, so a sample that comes late or is missing loses resolution, never counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.metrics.histogram import Histogram


@dataclass(frozen=True, slots=True)
class Sample:
    """Cumulative readings of a lab, taken within about a millisecond.

    Attributes:
        time_ns: CLOCK_MONOTONIC just before the first reading.
        acked_bytes: per host, payload of its messages acknowledged for the first time.
        messages: completed, over all hosts.
        retransmits: packets sent again, over all hosts.
        qp_errors: QPs that went to the error state, over all hosts.
        fault_drops: packets that faults took (down links, loss), over all ports.
        queue_drops: packets that full queues dropped, over all ports.
        stray_drops: packets that the fabric could not place (malformed, no route); a sound fabric has none.
        events_lost: NIC events that found their ring full, over all hosts.
        packet_rtt: (planes,) RTT of data packets, over all hosts.
        message_completion: completion time of messages, over all hosts.
        ev_states: (plane, state name) -> EVs in that state now, over all QPs.
        cpu_busy_ratio: share of all CPU time in use since the sample before; None for the first.
    """

    time_ns: int
    acked_bytes: Mapping[str, int]
    messages: int
    retransmits: int
    qp_errors: int
    fault_drops: int
    queue_drops: int
    stray_drops: int
    events_lost: int
    packet_rtt: tuple[Histogram, ...]
    message_completion: Histogram
    ev_states: Mapping[tuple[int, str], int]
    cpu_busy_ratio: float | None
