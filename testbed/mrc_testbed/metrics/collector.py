"""Turns the maps of one lab into samples of the catalogue's metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from typing import Final

from mrc_agents.abi import EvReason, EvState, NicCounter, PortCounter, QueueDelay, TrafficClass
from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.link_probes import LinkProbeCounts
from mrc_testbed.fabric.lossless import LosslessReader
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.metrics import endpoint_metrics, fabric_metrics, probe_metrics, testbed_metrics
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.exposition import Samples, Value
from mrc_testbed.metrics.fault_record import FaultRecord
from mrc_testbed.metrics.histogram import merge
from mrc_testbed.metrics.measured import COLLECTIVE, STEP, read_measured, read_recovery
from mrc_testbed.metrics.metric import Metric
from mrc_testbed.metrics.queue_delay import merge_delays
from mrc_testbed.metrics.reader import EvPath, LabReader, NicReader
from mrc_testbed.metrics.run_info import RunInfo, read_run
from mrc_testbed.metrics.series import EV_STATES
from mrc_testbed.probing.watch import LinkWatch
from mrc_testbed.topology.clos import Clos

Labels = tuple[str, ...]
Add = Callable[[Metric, Labels, Value], None]
AddAll = Callable[[Metric, Iterable[Labels], Iterable[Value]], None]
"""Add many series of a metric at once: a scrape has ten thousand of ports and NICs."""

_NS_PER_SECOND: Final = 1e9
TRAFFIC_CLASSES: Final = (TrafficClass.CONTROL, TrafficClass.DATA)

_USUAL_TRANSITIONS: Final = {
    (EvState.GOOD, EvState.ASSUMED_BAD, EvReason.LOSS),
    (EvState.GOOD, EvState.ASSUMED_BAD, EvReason.TIMEOUT),
    (EvState.ASSUMED_BAD, EvState.GOOD, EvReason.PROBE),
}
"""Shown from the start, at zero, so that the first one is a rate; others from when they first occur."""

_NIC_METRICS: Final = tuple(
    metric for metric in METRICS if any(isinstance(counter, NicCounter) for counter in metric.counters)
)


class LabCollector:
    """Collects from one lab.

    Args:
        reader: the lab's maps.
        paths: where the lab's files are.
        fault_kinds: kinds of fault that are counted from 0 on; others appear when one is injected.
    """

    def __init__(self, reader: LabReader, paths: LabPaths, fault_kinds: Iterable[str] = ()) -> None:
        self._reader = reader
        self._state_dir = paths.folder
        self._faults = FaultRecord(paths.faults)
        self._fault_kinds = frozenset(fault_kinds)
        self._ports = _port_labels(reader.name, reader.clos)
        self._port_drops = _with_each(self._ports, fabric_metrics.LINK_DROPS.counters.values())
        self._port_classes = {
            traffic_class: _with_each(self._ports, [traffic_class.name.lower()])
            for traffic_class in TRAFFIC_CLASSES
        }
        hosts = [(reader.name, host) for host in reader.nics]
        self._nics = {metric: _with_each(hosts, metric.counters.values()) for metric in _NIC_METRICS}
        self._far_ports = [port.peer_id for port in reader.clos.ports()]
        self._switches = _switch_ports(reader.name, reader.clos)
        self._nodes = _node_ports(reader.name, reader.clos)
        self._probes: LinkProbeCollector | None = None
        if reader.clos.spec.probing is not None:
            counts = LinkProbeCounts(paths, reader.clos)
            self._probes = LinkProbeCollector(reader.name, reader.clos, counts)
        self._uplinks = _uplink_labels(reader.name, reader.clos)
        self._links = [(link.name, (reader.name, str(link.plane), link.name)) for link in reader.clos.links()]

    def collect(self, samples: Samples) -> None:
        """Adds the lab's series to *samples*."""
        own: Samples = {}

        def add(metric: Metric, labels: Labels, value: Value) -> None:
            own.setdefault(metric.name, []).append((labels, value))

        def add_all(metric: Metric, labels: Iterable[Labels], values: Iterable[Value]) -> None:
            own.setdefault(metric.name, []).extend(zip(labels, values, strict=True))

        self._collect_nics(add, add_all)
        self._collect_ports(add, add_all)
        if self._probes is not None:
            self._probes.collect(add)
        run = read_run(self._state_dir)
        self._collect_faults(add, run)
        self._collect_measured(add)
        if run is not None:
            add(testbed_metrics.RUN_INFO, (self._reader.name, run.scenario, run.run, str(run.seed)), 1)
        for name, series in own.items():
            samples.setdefault(name, []).extend(series)

    def close(self) -> None:
        self._reader.close()
        if self._probes is not None:
            self._probes.close()

    def _collect_nics(self, add: Add, add_all: AddAll) -> None:
        lab = self._reader.name
        numbering = self._reader.clos.numbering
        link_evs: Counter[tuple[int, EvState]] = Counter()
        by_nic = [nic.counters() for nic in self._reader.nics.values()]
        for metric, all_labels in self._nics.items():
            picked = (counters[counter] for counters in by_nic for counter in metric.counters)
            add_all(metric, all_labels, picked)
        by_sender = {host: nic.message_completion() for host, nic in self._reader.nics.items()}
        add(endpoint_metrics.MESSAGE_COMPLETION_SECONDS, (lab,), merge(by_sender.values()))
        for host, times in by_sender.items():
            add(endpoint_metrics.SENDER_COMPLETION_SECONDS, (lab, host), times)
        for index, (host, nic) in enumerate(self._reader.nics.items()):
            for path, count in self._collect_qps(add, host, nic).items():
                for row in (numbering.row(index), path.peer_row):
                    link_evs[numbering.fabric_link_id(path.plane, row, path.uplink), path.state] += count
        for link_id, labels in self._uplinks.items():
            for state in EV_STATES:
                add(fabric_metrics.LINK_EVS, (*labels, state.name), link_evs[link_id, state])
        self._collect_transitions(add)
        by_host = [nic.packet_rtt() for nic in self._reader.nics.values()]
        for plane, histograms in enumerate(zip(*by_host, strict=True)):
            add(endpoint_metrics.PACKET_RTT_SECONDS, (lab, str(plane)), merge(histograms))

    def _collect_qps(self, add: Add, host: str, nic: NicReader) -> Mapping[EvPath, int]:
        """Adds what a host's QPs show; where their EVs lead."""
        counts, windows, reorder_packets, paths = nic.qps()
        node = (self._reader.name, host)
        add(endpoint_metrics.REORDER_DEPTH, node, reorder_packets)
        add(endpoint_metrics.SENDING_QPS, node, windows.sending_qps)
        add(endpoint_metrics.CWND_BYTES, node, windows.cwnd_bytes)
        add(endpoint_metrics.CWND_MAX_BYTES, node, windows.max_wnd_bytes)
        add(endpoint_metrics.INFLIGHT_BYTES, node, windows.inflight_bytes)
        add(endpoint_metrics.QUEUEING_DELAY_SECONDS, node, windows.mean_delay_ns / 1e9)
        for plane in range(self._reader.clos.spec.planes):
            for state in EV_STATES:
                labels = (self._reader.name, host, str(plane), state.name)
                add(endpoint_metrics.EV_STATE, labels, counts.get((plane, state), 0))
        return paths

    def _collect_transitions(self, add: Add) -> None:
        for (*change, plane), count in self._reader.ev_changes().items():
            if count or tuple(change) in _USUAL_TRANSITIONS:
                before, after, reason = (each.name for each in change)
                labels = (self._reader.name, str(plane), before, after, reason.lower())
                add(endpoint_metrics.EV_TRANSITIONS, labels, count)

    def _collect_ports(self, add: Add, add_all: AddAll) -> None:
        counters = self._reader.port_counters()
        add_all(fabric_metrics.PORT_TX_PACKETS, self._ports, counters[PortCounter.TX_PACKETS])
        add_all(fabric_metrics.PORT_TX_BYTES, self._ports, counters[PortCounter.TX_BYTES])
        add_all(fabric_metrics.LINK_UP, self._ports, map(int, self._reader.ports_up()))
        by_port = zip(*(counters[drop] for drop in fabric_metrics.LINK_DROPS.counters), strict=True)
        add_all(fabric_metrics.LINK_DROPS, self._port_drops, chain.from_iterable(by_port))
        if self._reader.clos.spec.is_shaped:
            add_all(fabric_metrics.ECN_MARKS, self._ports, counters[PortCounter.ECN_MARKS])
            add_all(fabric_metrics.TRIMS, self._ports, counters[PortCounter.TRIMS])
            self._collect_queues(add, add_all)
        if self._reader.lossless is not None:
            self._collect_flow_control(add, self._reader.lossless)
        for labels, port_ids in self._switches:
            for drop, reason in fabric_metrics.SWITCH_DROPS.counters.items():
                add(
                    fabric_metrics.SWITCH_DROPS,
                    (*labels, str(reason)),
                    _pick_sum(counters[drop], port_ids),
                )
        for labels, port_ids in self._nodes:
            add(
                fabric_metrics.PASSED_TO_STACK,
                labels,
                _pick_sum(counters[PortCounter.PASSED_TO_STACK], port_ids),
            )

    def _collect_queues(self, add: Add, add_all: AddAll) -> None:
        for traffic_class, all_labels in self._port_classes.items():
            delays = self._reader.queue_delays(traffic_class)
            add_all(fabric_metrics.QUEUE_BYTES, all_labels, self._reader.queue_bytes(traffic_class))
            waits = (delay.sum_ns / _NS_PER_SECOND for delay in delays)
            add_all(fabric_metrics.QUEUE_WAIT_SECONDS, all_labels, waits)
            by_tier: dict[tuple[str, str], list[QueueDelay]] = {}
            for (_, plane, tier, *_), delay in zip(self._ports, delays, strict=True):
                by_tier.setdefault((plane, tier), []).append(delay)
            for (plane, tier), parts in by_tier.items():
                labels = (self._reader.name, plane, tier, traffic_class.name.lower())
                add(fabric_metrics.QUEUE_DELAY_SECONDS, labels, merge_delays(parts))

    def _collect_flow_control(self, add: Add, lossless: LosslessReader) -> None:
        is_pfc = self._reader.clos.spec.flow_control == "pfc"
        for port_id, link in enumerate(lossless.links()):
            near, far = self._ports[port_id], self._ports[self._far_ports[port_id]]
            add(fabric_metrics.INGRESS_BUFFER_BYTES, far, link.buffered_bytes)
            if is_pfc:
                add(fabric_metrics.PAUSE_FRAMES, (*far, "pause"), link.pauses)
                add(fabric_metrics.PAUSE_FRAMES, (*far, "resume"), link.resumes)
                add(fabric_metrics.PAUSED_SECONDS, near, link.paused_ns / _NS_PER_SECOND)
            else:
                add(fabric_metrics.CREDIT_STALLS, near, link.stalls)
                add(fabric_metrics.CREDIT_STALLED_SECONDS, near, link.stalled_ns / _NS_PER_SECOND)
        found = lossless.deadlock()
        add(fabric_metrics.DEADLOCK, (self._reader.name,), len(found.port_ids) if found else 0)

    def _collect_measured(self, add: Add) -> None:
        """Collect the measurements of commands, and how late frames left their queues."""
        lab = self._reader.name
        for measured in read_measured(self._state_dir):
            if measured.what == COLLECTIVE:
                add(endpoint_metrics.COLLECTIVE_DURATION_SECONDS, (lab, measured.kind), measured.times)
                add(endpoint_metrics.COLLECTIVE_BUS_BYTES, (lab, measured.kind), measured.size_bytes)
            elif measured.what == STEP:
                labels = (lab, measured.kind, measured.workload)
                add(endpoint_metrics.TRAINING_STEP_SECONDS, labels, measured.times)
        for recovery in read_recovery(self._state_dir):
            add(
                fabric_metrics.RECOVERY_SECONDS,
                (lab, recovery.fault_id, recovery.phase),
                recovery.time_ns / 1e9,
            )
        lateness = self._reader.queue_lateness()
        if lateness is not None:
            add(testbed_metrics.QUEUE_LATENESS_SECONDS, (lab,), lateness)

    def _collect_faults(self, add: Add, run: RunInfo | None) -> None:
        lab = self._reader.name
        for fault in sorted(self._faults.shown(run, monotonic_ns())):
            add(fabric_metrics.FAULT_ACTIVE, (lab, fault.fault_id, fault.kind), 1)
        totals = self._faults.totals()
        for kind in sorted(self._fault_kinds | totals.injected.keys()):
            add(fabric_metrics.FAULTS_INJECTED, (lab, kind), totals.injected[kind])
        outages = self._faults.outages_so_far(monotonic_ns())
        for name, labels in self._links:
            add(fabric_metrics.LINK_FLAPS, labels, outages[name])


def _port_labels(lab: str, clos: Clos) -> list[Labels]:
    """Values of lab, plane, tier, node, link for each port."""
    links = [link.name for link in clos.links()]
    return [
        (lab, str(port.plane), port.node.tier.value, port.node.name, links[port.link_id])
        for port in clos.ports()
    ]


def _with_each(heads: Iterable[Labels], values: Iterable[str | None]) -> list[Labels]:
    """All *heads*, each with each of *values* behind it; None adds nothing."""
    tails = [() if value is None else (value,) for value in values]
    return [(*head, *tail) for head, tail in product(heads, tails)]


def _uplink_labels(lab: str, clos: Clos) -> dict[int, Labels]:
    """Link id -> values of lab, plane, node (the T1), link of each link whose EVs are known."""
    if clos.spec.forwarding == "ecmp":
        return {}
    return {
        link.id: (lab, str(link.plane), link.upper.node.name, link.name)
        for link in clos.links()
        if not link.is_host_link
    }


def _switch_ports(lab: str, clos: Clos) -> list[tuple[Labels, list[int]]]:
    """Values of lab, plane, tier, node and the port ids for each switch."""
    return [
        (
            (lab, str(switch.plane), switch.tier.value, switch.name),
            [port.id for port in clos.ports_of(switch)],
        )
        for switch in clos.switches()
    ]


