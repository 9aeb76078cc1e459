"""Turns the maps of one lab into samples of the catalogue's metrics."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain, product
from typing import Final

from mrc_agents.abi import EvReason, EvState, Limit, NicCounter, PortCounter, QueueDelay, TrafficClass
from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.fault_log import HIDDEN_FILE
from mrc_testbed.fabric.known_labs import no_such_lab
from mrc_testbed.fabric.link_probes import LinkProbeCounts
from mrc_testbed.fabric.lossless import LosslessReader
from mrc_testbed.fabric.paths import LabPaths, lab_folders, lab_paths
from mrc_testbed.fabric.state import Phase, read_state
from mrc_testbed.metrics import endpoint_metrics, fabric_metrics, testbed_metrics
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.exposition import Samples, Value
from mrc_testbed.metrics.fault_record import FaultRecord
from mrc_testbed.metrics.histogram import merge, merge_delays
from mrc_testbed.metrics.measured import COLLECTIVE, STEP, read_measured, read_recovery
from mrc_testbed.metrics.metric import Metric
from mrc_testbed.metrics.reader import QP_SEARCH_READINGS, LabReader, QpReadings
from mrc_testbed.metrics.run_info import read_run
from mrc_testbed.metrics.series import EV_STATES
from mrc_testbed.probing.localisation import LinkWatch
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.resolve import resolve_topology

Labels = tuple[str, ...]
Families = Iterator[tuple[Metric, Iterable[tuple[Labels, Value]]]]
"""Some series of one metric after the other; what is lazy in them is read before the next comes."""

_NS_PER_SECOND: Final = 1e9
TRAFFIC_CLASSES: Final = (TrafficClass.CONTROL, TrafficClass.DATA)

_USUAL_TRANSITIONS: Final = {
    (EvState.GOOD, EvState.ASSUMED_BAD, EvReason.LOSS),
    (EvState.GOOD, EvState.ASSUMED_BAD, EvReason.TIMEOUT),
    (EvState.ASSUMED_BAD, EvState.GOOD, EvReason.PROBE),
}
"""Shown from the start, at zero, so that the first one is a rate; others from when they first occur."""

_OF_QPS: Final[Mapping[Metric, Callable[[QpReadings], Value]]] = {
    endpoint_metrics.REORDER_DEPTH: lambda qps: qps.reorder_packets,
    endpoint_metrics.SENDING_QPS: lambda qps: qps.windows.sending_qps,
    endpoint_metrics.CWND_BYTES: lambda qps: qps.windows.cwnd_bytes,
    endpoint_metrics.CWND_MAX_BYTES: lambda qps: qps.windows.max_wnd_bytes,
    endpoint_metrics.INFLIGHT_BYTES: lambda qps: qps.windows.inflight_bytes,
    endpoint_metrics.QUEUEING_DELAY_SECONDS: lambda qps: qps.windows.mean_delay_ns / _NS_PER_SECOND,
}
_SHAPED_ONLY: Final = (fabric_metrics.ECN_MARKS, fabric_metrics.TRIMS)
_LOG: Final = logging.getLogger(__name__)

StateMark = tuple[int, int, int]
"""Device, inode and modification time of a state file."""


class LabCollector:
    """Collects from one lab.

    Args:
        fault_kinds: kinds of fault that are counted from 0 on; others appear when one is injected.
    """

    def __init__(self, reader: LabReader, paths: LabPaths, fault_kinds: Iterable[str] = ()) -> None:
        lab, clos = reader.name, reader.clos
        self._lab = lab
        self._reader = reader
        self._state_dir = paths.folder
        self._fault_record = FaultRecord(paths.faults)
        self._fault_kinds = frozenset(fault_kinds)
        links = list(clos.links())
        self._link_labels = [(lab, str(link.plane), link.name) for link in links]
        self._port_labels = [
            (lab, str(port.plane), port.node.tier.value, port.node.name, links[port.link_id].name)
            for port in clos.ports()
        ]
        self._far_labels = [self._port_labels[port.peer_id] for port in clos.ports()]
        self._host_labels = [(lab, host) for host in reader.nics]
        self._uplink_labels = {
            link.id: (lab, str(link.plane), link.upper.node.name, link.name)
            for link in links
            if not link.is_host_link and clos.spec.forwarding != "ecmp"
        }
        # names of labels -> their values for each place, with the node whose ports it sums
        places: dict[Labels, Mapping[Labels, Node | None]] = {
            ("lab", "node"): dict.fromkeys(self._host_labels),
            ("lab", "plane", "tier", "node", "link"): dict.fromkeys(self._port_labels),
            ("lab", "plane", "tier", "node"): {
                (lab, str(node.plane), node.tier.value, node.name): node for node in clos.switches()
            },
            ("lab", "tier", "node"): {(lab, node.tier.value, node.name): node for node in clos.nodes()},
        }
        self._counter_labels = {
            metric: (
                _with_each(heads, metric.counters.values()),
                [[port.id for port in clos.ports_of(node)] for node in heads.values() if node],
            )
            for metric in METRICS
            if metric.counters and (clos.spec.is_shaped or metric not in _SHAPED_ONLY)
            for heads in [places[metric.labels[: None if None in metric.counters.values() else -1]]]
        }
        self._class_labels = {
            traffic_class: _with_each(self._port_labels, [traffic_class.name.lower()])
            for traffic_class in TRAFFIC_CLASSES
        }
        self._probes = None if clos.spec.probing is None else LinkProbeCounts(paths, clos)
        self._watch = LinkWatch(clos)
        paths_probed = [] if self._probes is None else [outcome.path for outcome in self._probes.read()]
        self._probe_labels = [
            (lab, str(path.plane), clos.host(path.host).name, links[path.links[-1]].name)
            for path in paths_probed
        ]

    def collect(self, samples: Samples) -> None:
        own: Samples = {}
        for metric, series in self._families():
            own.setdefault(metric.name, []).extend(series)
        for name, found in own.items():
            samples.setdefault(name, []).extend(found)

    def close(self) -> None:
        self._reader.close()
        if self._probes is not None:
            self._probes.close()

    def _families(self) -> Families:
        yield from self._counters()
        yield from self._nics()
        yield from self._qps()
        yield fabric_metrics.LINK_UP, zip(self._port_labels, map(int, self._reader.ports_up()), strict=True)
        if self._reader.clos.spec.is_shaped:
            yield from self._queues()
        if self._reader.lossless is not None:
            yield from self._flow_control(self._reader.lossless)
        if self._probes is not None:
            yield from self._link_probes(self._probes)
        yield from self._faults()
        yield from self._measured()

    def _counters(self) -> Families:
        """The metrics that name counters of NICs or ports."""
        by_nic = zip(*(nic.counters() for nic in self._reader.nics.values()), strict=True)
        by_kind: dict[type[IntEnum], Sequence[Sequence[int]]] = {
            NicCounter: list(by_nic),
            PortCounter: self._reader.port_counters(),
        }
        for metric, (labels, places) in self._counter_labels.items():
            columns = [by_kind[type(counter)][counter] for counter in metric.counters]
            if places:
                columns = [[sum(map(column.__getitem__, ports)) for ports in places] for column in columns]
            values = columns[0] if len(columns) == 1 else chain.from_iterable(zip(*columns, strict=True))
            yield metric, zip(labels, values, strict=True)

    def _nics(self) -> Families:
        nics = self._reader.nics.values()
        by_sender = [nic.message_completion() for nic in nics]
        yield endpoint_metrics.MESSAGE_COMPLETION_SECONDS, [((self._lab,), merge(by_sender))]
        yield endpoint_metrics.SENDER_COMPLETION_SECONDS, zip(self._host_labels, by_sender, strict=True)
        by_plane = zip(*(nic.packet_rtt() for nic in nics), strict=True)
        rtts = [((self._lab, str(plane)), merge(histograms)) for plane, histograms in enumerate(by_plane)]
        yield endpoint_metrics.PACKET_RTT_SECONDS, rtts
        for (*change, plane), count in self._reader.ev_changes().items():
            if count or tuple(change) in _USUAL_TRANSITIONS:
                before, after, reason = (each.name for each in change)
                ends = (self._lab, str(plane), before, after, reason.lower())
                yield endpoint_metrics.EV_TRANSITIONS, [(ends, count)]

    def _qps(self) -> Families:
        numbering = self._reader.clos.numbering
        by_host = [nic.qps() for nic in self._reader.nics.values()]
        for metric, pick in _OF_QPS.items():
            yield metric, zip(self._host_labels, map(pick, by_host), strict=True)
        link_evs: Counter[tuple[int, EvState]] = Counter()
        for index, (node, qps) in enumerate(zip(self._host_labels, by_host, strict=True)):
            states = product(range(numbering.planes), EV_STATES)
            yield (
                endpoint_metrics.EV_STATE,
                [
                    ((*node, str(plane), state.name), qps.states.get((plane, state), 0))
                    for plane, state in states
                ],
            )
            pairs = [tuple(str(number - 1) if number else "" for number in pair) for pair in qps.profiles]
            yield endpoint_metrics.QP_INFO, [((*node, *pair), 1) for pair in sorted(pairs)]
            for path, count in qps.paths.items():
                row = numbering.row(index)
                for link_id in numbering.links_of_way(path.plane, row, path.peer_row, path.way):
                    link_evs[link_id, path.state] += count
        for link_id, uplink in self._uplink_labels.items():
            counts = [((*uplink, state.name), link_evs[link_id, state]) for state in EV_STATES]
            yield fabric_metrics.LINK_EVS, counts
        if 0 < len(self._uplink_labels) <= Limit.NIC_PATHS:
            times = self._reader.link_suspicions()
            series = [(labels, times[link_id]) for link_id, labels in self._uplink_labels.items()]
            yield fabric_metrics.LINK_SUSPICIONS, series

    def _queues(self) -> Families:
        for traffic_class, labels in self._class_labels.items():
            delays = self._reader.queue_delays(traffic_class)
            depths_bytes = self._reader.queue_bytes(traffic_class)
            yield fabric_metrics.QUEUE_BYTES, zip(labels, depths_bytes, strict=True)
            waits = (delay.sum_ns / _NS_PER_SECOND for delay in delays)
            yield fabric_metrics.QUEUE_WAIT_SECONDS, zip(labels, waits, strict=True)
            by_tier: dict[Labels, list[QueueDelay]] = {}
            for (lab, plane, tier, *_, name), delay in zip(labels, delays, strict=True):
                by_tier.setdefault((lab, plane, tier, name), []).append(delay)
            merged = [(tier, merge_delays(parts)) for tier, parts in by_tier.items()]
            yield fabric_metrics.QUEUE_DELAY_SECONDS, merged
        lateness = self._reader.queue_lateness()
        if lateness is not None:
            yield testbed_metrics.QUEUE_LATENESS_SECONDS, [((self._lab,), lateness)]

    def _flow_control(self, lossless: LosslessReader) -> Families:
        near, far, links = self._port_labels, self._far_labels, lossless.links()
        buffered = (link.buffered_bytes for link in links)
        yield fabric_metrics.INGRESS_BUFFER_BYTES, zip(far, buffered, strict=True)
        if self._reader.clos.spec.flow_control == "pfc":
            frames = chain.from_iterable((link.pauses, link.resumes) for link in links)
            yield fabric_metrics.PAUSE_FRAMES, zip(_with_each(far, ["pause", "resume"]), frames, strict=True)
            paused = (link.paused_ns / _NS_PER_SECOND for link in links)
            yield fabric_metrics.PAUSED_SECONDS, zip(near, paused, strict=True)
        else:
            yield fabric_metrics.CREDIT_STALLS, zip(near, (link.stalls for link in links), strict=True)
            stalled = (link.stalled_ns / _NS_PER_SECOND for link in links)
            yield fabric_metrics.CREDIT_STALLED_SECONDS, zip(near, stalled, strict=True)
        found = lossless.deadlock()
        yield fabric_metrics.DEADLOCK, [((self._lab,), len(found.port_ids) if found else 0)]

    def _link_probes(self, probes: LinkProbeCounts) -> Families:
        outcomes = probes.read()
        counts = chain.from_iterable((each.passed, each.failed, each.late) for each in outcomes)
        labels = _with_each(self._probe_labels, ["passed", "failed", "late"])
        yield fabric_metrics.LINK_PROBES, zip(labels, counts, strict=True)
        rtts = (outcome.rtt_sum_ns / _NS_PER_SECOND for outcome in outcomes)
        yield fabric_metrics.LINK_PROBE_RTT_SECONDS, zip(self._probe_labels, rtts, strict=True)
        diagnosis = self._watch.add(monotonic_ns(), outcomes)
        suspected = [
            (self._link_labels[link_id], int(link_id in diagnosis.suspects))
            for link_id in sorted(diagnosis.health)
        ]
        yield fabric_metrics.LINK_PROBE_SUSPECT, suspected

    def _measured(self) -> Families:
        """The measurements of commands."""
        for measured in read_measured(self._state_dir):
            of_kind = (self._lab, measured.kind)
            if measured.what == COLLECTIVE:
                yield endpoint_metrics.COLLECTIVE_DURATION_SECONDS, [(of_kind, measured.times)]
                yield endpoint_metrics.COLLECTIVE_BUS_BYTES, [(of_kind, measured.size_bytes)]
            elif measured.what == STEP:
                series = [((*of_kind, measured.workload), measured.times)]
                yield endpoint_metrics.TRAINING_STEP_SECONDS, series
        for recovery in read_recovery(self._state_dir):
            labels = (self._lab, recovery.fault_id, recovery.phase)
            yield fabric_metrics.RECOVERY_SECONDS, [(labels, recovery.time_ns / _NS_PER_SECOND)]

    def _faults(self) -> Families:
        """The run and the faults of the lab."""
        lab, run, record = self._lab, read_run(self._state_dir), self._fault_record
        if run is not None:
            yield testbed_metrics.RUN_INFO, [((lab, run.scenario, run.run, str(run.seed)), 1)]
        for fault in sorted(record.shown(run, monotonic_ns())):
            yield fabric_metrics.FAULT_ACTIVE, [((lab, *fault, record.places[fault]), 1)]
        totals = record.totals()
        kinds = sorted(self._fault_kinds | totals.injected.keys())
        yield fabric_metrics.FAULTS_INJECTED, [((lab, kind), totals.injected[kind]) for kind in kinds]
        outages = record.outages_so_far(monotonic_ns())
        yield fabric_metrics.LINK_FLAPS, [(labels, outages[labels[-1]]) for labels in self._link_labels]


def _with_each(heads: Iterable[Labels], values: Iterable[str | None]) -> list[Labels]:
    """All *heads*, each with each of *values* behind it; None adds nothing."""
    tails = [() if value is None else (value,) for value in values]
    return [(*head, *tail) for head, tail in product(heads, tails)]


def open_reader(name: str, *, qp_search_readings: int = QP_SEARCH_READINGS) -> LabReader:
    """The maps of the lab *name*, which must be up; the caller closes the reader."""
    paths = lab_paths(name)
    reader = _open(paths, qp_search_readings)
    if reader is None and not paths.folder.exists():
        raise no_such_lab(name)
    if reader is None:
        raise FabricError(f"lab {name!r} is not up", hint=f"bring it up: mrc-testbed up -n {name}")
    return reader


class LabWatch:
    """The labs of a set of names through their lives: which are up, and the maps of the one that is up now.

    A lab that is taken down and brought up again has new maps under the old name. Its state file shows it: it
    is another file then. Looking costs one stat per lab.

    Args:
        names: labs to follow, whether they are up yet or not; none: all labs of the machine.
    """

    def __init__(self, names: Sequence[str], fault_kinds: Iterable[str] = ()) -> None:
        self._fault_kinds = tuple(fault_kinds)
        self._names = tuple(names)
        self._paths = {name: lab_paths(name) for name in names}
        self._open: dict[str, tuple[StateMark, LabCollector]] = {}
        self._refused: dict[str, StateMark] = {}

    def names(self) -> tuple[str, ...]:
        return self._names or lab_folders()

    def collector(self, name: str) -> LabCollector | None:
        """Collector of the lab's present maps; None while it is not up or cannot be read."""
        paths = self._paths.get(name) or lab_paths(name)
        mark = state_mark(paths)
        if name in self._open:
            known, collector = self._open[name]
            if known == mark:
                return collector
            self.forget(name)
        if mark is None or self._refused.get(name) == mark:
            return None
        return self._try_open(name, paths, mark)

    def forget(self, name: str) -> None:
        """Closes the lab's maps; the next `collector` reopens them."""
        if name in self._open:
            self._open.pop(name)[1].close()

    def close(self) -> None:
        for name in list(self._open):
            self.forget(name)

    def _try_open(self, name: str, paths: LabPaths, mark: StateMark) -> LabCollector | None:
        try:
            reader = _open(paths)
        except FabricError as error:
            # reported once per state of the lab, not at each scrape
            _LOG.warning("lab %s cannot be read: %s", name, error)
            self._refused[name] = mark
            return None
        if reader is None:
            return None
        collector = LabCollector(reader, paths, self._fault_kinds)
        self._open[name] = (mark, collector)
        return collector


def _open(paths: LabPaths, qp_search_readings: int = QP_SEARCH_READINGS) -> LabReader | None:
    """The maps of a lab; None while it is not up."""
    state = read_state(paths)
    if state is None or state.phase is not Phase.UP:
        return None
    return LabReader(
        paths.lab,
        resolve_topology(state.spec),
        paths.fabric_pins,
        paths.pins / "nodes",
        qp_search_readings=qp_search_readings,
        hidden=paths.faults / HIDDEN_FILE,
    )


def state_mark(paths: LabPaths) -> StateMark | None:
    """The mark that distinguishes the lab's present state file from earlier ones; None without one."""
    try:
        status = paths.state_file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns
