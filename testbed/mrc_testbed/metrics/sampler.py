"""Reads a lab at a steady pace: the time series of a run.

`take_reading` is one reading, for who keeps time himself. `Sampler` does it in a thread of its own: the k-th
reading is due at start + k * interval, so lateness does not add up; a reading that is overdue when the next
one is due is left out.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Self

from mrc_agents.abi import EvState, PortCounter, TrafficClass
from mrc_agents.clock import monotonic_ns
from mrc_testbed.metrics.counters import PORT_DROPS, reason_label
from mrc_testbed.metrics.cpu_use import CpuReading, read_cpus
from mrc_testbed.metrics.histogram import merge
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.series import FlowCounts, HostCounts, QueueGroup, Reading

DEFAULT_INTERVAL_NS: Final = 100_000_000


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


class Sampler:
    """Takes readings of a lab until it is stopped.

    Args:
        lab: what to read; nobody else may use this reader meanwhile.
        interval_ns: distance of two readings.
        on_reading: called in the sampler's thread with each reading; it must be quick and must not raise.
    """

    def __init__(
        self,
        lab: LabReader,
        interval_ns: int = DEFAULT_INTERVAL_NS,
        on_reading: Callable[[Reading], None] | None = None,
    ) -> None:
        self._lab = lab
        self._interval_ns = interval_ns
        self._on_reading = on_reading
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.readings: list[Reading] = []  # taken so far, oldest first; the list only grows
        self.latest_ns = 0  # how late the latest reading was begun, at worst
        self.skipped = 0  # readings left out because the machine stood still
        self.cpu_ns = 0  # CPU time spent on readings

    def start(self) -> None:
        """Takes the first reading and begins."""
        self._take()
        self._thread.start()

    def stop(self) -> list[Reading]:
        """All readings, with a last one of now."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        self._take()
        return self.readings

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        due_ns = self.readings[0].time_ns
        try:
            while True:
                due_ns += self._interval_ns
                if self._stop.wait(max(0, due_ns - monotonic_ns()) / 1e9):
                    return
                late_ns = monotonic_ns() - due_ns
                self.latest_ns = max(self.latest_ns, late_ns)
                overdue = late_ns // self._interval_ns
                self.skipped += overdue
                due_ns += overdue * self._interval_ns
                self._take()
        except Exception as error:  # noqa: BLE001 - raised again by `stop`: a thread has nobody to tell
            self._error = error

    def _take(self) -> None:
        begun_ns = time.thread_time_ns()
        reading = take_reading(self._lab)
        self.readings.append(reading)
        if self._on_reading is not None:
            self._on_reading(reading)
        self.cpu_ns += time.thread_time_ns() - begun_ns


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
