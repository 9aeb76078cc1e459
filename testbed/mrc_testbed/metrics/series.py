"""Values of a time series: cumulative readings of a lab, and what happened between two of them. Pure.

Readings are cumulative, so one that comes late or is missing costs resolution, never counts; the difference
of any two readings, neighbours or the ends of a run, is exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from operator import sub
from typing import Any, Final, Literal, Self, get_args

from mrc_agents.abi import EvReason, EvState, NicCounter
from mrc_testbed.fabric.deadlock import Deadlock
from mrc_testbed.metrics import endpoint_metrics
from mrc_testbed.metrics.cpu_use import CpuReading, CpuUse
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.metric import Metric
from mrc_testbed.shown import format_time

EvStates = Mapping[tuple[int, EvState], int]
"""(plane, state) -> EVs of connected QPs in it."""

EV_STATES: Final = (EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED)
"""States an EV can be in; UNUSED is the absence of an EV."""

EvChanges = Mapping[tuple[EvState, EvState, EvReason, int], int]
"""(before, after, reason, plane) -> EVs that changed their state so, over all hosts."""

Profiles = frozenset[tuple[int, int]]
"""EV and CC profiles that connected QPs were created with, for each 1 + its number or 0: none."""

QueueGroup = Literal["nic", "t0_down", "t0_up", "t1"]
"""Ports that send alike: NICs, T0s towards hosts, T0s towards T1s, switches above T0."""

QUEUE_GROUPS: Final[tuple[QueueGroup, ...]] = get_args(QueueGroup)

_RATIOS: Final = (0.5, 0.9, 0.99, 0.999)


def _shown_by(metric: Metric, label: str | None = None) -> Any:
    """A field that is the sum of a metric's counters, or of those with one value of its last label."""
    counters = [counter for counter, each in metric.counters.items() if label in {None, each}]
    return field(default=0, metadata={"counters": counters})


def _growth(now: Any, then: Any) -> Any:
    """The growth of a count, or of each of a collection."""
    if isinstance(now, int):
        return now - then
    if isinstance(now, tuple):
        return tuple(map(_growth, now, then))
    if hasattr(now, "since"):
        return now.since(then)
    return {key: _growth(count, then[key]) for key, count in now.items()}


@dataclass(frozen=True, slots=True)
class HostCounts:
    """Counts of one NIC, since it was made or within an interval."""

    # payload placed in its memory for the first time
    goodput_bytes: int = _shown_by(endpoint_metrics.GOODPUT_BYTES)
    # payload it sent, acknowledged for the first time
    acknowledged_bytes: int = _shown_by(endpoint_metrics.ACKNOWLEDGED_BYTES)
    messages: int = _shown_by(endpoint_metrics.MESSAGES_COMPLETED)  # its messages acknowledged whole
    # data packets sent, retransmissions included
    tx_data_packets: int = _shown_by(endpoint_metrics.TX_PACKETS, "data")
    # data packets accepted, duplicates included
    rx_data_packets: int = _shown_by(endpoint_metrics.RX_PACKETS, "data")
    # packets sent again because later acknowledgements passed them
    retransmits_sack: int = _shown_by(endpoint_metrics.RETRANSMITS, "sack")
    # packets sent again after a time-out
    retransmits_timeout: int = _shown_by(endpoint_metrics.RETRANSMITS, "timeout")
    qp_errors: int = _shown_by(endpoint_metrics.QP_ERRORS)  # QPs gone into the ERROR state
    events_lost: int = _shown_by(endpoint_metrics.EVENTS_LOST)  # events that found the event ring full
    # packets received and refused, for whatever reason
    refused_packets: int = _shown_by(endpoint_metrics.NIC_DROPS)
    # packets sent again because a NACK reported them trimmed
    retransmits_nack: int = _shown_by(endpoint_metrics.RETRANSMITS, "nack")
    # retransmits_ack, retransmits_tail: packets sent again to ask for an answer, or after a silence
    retransmits_ack: int = _shown_by(endpoint_metrics.RETRANSMITS, "ack")
    retransmits_tail: int = _shown_by(endpoint_metrics.RETRANSMITS, "tail")
    # packets received that had come before: sent again although nothing was lost
    rx_duplicates: int = field(default=0, metadata={"counters": [NicCounter.RX_DUPLICATE]})

    @property
    def retransmits(self) -> int:
        """Packets sent again, for whatever reason."""
        return (
            self.retransmits_sack
            + self.retransmits_timeout
            + self.retransmits_nack
            + self.retransmits_ack
            + self.retransmits_tail
        )


_HOST_SOURCES: Final = tuple(each.metadata["counters"] for each in fields(HostCounts))


class HostTable(Mapping[str, HostCounts]):
    """The counts of each NIC by host name; an object per NIC is made for those who ask for one.

    Args:
        places: host name -> where its counts are in a column.
        columns: counts of all NICs, in the order of the fields of HostCounts.
    """

    def __init__(self, places: Mapping[str, int], columns: Sequence[Sequence[int]]) -> None:
        self._places, self._columns = places, columns

    @classmethod
    def of(cls, places: Mapping[str, int], counters: Sequence[Sequence[int]]) -> Self:
        """The counts of the counters of all NICs: (NicCounter.COUNT, host_count)."""
        sources = ([counters[index] for index in indices] for indices in _HOST_SOURCES)
        return cls(places, [list(map(sum, zip(*columns, strict=True))) for columns in sources])

    def __getitem__(self, name: str) -> HostCounts:
        return HostCounts(*(column[self._places[name]] for column in self._columns))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def column(self, name: str) -> Sequence[int]:
        return self._columns[HostCounts.__match_args__.index(name)]

    def total(self) -> HostCounts:
        return HostCounts(*map(sum, self._columns))

    def since(self, earlier: Self) -> Self:
        columns = zip(self._columns, earlier._columns, strict=True)
        return type(self)(self._places, [list(map(sub, *each)) for each in columns])


