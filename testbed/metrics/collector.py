"""Turns the maps of one lab into samples of the catalogue's metrics."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Final

from agents.wire_abi import EvReason, EvState, NicCounter, PortCounter, TrafficClass
from testbed.fabric.state import LabPaths
from testbed.metrics import catalogue
from testbed.metrics.catalogue import Metric
from testbed.metrics.counters import (
    LINK_DROPS,
    NIC_DROPS,
    RETRANSMIT_REASONS,
    RX_KINDS,
    SWITCH_DROPS,
    TX_KINDS,
    reason_label,
)
from testbed.metrics.exposition import Samples, Value
from testbed.metrics.fault_record import OUTAGE_KINDS, FaultRecord
from testbed.metrics.histogram import merge
from testbed.metrics.reader import LabReader, NicReader, ev_transition_index
from testbed.metrics.run_info import read_run
from testbed.metrics.series import EV_STATES
from testbed.topology.clos import Clos

Labels = tuple[str, ...]
Add = Callable[[Metric, Labels, Value], None]

TRAFFIC_CLASSES: Final = (TrafficClass.CONTROL, TrafficClass.DATA)

_USUAL_TRANSITIONS: Final = {
    (EvState.GOOD, EvState.ASSUMED_BAD, EvReason.LOSS),
    (EvState.GOOD, EvState.ASSUMED_BAD, EvReason.TIMEOUT),
    (EvState.ASSUMED_BAD, EvState.GOOD, EvReason.PROBE),
}
"""Shown from the start, at zero, so that the first one is a rate; others from when they first occur."""

_NIC_METRICS: Final = (
    (catalogue.GOODPUT_BYTES, NicCounter.RX_PLACED_BYTES),
    (catalogue.ACKNOWLEDGED_BYTES, NicCounter.ACKED_BYTES),
    (catalogue.MESSAGES_COMPLETED, NicCounter.MESSAGES),
    (catalogue.QP_ERRORS, NicCounter.QP_ERRORS),
    (catalogue.EVENTS_LOST, NicCounter.EVENT_LOST),
)
_NIC_METRICS_BY_LABEL: Final = (
    (catalogue.TX_PACKETS, tuple(TX_KINDS.items())),
    (catalogue.RX_PACKETS, tuple(RX_KINDS.items())),
    (catalogue.RETRANSMITS, tuple(RETRANSMIT_REASONS.items())),
    (catalogue.NIC_DROPS, tuple((drop, reason_label(drop)) for drop in NIC_DROPS)),
)


class LabCollector:
    """Collects from one lab.

    Args:
        reader: the lab's maps.
        paths: where the lab's files are.
    """

    def __init__(self, reader: LabReader, paths: LabPaths) -> None:
        self._reader = reader
        self._state_dir = paths.folder
        self._faults = FaultRecord(paths.faults)
        self._ports = _port_labels(reader.name, reader.clos)
        self._switches = _switch_ports(reader.name, reader.clos)
        self._nodes = _node_ports(reader.name, reader.clos)
        self._links = [(link.name, (reader.name, str(link.plane), link.name)) for link in reader.clos.links()]

    def collect(self, samples: Samples) -> None:
        """Adds the lab's series to *samples*.

        Raises:
            FabricError: a map could not be read; *samples* is unchanged then.
        """
        own: Samples = {}

        def add(metric: Metric, labels: Labels, value: Value) -> None:
            own.setdefault(metric.name, []).append((labels, value))

        self._collect_nics(add)
        self._collect_ports(add)
        self._collect_faults(add)
        run = read_run(self._state_dir)
        if run is not None:
            add(catalogue.RUN_INFO, (self._reader.name, run.scenario, run.run, str(run.seed)), 1)
        for name, series in own.items():
            samples.setdefault(name, []).extend(series)

    def close(self) -> None:
        """Gives the lab's maps up."""
        self._reader.close()

    def _collect_nics(self, add: Add) -> None:
        lab = self._reader.name
        for host, nic in self._reader.nics.items():
            counters = nic.counters()
            for metric, counter in _NIC_METRICS:
                add(metric, (lab, host), counters[counter])
            for metric, parts in _NIC_METRICS_BY_LABEL:
                for counter, label in parts:
                    add(metric, (lab, host, label), counters[counter])
            add(catalogue.MESSAGE_COMPLETION_SECONDS, (lab, host), nic.message_completion())
            self._collect_evs(add, host, nic)
        self._collect_transitions(add)
        by_host = [nic.packet_rtt() for nic in self._reader.nics.values()]
        for plane, histograms in enumerate(zip(*by_host, strict=True)):
            add(catalogue.PACKET_RTT_SECONDS, (lab, str(plane)), merge(histograms))

    def _collect_evs(self, add: Add, host: str, nic: NicReader) -> None:
        counts = nic.ev_states()
        for plane in range(self._reader.clos.spec.planes):
            for state in EV_STATES:
                labels = (self._reader.name, host, str(plane), state.name)
                add(catalogue.EV_STATE, labels, counts.get((plane, state), 0))

    def _collect_transitions(self, add: Add) -> None:
        by_host = [nic.ev_transitions() for nic in self._reader.nics.values()]
        for before, after, reason in product(EV_STATES, EV_STATES, EvReason):
            if before == after or reason is EvReason.COUNT:
                continue
            index = ev_transition_index(before, after, reason)
            for plane in range(self._reader.clos.spec.planes):
                count = sum(transitions[index][plane] for transitions in by_host)
                if count or (before, after, reason) in _USUAL_TRANSITIONS:
                    labels = (self._reader.name, str(plane), before.name, after.name, reason.name.lower())
                    add(catalogue.EV_TRANSITIONS, labels, count)

    def _collect_ports(self, add: Add) -> None:
        counters = self._reader.port_counters()
        packets, sent_bytes = counters[PortCounter.TX_PACKETS], counters[PortCounter.TX_BYTES]
        link_drops = [(reason_label(drop), counters[drop]) for drop in LINK_DROPS]
        for port_id, (labels, is_up) in enumerate(zip(self._ports, self._reader.ports_up(), strict=True)):
            add(catalogue.PORT_TX_PACKETS, labels, packets[port_id])
            add(catalogue.PORT_TX_BYTES, labels, sent_bytes[port_id])
            add(catalogue.LINK_UP, labels, int(is_up))
            for reason, drops in link_drops:
                add(catalogue.LINK_DROPS, (*labels, reason), drops[port_id])
        if self._reader.clos.spec.is_shaped:
            for traffic_class in TRAFFIC_CLASSES:
                depths_bytes = self._reader.queue_bytes(traffic_class)
                for labels, depth_bytes in zip(self._ports, depths_bytes, strict=True):
                    add(catalogue.QUEUE_BYTES, (*labels, traffic_class.name.lower()), depth_bytes)
        for labels, port_ids in self._switches:
            for drop in SWITCH_DROPS:
                add(
                    catalogue.SWITCH_DROPS, (*labels, reason_label(drop)), _pick_sum(counters[drop], port_ids)
                )
        for labels, port_ids in self._nodes:
            add(catalogue.PASSED_TO_STACK, labels, _pick_sum(counters[PortCounter.PASSED_TO_STACK], port_ids))

    def _collect_faults(self, add: Add) -> None:
        lab = self._reader.name
        for fault in self._faults.active():
            add(catalogue.FAULT_ACTIVE, (lab, fault.fault_id, fault.kind), 1)
        totals = self._faults.totals()
        for kind in sorted(OUTAGE_KINDS | totals.injected.keys()):
            add(catalogue.FAULTS_INJECTED, (lab, kind), totals.injected[kind])
        for name, labels in self._links:
            add(catalogue.LINK_FLAPS, labels, totals.outages[name])


def _port_labels(lab: str, clos: Clos) -> list[Labels]:
    """Values of lab, plane, tier, node, link for each port."""
    links = [link.name for link in clos.links()]
    return [
        (lab, str(port.plane), port.node.tier.value, port.node.name, links[port.link_id])
        for port in clos.ports()
    ]


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