def _node_ports(lab: str, clos: Clos) -> list[tuple[Labels, list[int]]]:
    """Values of lab, tier, node and the port ids for each node."""
    return [
        ((lab, node.tier.value, node.name), [port.id for port in clos.ports_of(node)])
        for node in clos.nodes()
    ]


def _pick_sum(values: Sequence[int], indices: Iterable[int]) -> int:
    return sum(values[index] for index in indices)


class LinkProbeCollector:
    """Collects from a lab whose hosts probe.

    Args:
        lab: its name.
        clos: its fabric.
        counts: its probes; closed with the collector.
    """

    def __init__(self, lab: str, clos: Clos, counts: LinkProbeCounts) -> None:
        self._lab = lab
        self._clos = clos
        self._counts = counts
        self._watch = LinkWatch(clos)
        self._labels = [
            (lab, str(path.plane), clos.host(path.host).name, clos.link(path.links[-1]).name)
            for path in (outcome.path for outcome in counts.read())
        ]

    def close(self) -> None:
        self._counts.close()

    def collect(self, add: Add) -> None:
        outcomes = self._counts.read()
        for labels, outcome in zip(self._labels, outcomes, strict=True):
            for name, count in (
                ("passed", outcome.passed),
                ("failed", outcome.failed),
                ("late", outcome.late),
            ):
                add(probe_metrics.LINK_PROBES, (*labels, name), count)
            add(probe_metrics.LINK_PROBE_RTT_SECONDS, labels, outcome.rtt_sum_ns / _NS_PER_SECOND)
        diagnosis = self._watch.add(monotonic_ns(), outcomes)
        for link_id in sorted(diagnosis.health):
            link = self._clos.link(link_id)
            is_suspect = int(link_id in diagnosis.suspects)
            add(probe_metrics.LINK_PROBE_SUSPECT, (self._lab, str(link.plane), link.name), is_suspect)
