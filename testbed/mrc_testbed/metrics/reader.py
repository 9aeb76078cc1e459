"""Reads the pinned maps of one lab: counters, histograms, EV states, ports. Live; changes nothing.

A reader keeps the maps open, also when the lab goes away: then it goes on reading what is left of the old
lab. Whether the lab is still the same one is for its owner to ask, see `LabWatch`.

Every reading is of maps that the data plane is writing: one number is never torn, but two numbers that belong
together may be one packet apart.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from ctypes import Structure, sizeof
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from mrc_agents.abi import (
    CcFormat,
    EvEntry,
    EvReason,
    EvState,
    EvTransitions,
    FaultAction,
    MapHistogram,
    NicControl,
    NicCounters,
    NicPath,
    NicPaths,
    PortCounter,
    PortCounters,
    PortEntry,
    PortFault,
    Qp,
    QpState,
    QueueDelay,
    QueueDelays,
    QueueState,
    TrafficClass,
    WorkRing,
)
from mrc_agents.bpf.libbpf import Pins, open_map_in
from mrc_agents.bpf.maps import ArrayMap, MappedArray, WholeMap
from mrc_agents.bpf.virtual import VirtualFolder
from mrc_agents.clock import monotonic_ns
from mrc_agents.closing import Holder
from mrc_agents.nic.cc_profile_verbs import CC_PROFILES_MAX
from mrc_agents.nic.ev_profile import PROFILES_MAX
from mrc_testbed.fabric.lossless import LosslessReader, opened_lossless
from mrc_testbed.fabric.port_fault import acts
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.lab_sums import LabSums, VirtualSource
from mrc_testbed.metrics.series import EV_STATES, EvChanges, EvStates, HostTable, Profiles
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import UPLINK_SHIFT, decode_ev

_CONNECTED: Final = (QpState.RTR, QpState.RTS)
QP_SEARCH_READINGS: Final = 10
"""Readings from one search through all QPs to the next: looking a QP up copies some 50 KB."""


class CongestionWindows(NamedTuple):
    """Congestion windows of a NIC's QPs that have packets to be acknowledged, added up."""

    sending_qps: int = 0  # how many QPs that is
    # cwnd_bytes, max_wnd_bytes, inflight_bytes: sums over them
    cwnd_bytes: int = 0
    max_wnd_bytes: int = 0
    inflight_bytes: int = 0
    delay_ns: int = 0  # sum of their average queueing delays

    @property
    def mean_delay_ns(self) -> float:
        """Mean of the average queueing delays; 0 without any."""
        return self.delay_ns / self.sending_qps if self.sending_qps else 0.0


class EvPath(NamedTuple):
    """Where EVs of one state lead between T0s."""

    plane: int  # number
    way: int  # see `numbering`
    peer_row: int  # index of the destination T0
    state: EvState  # of the EVs


class QpReadings(NamedTuple):
    states: EvStates  # how many EVs of connected QPs are in which state; unused EVs are not counted
    windows: CongestionWindows  # of the QPs that are sending
    reorder_packets: int  # the most packets that a QP holds above the first missing one
    paths: Mapping[EvPath, int]  # EVs of connected QPs across T1s; none where EVs do not name their paths
    profiles: Profiles


