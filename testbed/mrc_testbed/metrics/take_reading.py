"""One reading of a lab; who takes them keeps the time himself."""

from collections import Counter
from collections.abc import Callable, Sequence

from mrc_agents.abi import EvState, PortCounter, TrafficClass
from mrc_agents.clock import monotonic_ns
from mrc_testbed.metrics.counters import PORT_DROPS, reason_label
from mrc_testbed.metrics.cpu_use import CpuReading, read_cpus
from mrc_testbed.metrics.histogram import merge
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.series import FlowCounts, HostCounts, QueueGroup, Reading


def take_reading(lab: LabReader, read_cpus: Callable[[int], CpuReading] = read_cpus) -> Reading:
    """A reading of now."""
    time_ns = monotonic_ns()
    hosts = {name: HostCounts.of(nic.counters()) for name, nic in lab.nics.items()}
    ports = lab.port_counters()
    rtts = [nic.packet_rtt() for nic in lab.nics.values()]
    ev_states: Counter[tuple[int, EvState]] = Counter()
    for nic in lab.nics.values():
        ev_states.update(nic.ev_states())
    return Reading(
        time_ns=time_ns,
        hosts=hosts,
        packet_rtt=tuple(merge(planes) for planes in zip(*rtts, strict=True)),
        message_completion=merge(nic.message_completion() for nic in lab.nics.values()),
        ev_states=ev_states,
        plane_tx_bytes=_sum_nic_ports(lab, ports[PortCounter.TX_BYTES]),
        port_drops={reason_label(drop): sum(ports[drop]) for drop in PORT_DROPS},
        cpus=read_cpus(time_ns),
        queue_lateness=lab.queue_lateness(),
        flow=_flow_counts(lab),
        deadlock=None if lab.lossless is None else lab.lossless.deadlock(),
        deepest_queue_bytes=_deepest_queue_bytes(lab),
        ecn_marks=sum(ports[PortCounter.ECN_MARKS]),
        trims=sum(ports[PortCounter.TRIMS]),
    )


def _flow_counts(lab: LabReader) -> FlowCounts:
    if lab.lossless is None:
        return FlowCounts()
    links = lab.lossless.links()
    return FlowCounts(
        pauses=sum(link.pauses for link in links),
        paused_ns=sum(link.paused_ns for link in links),
        stalls=sum(link.stalls for link in links),
        stalled_ns=sum(link.stalled_ns for link in links),
    )


def _deepest_queue_bytes(lab: LabReader) -> dict[QueueGroup, int]:
    """The deepest queue of data of each group of ports; the lower end of a link has the even port id."""
    depths_bytes = lab.queue_bytes(TrafficClass.DATA)
    if not depths_bytes:
        return {}
    host_ports = 2 * lab.clos.numbering.host_link_count
    at_hosts, in_fabric = depths_bytes[:host_ports], depths_bytes[host_ports:]
    by_group: dict[QueueGroup, list[int]] = {
        "nic": at_hosts[::2],
        "t0_down": at_hosts[1::2],
        "t0_up": in_fabric[::2],
        "t1": in_fabric[1::2],
    }
    return {group: max(depths) for group, depths in by_group.items()}


def _sum_nic_ports(lab: LabReader, values: Sequence[int]) -> tuple[int, ...]:
    """Sum by plane of what NIC ports have in *values*: (port_count,)."""
    numbering = lab.clos.numbering
    nic_ports = values[: 2 * numbering.host_link_count : 2]  # the lower end of a host link; see numbering
    return tuple(sum(nic_ports[plane :: numbering.planes]) for plane in range(numbering.planes))
