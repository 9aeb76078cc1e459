"""manifest.json: identity, result and conditions of a run. Pure.

Programs read it, so its shape is a promise: keys are added, never changed in meaning or taken away, without
a new schema_version. Times are ns, rates bit/s, ratios fractions of one.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Final, TypeAlias, Union

from mrc_testbed.metrics.fidelity import TrustCheck
from mrc_testbed.scenario.measure.operations_of_span import OperationsOfSpan
from mrc_testbed.scenario.measure.provenance import Provenance
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.report.result import RunResult
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.workloads.nccl import CollectiveResult, Durations
from mrc_testbed.workloads.operation_record import OperationRecord, finite, last_loss

MANIFEST_SCHEMA_VERSION: Final = 1
RUNNING: Final = "running"
"""Status in the manifest of a run that goes on, or that was killed."""

Json: TypeAlias = Union[str, int, float, bool, Sequence["Json"], Mapping[str, "Json"], None]  # noqa: UP007 - recursive


def opening_manifest(
    run_id: str, started: datetime, plan: Plan, provenance: Provenance
) -> Mapping[str, Json]:
    """The manifest with which a run begins; what is left of it if the run is killed."""
    return _head(run_id, started, plan, provenance) | {"status": RUNNING}


def build_manifest(result: RunResult) -> Mapping[str, Json]:
    """The manifest of a run that has ended, however it did."""
    recording, verdict = result.recording, result.verdict
    head = _head(result.run_id, result.started, result.plan, result.provenance)
    return head | {
        "status": verdict.status.value,
        "reason": verdict.reason,
        "exit_code": verdict.exit_code,
        "trusted": verdict.is_trusted,
        "late": bool(verdict.late),
        "untrusted_reasons": list(verdict.untrusted),
        "fidelity": [_finding(finding) for finding in result.fidelity],
        "ended_utc": _utc(result.ended),
        "time_zero_monotonic_ns": recording.zero_ns,
        "time_zero_utc": None if result.zero_utc is None else result.zero_utc.isoformat(),
        "end_ns": None if recording.end_ns is None else recording.relative_ns(recording.end_ns),
        "duration_ns": result.duration_ns,
        "clock_step_ns": result.clock_step_ns,
        "latest_ns": recording.latest_ns,
        "expectations": [outcome.document() for outcome in verdict.outcomes if outcome.is_written],
        "unwritten": [
            {"text": outcome.text, "reason": outcome.reason}
            for outcome in verdict.outcomes
            if not outcome.is_written
        ],
        "faults": [_recovery(recovery) for recovery in result.recoveries],
        "workloads": [_workload(result, name, value) for name, value in result.goodput_bps.items()],
        "measures": [asdict(each) for each in result.measures],
        "link_probes": None if result.link_finding is None else asdict(result.link_finding),
    }


def _head(run_id: str, started: datetime, plan: Plan, provenance: Provenance) -> dict[str, Json]:
    return {
        "schema_version": MANIFEST_SCHEMA_VERSION,
        "run": run_id,
        "scenario": plan.scenario,
        "description": plan.description,
        "variant": plan.variant,
        "seed": plan.seed,
        "started_utc": _utc(started),
        "provenance": asdict(provenance),
    }


def _utc(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _finding(finding: TrustCheck) -> Json:
    return {
        "what": finding.what,
        "measured": finding.measured,
        "limit": finding.limit,
        "trusted": finding.reason is None,
    }


def _recovery(recovery: Recovery) -> Json:
    return {
        "id": recovery.fault_id,
        "occurrences": recovery.occurrence_count,
        "lost_packets": recovery.lost_packets,
        "left_evs": recovery.left_evs,
        "detect": asdict(recovery.detect),
        "avoid": asdict(recovery.avoid),
        "restore": asdict(recovery.restore),
    }


def _workload(result: RunResult, name: str, goodput_bps: float | None) -> Json:
    outcomes = [outcome for outcome in result.recording.outcomes if outcome.flow.workload == name]
    planned = next(workload for workload in result.plan.workloads if workload.name == name)
    return {
        "name": name,
        "goodput_bps": None if goodput_bps is None else round(goodput_bps),
        "flows": len(planned.flows),
        "messages": sum(outcome.messages for outcome in outcomes),
        "compared_bytes": sum(outcome.compared_bytes for outcome in outcomes),
        "wrong_bytes": sum(outcome.wrong_bytes for outcome in outcomes),
        "errors": [outcome.error for outcome in outcomes if outcome.error is not None],
        "kind": planned.kind,
        "fairness": result.fairness[name],
        "collective": _collective(result.collectives.get(name)),
        "program": _program(result.recording, name),
    }


def _program(recording: Recording, name: str) -> Json:
    state = recording.programs.get(name)
    if state is None:
        return None
    steps: Sequence[OperationRecord] = ()
    with suppress(NotMeasured):
        span = recording.workload_span(name)
        steps = OperationsOfSpan.of(recording, name, span, with_overlapping=False).operations
    return {
        "status": state.status,
        "run_ns": state.run_ns,
        "error": state.error,
        "step": asdict(Durations.of([each.step_ns for each in steps])) if steps else None,
        "loss": finite(last_loss(steps)),
        "printed": [asdict(each) for each in state.printed],
    }


def _collective(result: CollectiveResult | None) -> Json:
    if result is None:
        return None
    return {
        "kind": result.collective.kind,
        "size_bytes": result.collective.size_bytes,
        "algbw_bps": round(result.algorithm_bps),
        "busbw_bps": round(result.bus_bps),
        "operation": None if result.operation is None else asdict(result.operation),
        "step": None if result.step is None else asdict(result.step),
        "reaction_ns": round(result.reaction_ns),
    }