class NicReader(Holder):
    """The maps of one NIC.

    Args:
        pins: folder of the NIC's pinned maps.
        row: index of its T0s.
        rows: that of each host's T0s, by host number; empty where EVs do not name their paths.
    """

    def __init__(
        self,
        pins: Pins,
        plane_count: int,
        *,
        row: int = 0,
        rows: Sequence[int] = (),
        qp_search_readings: int = QP_SEARCH_READINGS,
    ) -> None:
        self._plane_count = plane_count
        with ExitStack() as stack:
            opened = partial(open_map_in, stack, pins)
            self._counters = WholeMap(opened("nic_counters"), NicCounters)
            self._rtt = WholeMap(opened("rtt_histogram"), MapHistogram)
            # the map with the counts of EV state changes
            self.ev_transitions = WholeMap(opened("ev_transitions"), EvTransitions)
            self._messages = WholeMap(opened("message_histogram"), MapHistogram)
            self._paths = MappedArray(opened("nic_paths"), NicPaths)[0].path
            self._control = MappedArray(opened("nic_control"), NicControl)[0]
            qps, work = ArrayMap(opened("qps"), Qp), MappedArray(opened("work_ring"), WorkRing)
            self._qps = _QpStates(qps, work, qp_search_readings, row, rows)
            self._opened = stack.pop_all()

    def counters(self) -> list[int]:
        return [values[0] for values in _sums(self._counters)]

    def packet_rtt(self) -> tuple[Histogram, ...]:
        return tuple(_histograms(self._rtt, self._plane_count))

    def message_completion(self) -> Histogram:
        """Completion times of the messages that this host sent."""
        return merge(_histograms(self._messages, 1))

    def ev_states(self) -> EvStates:
        """Counts of the EVs of connected QPs, by state; unused EVs are not counted."""
        return self._qps.read(with_paths=False).states

    def qps(self) -> QpReadings:
        return self._qps.read(with_paths=True)

    @property
    def profiles(self) -> Profiles:
        """Profiles of the QPs that the last reading found."""
        return self._qps.profiles

    def suspicions(self) -> list[int]:
        """Times that each path came under suspicion: (NIC_PATHS,), in the order of `nic_path_base`."""
        words = memoryview(self._paths).cast("B").cast("I")
        return words[_FALLS :: sizeof(NicPath) // words.itemsize].tolist()

    def port_is_up(self, plane: int) -> bool:
        return bool(self._control.port_up_mask >> plane & 1)


def ev_transition_index(before: EvState, after: EvState, reason: EvReason) -> int:
    """Where a transition stands in struct mrc_ev_transitions."""
    return (before * EvState.STATE_COUNT + after) * EvReason.COUNT + reason


_TRANSITIONS: Final = tuple(
    (before, after, reason)
    for before, after, reason in product(EV_STATES, EV_STATES, EvReason)
    if before != after and reason is not EvReason.COUNT
)


class LabReader(Holder):
    """The maps of one lab.

    Args:
        fabric_pins: folder of the maps that the whole fabric shares.
        nodes_pins: folder with one folder of pinned maps per host.
        qp_search_readings: readings from one search for new QPs to the next.
        hidden: while there is a file of that name, frames lost to faults do not count: people are to find
            what is hidden.
    """

    def __init__(
        self,
        name: str,
        clos: Clos,
        fabric_pins: Pins,
        nodes_pins: Pins,
        *,
        qp_search_readings: int = QP_SEARCH_READINGS,
        hidden: Path | None = None,
    ) -> None:
        self._hidden = hidden
        self._shown_losses = [0] * clos.numbering.port_count
        self.name = name
        self.clos = clos
        with ExitStack() as stack:
            opened = partial(open_map_in, stack, fabric_pins)
            self._port_counters = WholeMap(opened("port_counters"), PortCounters)
            self._ports = list(MappedArray(opened("port_table"), PortEntry))
            self._faults = list(MappedArray(opened("port_fault"), PortFault))
            self._delays = (
                list(MappedArray(opened("queue_delays"), QueueDelays)) if clos.spec.is_shaped else []
            )
            self._queues = list(MappedArray(opened("queue_state"), QueueState)) if clos.spec.is_shaped else []
            self._lateness = WholeMap(opened("queue_lateness"), MapHistogram) if clos.spec.is_shaped else None
            self.lossless: LosslessReader | None = None  # the maps of flow control; None in a lab without it
            if clos.spec.flow_control != "none":
                self.lossless = stack.enter_context(opened_lossless(clos, fabric_pins))
            self.nics: dict[str, NicReader] = {}  # by host name, in order
            rows = [clos.numbering.row(index) for index in range(clos.numbering.host_count)]
            for row, host in zip(rows, clos.hosts(), strict=True):
                self.nics[host.name] = NicReader(
                    nodes_pins / host.name,
                    clos.spec.planes,
                    row=row,
                    rows=() if clos.spec.forwarding == "ecmp" else rows,
                    qp_search_readings=qp_search_readings,
                )
                stack.callback(self.nics[host.name].close)
            self._places = {host: place for place, host in enumerate(self.nics)}
            self._source = None
            if isinstance(nodes_pins, VirtualFolder):
                self._source = VirtualSource(nodes_pins, self._places, clos.spec.planes, qp_search_readings)
            self._opened = stack.pop_all()

    def sums(self) -> LabSums:
        """A reading of all NICs together."""
        if self._source is not None:
            return self._source.read()
        nics = self.nics.values()
        ev_states: Counter[tuple[int, EvState]] = Counter()
        for nic in nics:
            ev_states.update(nic.ev_states())
        return LabSums(
            HostTable.of(self._places, list(zip(*(nic.counters() for nic in nics), strict=True))),
            tuple(map(merge, zip(*(nic.packet_rtt() for nic in nics), strict=True))),
            merge(nic.message_completion() for nic in nics),
            ev_states,
        )

    def port_counters(self) -> list[list[int]]:
        """The counters of each port: (PortCounter.COUNT, port_count) frames or bytes."""
        counters = _sums(self._port_counters)
        if self._hidden is not None and self._hidden.exists():
            counters[PortCounter.DROP_LOSS] = self._shown_losses
        self._shown_losses = counters[PortCounter.DROP_LOSS]
        return counters

    def ev_changes(self) -> EvChanges:
        sums = _sums(*(nic.ev_transitions for nic in self.nics.values()))
        return {
            (*change, plane): sums[ev_transition_index(*change)][plane]
            for change in _TRANSITIONS
            for plane in range(self.clos.spec.planes)
        }

    def link_suspicions(self) -> Counter[int]:
        """Times that NICs began to avoid paths, by id of each link between switches that they cross."""
        numbering, counts = self.clos.numbering, Counter[int]()
        places = numbering.planes * numbering.way_count(len(numbering.tiers) - 1)
        for host, nic in enumerate(self.nics.values()):
            row = numbering.row(host)
            for place, times in enumerate(nic.suspicions()):
                # as in nic_path_base(): by row, plane and way; none of more paths than places
                peer_row, rest = divmod(place, places)
                if times and peer_row != row and peer_row < numbering.groups[0]:
                    plane, way = divmod(rest, numbering.way_count(numbering.row_distance(row, peer_row)))
                    for link_id in numbering.links_of_way(plane, row, peer_row, way):
                        counts[link_id] += times
        return counts

    def queue_lateness(self) -> Histogram | None:
        """Lateness of frames that left their queues since the lab was made; None in an unshaped lab."""
        return None if self._lateness is None else merge(_histograms(self._lateness))

    def ports_up(self) -> list[bool]:
        """Ports that can send: (port_count,). A NIC port without carrier takes both ends down."""
        now_ns = monotonic_ns()
        up = [
            not (
                port.is_faulted
                and any(rule.action == FaultAction.DOWN and acts(rule, now_ns) for rule in fault.rule)
            )
            for port, fault in zip(self._ports, self._faults, strict=True)
        ]
        for host, nic in enumerate(self.nics.values()):
            for plane in range(self.clos.spec.planes):
                if not nic.port_is_up(plane):
                    port_id = 2 * self.clos.numbering.host_link_id(host, plane)
                    up[port_id] = up[port_id + 1] = False
        return up

    def queue_bytes(self, traffic_class: TrafficClass) -> list[int]:
        """Bytes that wait at each port for transmission: (port_count,); empty in an unshaped lab."""
        return [queue.depth_bytes[traffic_class] for queue in self._queues]

    def queue_delays(self, traffic_class: TrafficClass) -> list[QueueDelay]:
        """Time that frames waited at each port for transmission: (port_count,), live; empty if unshaped."""
        return [delays.of_class[traffic_class] for delays in self._delays]


def _offset(layout: type[Structure], name: str) -> int:
    return int(getattr(layout, name).offset)


_FALLS: Final = _offset(NicPath, "falls") // 4
_ENTROPY, _PLANE, _STATE = (_offset(EvEntry, name) for name in ("entropy", "plane", "state"))


class _QpStates:
    """EV states and windows of a NIC's QPs.

    Each reading looks up the QPs that were connected at the last one and those that were given work since;
    now and then all, for a QP that only receives is given none.
    """

    def __init__(
        self,
        qps: ArrayMap[Qp],
        work: MappedArray[WorkRing],
        search_readings: int,
        row: int,
        rows: Sequence[int],
    ) -> None:
        self._qps = qps
        self._row = row
        self._rows = rows
        self._search_readings = search_readings
        self._rings = list(work)
        self._tails = [0] * len(self._rings)
        self._connected: list[int] = []
        self._readings_left = 0
        self.profiles: Profiles = frozenset()

    def read(self, *, with_paths: bool) -> QpReadings:
        tails = [ring.tail for ring in self._rings]
        given_work = {index for index, tail in enumerate(tails) if tail != self._tails[index]}
        self._tails = tails
        candidates = sorted(given_work.union(self._connected))
        if not self._readings_left:
            candidates = list(range(len(self._qps)))
            self._readings_left = self._search_readings
        self._readings_left -= 1
        self._connected = []
        counts: Counter[tuple[int, ...]] = Counter()
        across: Counter[tuple[int, ...]] = Counter()
        sending: list[tuple[int, ...]] = []
        reorder_packets = 0
        profiles: set[tuple[int, int]] = set()
        for index in candidates:
            qp = self._qps.peek(index)
            if qp.state in _CONNECTED:
                self._connected.append(index)
                counts.update(qp_ev_states(qp))
                reorder_packets = max(reorder_packets, qp.resp.received_above)
                # a node can write any number there
                if qp.ev_profile <= 1 + PROFILES_MAX and qp.cc_profile <= 1 + CC_PROFILES_MAX:
                    profiles.add((qp.ev_profile, qp.cc_profile))
                if qp.req.next_psn != qp.comp.una_psn:
                    cc = qp.cc
                    delay_ns = cc.avg_delay_q8 >> CcFormat.DELAY_SHIFT
                    inflight_bytes = max(0, cc.inflight_bytes)
                    sending.append((1, cc.cwnd_bytes, cc.max_wnd_bytes, inflight_bytes, delay_ns))
                peer = qp.head.peer_host
                if with_paths and peer < len(self._rows) and (peer_row := self._rows[peer]) != self._row:
                    # an EV's upper two bytes name plane and uplink, low byte first
                    path_and_state = _of_evs(qp, _ENTROPY + 2, _ENTROPY + 3, _STATE)
                    for key, count in Counter(path_and_state).items():
                        across[peer_row, *key] += count
        states = {
            (plane, EvState(state)): count for (plane, state), count in counts.items() if state in EV_STATES
        }
        paths = {
            _ev_path(peer_row, low, high, state): count
            for (peer_row, low, high, state), count in across.items()
            if state in EV_STATES
        }
        windows = CongestionWindows(*map(sum, zip(*sending, strict=True)))
        self.profiles = frozenset(profiles - {(0, 0)})
        return QpReadings(states, windows, reorder_packets, paths, self.profiles)


def qp_ev_states(qp: Qp) -> Iterator[tuple[int, ...]]:
    """Plane and state of each of the QP's EVs, in use or not."""
    return _of_evs(qp, _PLANE, _STATE)


def _of_evs(qp: Qp, *starts: int) -> Iterator[tuple[int, ...]]:
    """Bytes of each of the QP's EVs, by strides over all of them: ctypes takes 100 times as long."""
    evs = memoryview(qp.evs.ev).cast("B")
    return zip(*(evs[start :: sizeof(EvEntry)] for start in starts), strict=True)


@lru_cache(maxsize=8192)
def _ev_path(peer_row: int, low: int, high: int, state: int) -> EvPath:
    """Where EVs lead whose upper two bytes are *low* and *high*."""
    ev = decode_ev((high << 8 | low) << UPLINK_SHIFT)
    return EvPath(ev.plane, ev.uplink, peer_row, EvState(state))


def _sums(*maps: WholeMap) -> list[list[int]]:
    """The 64-bit numbers of maps that are alike, added up over maps and CPUs: (numbers per value, length).

    A map is added to another as one integer, and a value to another, see mrc_testbed.metrics.histogram: these
    counters never overflow either, unless somebody else writes to a map; then the sum is wrong, but a sum.
    """
    stride = maps[0].stride_bytes
    step = maps[0].cpu_count * stride
    values = _added([counters.read() for counters in maps])
    parts = (values[start : start + step] for start in range(0, len(values), step))
    if step > stride:
        parts = (_added([part[at : at + stride] for at in range(0, step, stride)]) for part in parts)
    sums = array("Q", b"".join(parts))
    numbers = stride // sums.itemsize
    return [list(sums[first::numbers]) for first in range(numbers)]


def _added(parts: Sequence[memoryview | bytes]) -> bytes | memoryview:
    """The sum of little-endian integers of one length, in that length."""
    if len(parts) == 1:
        return parts[0]
    length = len(parts[0])
    total = sum(int.from_bytes(part, "little") for part in parts)
    return (total & (1 << 8 * length) - 1).to_bytes(length, "little")


def _histograms(histograms: WholeMap, count: int | None = None) -> list[Histogram]:
    """One histogram per element of a per-CPU map, of the first *count* elements."""
    step = histograms.cpu_count * histograms.stride_bytes
    values = histograms.read()[: None if count is None else count * step]
    return [Histogram.from_map_values(values[start : start + step]) for start in range(0, len(values), step)]
