"""The trust in the numbers of a recorded run. Pure."""

from collections.abc import Iterator
from typing import Final

from mrc_testbed.metrics.fidelity import (
    Evidence,
    FidelityLimits,
    LatenessReading,
    TrustCheck,
    judge,
    judge_simulation,
    lateness_of,
    limits_for,
)
from mrc_testbed.metrics.series import HostCounts, Reading
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.spec.demand import ASSUMED_FRAME_HOPS_PER_S, plan_demand
from mrc_testbed.shown import format_time
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns

_POOL_EMPTY: Final = "pool_empty"

_LATE_CARRIES_TIMES: Final = 2
"""A machine that is late moves at least so many times the frames that it moves in time."""


def judge_fidelity(recording: Recording) -> tuple[TrustCheck, ...]:
    """Findings about the machine, with limits.

    A reason of lateness leaves each figure within bounds; any other makes the run UNTRUSTED.
    """
    # while programs load, the machine is busy and nothing is measured
    readings = [reading for reading in recording.readings if reading.time_ns >= recording.start_ns]
    topology = recording.plan.topology
    counts = _counts(readings)
    if recording.is_simulated:
        return judge_simulation(_pool_empty_drops(readings), counts.events_lost, recording.early_frames)
    evidence = Evidence(
        cpus=[reading.cpus for reading in readings],
        pause_ns=recording.latest_ns,
        is_shaped=topology.is_shaped,
        lateness=lateness_readings(recording),
        data_packets=counts.tx_data_packets,
        ring_drops=recording.ring_drops,
        pool_empty_drops=_pool_empty_drops(readings),
        events_lost=counts.events_lost,
    )
    return (*judge(evidence, limits_of(recording)), *_misdated(recording))


def lateness_of_warmup(recording: Recording) -> str | None:
    """Reason to end a run with its warm-up, one sentence with what to do; None while there is none.

    The mean lateness exceeds an idle RTT, over the whole warm-up and over its last two readings. That bounds
    no figure, so the run would be UNTRUSTED at its end too.
    """
    readings, limit_ns = lateness_readings(recording), limits_of(recording).mean_lateness_ns
    if recording.is_simulated or len(readings) < 2 or limit_ns is None:
        return None
    whole, latest = lateness_of(readings), lateness_of(readings[-2:])
    mean_ns = whole.mean_ns() or 0
    if min(mean_ns, latest.mean_ns() or 0) <= limit_ns:
        return None
    carried = whole.count * 1e9 / (readings[-1].time_ns - readings[0].time_ns)
    demand = plan_demand(recording.plan)
    remedy = "run it with --virtual"
    if demand.frame_hops_per_s:
        fitting = demand.fitting_rate(min(ASSUMED_FRAME_HOPS_PER_S, carried / _LATE_CARRIES_TIMES))
        remedy += f", or with a port_rate of {fitting}"
    return (
        f"frames left their queues late by {format_time(mean_ns)} at a mean in the warm-up (limit: "
        f"{format_time(limit_ns)}), which bounds no figure; {remedy}"
    )


def has_lateness(recording: Recording) -> bool:
    """Return True if it is known how late frames were, so that figures have bounds."""
    return not recording.is_simulated and len(lateness_readings(recording)) > 1


def limits_of(recording: Recording) -> FidelityLimits:
    return limits_for(base_rtt_ns(resolve_topology(recording.plan.topology)), recording.plan.late_ratio)


def lateness_readings(recording: Recording) -> list[LatenessReading]:
    """Lateness of frames since the workloads were started; none in an unshaped lab."""
    return [
        LatenessReading(reading.time_ns, reading.queue_lateness)
        for reading in recording.readings
        if reading.queue_lateness is not None and reading.time_ns >= recording.start_ns
    ]


def _misdated(recording: Recording) -> Iterator[TrustCheck]:
    """Times that are impossible while BPF programs and Python read one clock: not in a time namespace."""
    for fault in recording.plan.faults:
        if any(occurrence.is_misdated for occurrence in recording.occurrences(fault.fault_id)):
            reason = f"packets that fault {fault.fault_id} took are dated outside of its time"
            yield TrustCheck("dates of lost packets", "outside of the fault", "within it", reason)


def _counts(readings: list[Reading]) -> HostCounts:
    if not readings:
        return HostCounts()
    return readings[-1].hosts.since(readings[0].hosts).total()


def _pool_empty_drops(readings: list[Reading]) -> int:
    if not readings:
        return 0
    return readings[-1].port_drops.get(_POOL_EMPTY, 0) - readings[0].port_drops.get(_POOL_EMPTY, 0)
