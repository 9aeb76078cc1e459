"""Readings and recordings made by hand, for tests that need exact numbers."""

from collections import Counter
from collections.abc import Mapping

from histograms import histogram_of
from host_tables import host_table

from mrc_agents.abi import EvState
from mrc_testbed.metrics.cpu_use import CpuReading, CpuTimes
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.series import HostCounts, Reading
from mrc_testbed.scenario.measure.event import EvTransition, FaultChange
from mrc_testbed.scenario.measure.recording import FlowReading, Recording
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

ZERO_NS = 1_000_000_000_000
MS = 1_000_000
S = 1_000_000_000


def reading(
    at_ns: int,
    *,
    hosts: Mapping[str, HostCounts] | None = None,
    rtt_ns: tuple[int, ...] = (),
    message_ns: tuple[int, ...] = (),
    drops: Mapping[str, int] | None = None,
    busy_ratio: float = 0.5,
) -> Reading:
    """A reading at *at_ns* on the run's axis of a fabric of four planes and eight hosts."""
    counts = {f"h{host}": HostCounts() for host in range(8)} | dict(hosts or {})
    tick = (ZERO_NS + at_ns) // 10_000_000
    idle = round(tick * (1 - busy_ratio))
    return Reading(
        time_ns=ZERO_NS + at_ns,
        hosts=host_table(counts),
        packet_rtt=(histogram_of(rtt_ns), *(Histogram() for _ in range(3))),
        message_completion=histogram_of(message_ns),
        ev_states={(plane, EvState.GOOD): 32 for plane in range(4)},
        plane_tx_bytes=(0, 0, 0, 0),
        port_drops={"link_down": 0, "loss": 0, "queue_full": 0, "pool_empty": 0} | dict(drops or {}),
        cpus=CpuReading(ZERO_NS + at_ns, (CpuTimes("0", tick, idle, 0, 0),)),
    )


def recording(text: str, readings: list[Reading], *, end_ns: int | None = None) -> Recording:
    """A recording of the scenario *text*, whole unless *end_ns* (on the run's axis) is None."""
    plan = resolve(load_scenario(text))
    made = Recording(plan, start_ns=ZERO_NS + plan.start_ns, zero_ns=ZERO_NS, readings=readings)
    flows = [flow for workload in plan.workloads for flow in workload.flows]
    senders = Counter(flow.source for flow in flows)
    made.flow_readings = [
        FlowReading(
            each.time_ns,
            {flow: each.hosts[flow.source].acknowledged_bytes // senders[flow.source] for flow in flows},
        )
        for each in readings
    ]
    if end_ns is not None:
        made.end_ns = ZERO_NS + end_ns
        made.workload_ends = {workload.name: ZERO_NS + end_ns for workload in plan.workloads}
    return made


def applied(fault_id: str, at_ns: int, occurrence: int = 0) -> FaultChange:
    return FaultChange("applied", fault_id, occurrence, ZERO_NS + at_ns, ZERO_NS + at_ns + 1000)


def cleared(
    fault_id: str, at_ns: int, occurrence: int = 0, *, lost: int = 0, last_lost_ns: int | None = None
) -> FaultChange:
    last_ns = None if last_lost_ns is None else ZERO_NS + last_lost_ns
    return FaultChange(
        "cleared", fault_id, occurrence, ZERO_NS + at_ns, ZERO_NS + at_ns + 1000, lost, last_ns
    )


def left(at_ns: int, entropy: int, host: str = "h0", peer: str = "h4", qpn: int = 256) -> EvTransition:
    return EvTransition(ZERO_NS + at_ns, host, peer, qpn, entropy, EvState.GOOD, EvState.ASSUMED_BAD, "loss")


def back(at_ns: int, entropy: int, host: str = "h0", peer: str = "h4", qpn: int = 256) -> EvTransition:
    return EvTransition(ZERO_NS + at_ns, host, peer, qpn, entropy, EvState.ASSUMED_BAD, EvState.GOOD, "probe")
