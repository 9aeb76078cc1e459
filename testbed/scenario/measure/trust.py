"""The trust in the numbers of a recorded run. Pure."""

from collections.abc import Iterator
from typing import Final

from mrc_testbed.metrics.fidelity import (
    Evidence,
    FidelityLimits,
    Finding,
    LatenessReading,
    judge,
    judge_simulation,
    limits_for,
)
from mrc_testbed.metrics.series import HostCounts, Reading, add_hosts
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns

_POOL_EMPTY: Final = "pool_empty"


def judge_fidelity(recording: Recording) -> tuple[Finding, ...]:
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


def _misdated(recording: Recording) -> Iterator[Finding]:
    """Times that are impossible while BPF programs and Python read one clock: not in a time namespace."""
    for fault in recording.plan.faults:
        if any(occurrence.is_misdated for occurrence in recording.occurrences(fault.fault_id)):
            reason = f"packets that fault {fault.fault_id} took are dated outside of its time"
            yield Finding("dates of lost packets", "outside of the fault", "within it", reason)


def _counts(readings: list[Reading]) -> HostCounts:
    if not readings:
        return HostCounts()
    return add_hosts(readings[-1].hosts.values()).since(add_hosts(readings[0].hosts.values()))


def _pool_empty_drops(readings: list[Reading]) -> int:
    if not readings:
        return 0
    return readings[-1].port_drops.get(_POOL_EMPTY, 0) - readings[0].port_drops.get(_POOL_EMPTY, 0)
