"""All that is known about a finished run: what its files and its report are made of. Pure."""

from dataclasses import dataclass
from datetime import datetime

from testbed.metrics.fidelity import judge
from testbed.metrics.histogram import Histogram
from testbed.metrics.series import add_hosts
from testbed.scenario.expectation import evaluate_expectations
from testbed.scenario.measurement import Measurement
from testbed.scenario.plan import Plan
from testbed.scenario.provenance import Provenance
from testbed.scenario.recording import NotMeasured, Recording
from testbed.scenario.recovery import Recovery
from testbed.scenario.verdict import Ending, Verdict, decide


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run, measured and judged.

    Attributes:
        run_id: name of its folder, such as `20261121T170000Z-3fa2`.
        started: when, in UTC.
        ended: when, in UTC.
        plan: what was to happen.
        recording: what happened.
        verdict: what it came to.
        recoveries: one per fault of the plan.
        goodput_bps: workload -> over its measured time; None when that was not measured.
        provenance: where and with what.
    """

    run_id: str
    started: datetime
    ended: datetime
    plan: Plan
    recording: Recording
    verdict: Verdict
    recoveries: tuple[Recovery, ...]
    goodput_bps: dict[str, float | None]
    provenance: Provenance


def judge_run(
    run_id: str,
    started: datetime,
    ended: datetime,
    recording: Recording,
    ending: Ending | None,
    provenance: Provenance,
) -> RunResult:
    """The result of a run: expectations evaluated, recovery measured, trust decided.

    Args:
        run_id: name of its folder.
        started: when it began, in UTC.
        ended: when it ended, in UTC.
        recording: what was measured.
        ending: why it did not end as planned; None when it did.
        provenance: where and with what.
    """
    plan = recording.plan
    measurement = Measurement(recording)
    return RunResult(
        run_id=run_id,
        started=started,
        ended=ended,
        plan=plan,
        recording=recording,
        verdict=decide(evaluate_expectations(plan.expect, recording), untrusted_reasons(recording), ending),
        recoveries=tuple(measurement.recovery(fault.fault_id) for fault in plan.faults),
        goodput_bps={workload.name: _goodput_bps(measurement, workload.name) for workload in plan.workloads},
        provenance=provenance,
    )


def untrusted_reasons(recording: Recording) -> tuple[str, ...]:
    """Why the numbers of a run are not to be believed, one sentence each; empty when they are."""
    readings = recording.readings
    reasons = list(
        judge(
            [reading.cpus for reading in readings],
            recording.latest_ns,
            is_shaped=recording.plan.topology.is_shaped,
            queue_lateness=_queue_lateness(recording),
        )
    )
    if readings:
        now, then = add_hosts(readings[-1].hosts.values()), add_hosts(readings[0].hosts.values())
        lost = now.since(then).events_lost
        if lost:
            reasons.append(f"{lost} NIC events were lost, so times of detection and recovery are incomplete")
    return tuple(reasons)


def _queue_lateness(recording: Recording) -> Histogram | None:
    """How late frames left their queues between the first and the last reading; None if it is not known."""
    if not recording.readings:
        return None
    then, now = recording.readings[0].queue_lateness, recording.readings[-1].queue_lateness
    return None if then is None or now is None else now.since(then)


def _goodput_bps(measurement: Measurement, workload: str) -> float | None:
    try:
        return measurement.workload_goodput_bps(workload)
    except NotMeasured:
        return None