@dataclass(frozen=True, slots=True)
class FlowCounts:
    """Counts of flow control over all links, since the lab was made or within an interval."""

    pauses: int = 0  # PFC frames that paused a port
    paused_ns: int = 0  # time that ports were paused, added up
    stalls: int = 0  # times that data waited because the other end of its link did not let it go
    stalled_ns: int = 0  # time that it did, added up over ports

    def since(self, earlier: Self) -> Self:
        names = FlowCounts.__match_args__
        return type(self)(*(getattr(self, name) - getattr(earlier, name) for name in names))


@dataclass(frozen=True, slots=True)
class Details:
    """A lab port by port, (port_count,), and how its EVs changed: what few readings need."""

    ports_up: tuple[bool, ...] = ()  # whether each port can send now
    queue_bytes: tuple[int, ...] = ()  # data that waits at each port now; empty in an unshaped lab
    tx_bytes: tuple[int, ...] = ()  # sent by each port
    dropped: tuple[int, ...] = ()  # frames that each port has lost
    held_ns: tuple[int, ...] = ()  # how long flow control has held data at each port; empty without it
    ev_changes: EvChanges = field(default_factory=dict)
    profiles: Mapping[str, Profiles] = field(default_factory=dict)  # by host, of those that have any

    def since(self, earlier: Self) -> Self:
        counted = ("tx_bytes", "dropped", "ev_changes", "held_ns")
        return replace(
            self, **{name: _growth(getattr(self, name), getattr(earlier, name)) for name in counted}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabCounts:
    """Counts of a lab, since it was made or within an interval."""

    hosts: HostTable  # by host name
    # RTT of data packets, by plane, over all hosts; retransmitted packets have none
    packet_rtt: tuple[Histogram, ...]
    message_completion: Histogram  # completion times of messages, over all hosts
    ev_states: EvStates  # EVs of connected QPs by plane and state, over all hosts, at the end
    # bytes that hosts sent into each plane, headers and retransmissions included
    plane_tx_bytes: tuple[int, ...]
    port_drops: Mapping[str, int]  # frames lost in ports and switches by reason, over all ports
    flow: FlowCounts = FlowCounts()  # what flow control did; nothing in a lab without it
    # data that waits at the port of each group where most of it does, at the end; empty in an unshaped lab
    deepest_queue_bytes: Mapping[QueueGroup, int] = field(default_factory=dict)
    ecn_marks: int = 0  # frames that ports marked, over all ports
    trims: int = 0  # frames that ports trimmed, over all ports
    details: Details = Details()  # empty unless asked for


_STATES: Final = ("ev_states", "deepest_queue_bytes")
_LAB_COUNTS: Final = tuple(each.name for each in fields(LabCounts) if each.name not in _STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(LabCounts):
    """A lab at one moment; counts since the lab was made."""

    time_ns: int  # CLOCK_MONOTONIC just before the first counter was read
    cpus: CpuReading  # the machine's CPUs
    queue_lateness: Histogram | None = None  # how late frames left their queues; None in an unshaped lab
    deadlock: Deadlock | None = None  # ports that flow control holds for ever
    # names of links that the link probes of the last second suspect; None: hosts do not probe
    suspects: frozenset[str] | None = None

    def since(self, earlier: Self) -> "Interval":
        """The interval from *earlier* to this reading of the same lab.

        Raises:
            ValueError: a count went down, so this is another lab of the same name.
        """
        return Interval(
            start_ns=earlier.time_ns,
            end_ns=self.time_ns,
            cpu_use=self.cpus.since(earlier.cpus),
            **{name: getattr(self, name) for name in _STATES},
            **{name: _growth(getattr(self, name), getattr(earlier, name)) for name in _LAB_COUNTS},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(LabCounts):
    """The counts of a lab between two readings."""

    start_ns: int  # time of the earlier reading
    end_ns: int  # time of the later reading
    cpu_use: tuple[CpuUse, ...]  # of each CPU

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def goodput_bps(self) -> float:
        """Payload placed for the first time, bits per second, over all hosts."""
        return self.hosts.total().goodput_bytes * 8e9 / self.duration_ns

    def packet_rtt_overall(self) -> "Latency | None":
        """RTT over all planes; None when no data packet was acknowledged."""
        return summarize(merge(self.packet_rtt))


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of the times of an interval."""

    count: int  # times recorded
    # p50_ns, p90_ns, p99_ns, p999_ns: times that half, 90 %, ... of all stay below.
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: int  # largest time; exact when it is the largest of the lab's life, else within 3.2 % above

    def shown(self) -> list[str]:
        """The times for people, in this order."""
        return [format_time(time_ns) for time_ns in astuple(self)[1:]]


def summarize(histogram: Histogram) -> Latency | None:
    """The percentiles of *histogram*; None when nothing was recorded."""
    percentiles_ns = histogram.percentiles_ns(_RATIOS)
    if percentiles_ns is None:
        return None
    p50_ns, p90_ns, p99_ns, p999_ns = percentiles_ns
    return Latency(histogram.count, p50_ns, p90_ns, p99_ns, p999_ns, histogram.max_ns)
