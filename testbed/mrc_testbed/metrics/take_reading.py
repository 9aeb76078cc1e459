"""One reading of a lab. The caller decides when to take one."""

from collections.abc import Callable, Sequence

from mrc_agents.abi import PortCounter, TrafficClass
from mrc_agents.clock import monotonic_ns
from mrc_testbed.metrics.counters import PORT_DROPS, reason_label
from mrc_testbed.metrics.cpu_use import CpuReading, read_cpus
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.series import Details, FlowCounts, QueueGroup, Reading
from mrc_testbed.topology.clos import Clos


def take_reading(
    lab: LabReader, read_cpus: Callable[[int], CpuReading] = read_cpus, *, with_details: bool = False
) -> Reading:
    """A reading of now; its details are empty unless they are asked for."""
    time_ns = monotonic_ns()
    sums, ports = lab.sums(), lab.port_counters()
    links = [] if lab.lossless is None else lab.lossless.links()
    queue_bytes = lab.queue_bytes(TrafficClass.DATA)
    details = Details()
    if with_details:
        details = Details(
            ports_up=tuple(lab.ports_up()),
            queue_bytes=tuple(queue_bytes),
            tx_bytes=tuple(ports[PortCounter.TX_BYTES]),
            dropped=tuple(map(sum, zip(*(ports[drop] for drop in PORT_DROPS), strict=True))),
            ev_changes=lab.ev_changes(),
            profiles={host: nic.profiles for host, nic in lab.nics.items() if nic.profiles},
            held_ns=tuple(link.stalled_ns for link in links),
        )
    return Reading(
        time_ns=time_ns,
        **sums._asdict(),
        plane_tx_bytes=_sum_nic_ports(lab.clos, ports[PortCounter.TX_BYTES]),
        port_drops={reason_label(drop): sum(ports[drop]) for drop in PORT_DROPS},
        cpus=read_cpus(time_ns),
        queue_lateness=lab.queue_lateness(),
        flow=FlowCounts(*(sum(getattr(link, name) for link in links) for name in FlowCounts.__match_args__)),
        deadlock=None if lab.lossless is None else lab.lossless.deadlock(),
        deepest_queue_bytes=_deepest(lab.clos, queue_bytes) if queue_bytes else {},
        ecn_marks=sum(ports[PortCounter.ECN_MARKS]),
        trims=sum(ports[PortCounter.TRIMS]),
        details=details,
    )


def _deepest(clos: Clos, queue_bytes: Sequence[int]) -> dict[QueueGroup, int]:
    """The deepest queue of each group of ports; the lower end of a link has the even port id."""
    up, down = queue_bytes[::2], queue_bytes[1::2]
    hosts, uplinks = clos.numbering.links_at(0).stop, clos.numbering.links_at(1).stop
    return {
        "nic": max(up[:hosts]),
        "t0_down": max(down[:hosts]),
        "t0_up": max(up[hosts:uplinks]),
        "t1": max([*down[hosts:], *up[uplinks:]]),
    }


def _sum_nic_ports(clos: Clos, values: Sequence[int]) -> tuple[int, ...]:
    """Sum by plane of what NIC ports have in *values*: (port_count,)."""
    nic_ports = values[
        : 2 * clos.numbering.host_link_count : 2
    ]  # the lower end of a host link; see numbering
    return tuple(sum(nic_ports[plane :: clos.spec.planes]) for plane in range(clos.spec.planes))
