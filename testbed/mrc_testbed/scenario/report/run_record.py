"""manifest.json: identity, result and conditions of a run, as it is written and as it is read back.

Programs read it, so its shape is a promise: keys are added, never changed in meaning or taken away, without
a new schema_version. Times are ns, rates bit/s, ratios fractions of one. A field with a default is a key that
older files lack. Whoever wrote the file: what has another shape is refused.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.fidelity import TrustCheck
from mrc_testbed.printable import printable
from mrc_testbed.scenario.measure.expectation import ExpectationRecord
from mrc_testbed.scenario.measure.link_finding import LinkFinding
from mrc_testbed.scenario.measure.operations_of_span import OperationsOfSpan
from mrc_testbed.scenario.measure.provenance import Provenance
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.report.result import ComparedMeasure, RunResult
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.workloads.nccl import CollectiveResult, Durations
from mrc_testbed.workloads.operation_record import OperationRecord, finite, last_loss
from mrc_testbed.workloads.printed_figures import PrintedFigure

RUNNING: Final = "running"
"""Status of a run that goes on, or that was killed."""


@dataclass(frozen=True, slots=True)
class _Finding:
    what: str
    measured: str
    limit: str
    trusted: bool

    @classmethod
    def of(cls, check: TrustCheck) -> "_Finding":
        return cls(check.what, check.measured, check.limit, check.reason is None)


@dataclass(frozen=True, slots=True)
class _Collective:
    kind: str
    size_bytes: int
    algbw_bps: int
    busbw_bps: int
    operation: Durations | None
    step: Durations | None
    reaction_ns: int

    @classmethod
    def of(cls, result: CollectiveResult) -> "_Collective":
        done, rates_bps = result.collective, (round(result.algorithm_bps), round(result.bus_bps))
        reaction_ns = round(result.reaction_ns)
        return cls(done.kind, done.size_bytes, *rates_bps, result.operation, result.step, reaction_ns)


@dataclass(frozen=True, slots=True)
class _Program:
    status: int | None
    run_ns: int
    error: str | None
    step: Durations | None
    loss: float | None
    printed: tuple[PrintedFigure, ...] = ()

    @classmethod
    def of(cls, recording: Recording, name: str) -> "_Program | None":
        state = recording.programs.get(name)
        if state is None:
            return None
        steps: tuple[OperationRecord, ...] = ()
        with suppress(NotMeasured):
            span = recording.workload_span(name)
            steps = tuple(OperationsOfSpan.of(recording, name, span, with_overlapping=False).operations)
        step = Durations.of([each.step_ns for each in steps]) if steps else None
        return cls(state.status, state.run_ns, state.error, step, finite(last_loss(steps)), state.printed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workload:
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
    goodput_bps: float | None
    flows: int = 0
    messages: int = 0
    compared_bytes: int = 0
    wrong_bytes: int
    errors: tuple[str, ...]
    kind: str
    fairness: float | None = None
    collective: _Collective | None = None
    program: _Program | None = None
    idle: dict[str, float] | None = None

    @classmethod
    def of(cls, result: RunResult, name: str, goodput_bps: float | None) -> "_Workload":
        outcomes = [outcome for outcome in result.recording.outcomes if outcome.flow.workload == name]
        planned = next(workload for workload in result.plan.workloads if workload.name == name)
        collective = result.collectives.get(name)
        return cls(
            name=name,
            goodput_bps=None if goodput_bps is None else round(goodput_bps),
            flows=len(planned.flows),
            messages=sum(outcome.messages for outcome in outcomes),
            compared_bytes=sum(outcome.compared_bytes for outcome in outcomes),
            wrong_bytes=sum(outcome.wrong_bytes for outcome in outcomes),
            errors=tuple(outcome.error for outcome in outcomes if outcome.error is not None),
            kind=planned.kind,
            fairness=result.fairness[name],
            collective=None if collective is None else _Collective.of(collective),
            program=_Program.of(result.recording, name),
            idle=next((dict(job.idle) for job in result.jobs if job.name == name and job.idle), None),
        )


# types and finite numbers are checked strictly, in all that it holds too
@with_config(ConfigDict(strict=True, allow_inf_nan=False, serialize_by_alias=True, defer_build=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRecord:
    """The record with which a run begins; what is left of it if the run is killed."""

    schema_version: Literal[1]
    run: str
    scenario: str
    description: str = ""
    variant: str | None = None
    seed: int
    started_utc: str
    provenance: Provenance
    status: str

    @classmethod
    def of(cls, run_id: str, started: datetime, plan: Plan, provenance: Provenance, **more: Any) -> Self:
        return cls(
            schema_version=1,
            run=run_id,
            scenario=plan.scenario,
            description=plan.description,
            variant=plan.variant,
            seed=plan.seed,
            started_utc=_utc(started),
            provenance=provenance,
            **{"status": RUNNING, **more},
        )


@with_config(ConfigDict(strict=True, allow_inf_nan=False, serialize_by_alias=True, defer_build=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(BegunRecord):
    """The record of a run that has ended, however it did."""

    reason: str
    exit_code: int
    trusted: bool
    late: bool = False
    untrusted_reasons: tuple[str, ...]
    fidelity: tuple[_Finding, ...]
    ended_utc: str
    time_zero_monotonic_ns: int | None = None
    time_zero_utc: str | None = None
    end_ns: int | None
    duration_ns: int = 0
    clock_step_ns: int = 0
    latest_ns: int = 0
    expectations: tuple[ExpectationRecord, ...]
    unwritten: tuple[dict[str, str], ...] = ()
    faults: tuple[Recovery, ...]
    workloads: tuple[_Workload, ...]
    measures: tuple[ComparedMeasure, ...] = ()
    link_probes: LinkFinding | None = None

    @classmethod
    def of_result(cls, result: RunResult) -> "RunRecord":
        recording, verdict = result.recording, result.verdict
        return cls.of(
            result.run_id,
            result.started,
            result.plan,
            result.provenance,
            status=verdict.status.value,
            reason=verdict.reason,
            exit_code=verdict.exit_code,
            trusted=verdict.is_trusted,
            late=bool(verdict.late),
            untrusted_reasons=verdict.untrusted,
            fidelity=tuple(map(_Finding.of, result.fidelity)),
            ended_utc=_utc(result.ended),
            time_zero_monotonic_ns=recording.zero_ns,
            time_zero_utc=None if result.zero_utc is None else result.zero_utc.isoformat(),
            end_ns=None if recording.end_ns is None else recording.relative_ns(recording.end_ns),
            duration_ns=result.duration_ns,
            clock_step_ns=result.clock_step_ns,
            latest_ns=recording.latest_ns,
            expectations=tuple(each.document() for each in verdict.outcomes if each.is_written),
            unwritten=tuple(
                {"text": each.text, "reason": each.reason} for each in verdict.outcomes if not each.is_written
            ),
            faults=result.recoveries,
            workloads=tuple(_Workload.of(result, *each) for each in result.goodput_bps.items()),
            measures=result.measures,
            link_probes=result.link_finding,
        )


_BEGUN: Final = TypeAdapter(BegunRecord)
_ENDED: Final = TypeAdapter(RunRecord)


def _utc(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def dump_record(record: BegunRecord) -> str:
    """Text of manifest.json."""
    adapter: TypeAdapter[Any] = _ENDED if isinstance(record, RunRecord) else _BEGUN
    return json.dumps(adapter.dump_python(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def has_ended(manifest: dict[str, Any]) -> bool:
    """Return True if the run has ended, however it did."""
    return "expectations" in manifest


def load_manifest(path: Path) -> dict[str, Any]:
    """The manifest at *path*.

    Raises:
        OSError: it cannot be read.
        UsageError: it is no file, or no manifest of this schema version; names the field.
    """
    content = read_result(path)
    try:
        _BEGUN.validate_json(content)
        found: dict[str, Any] = json.loads(content)
        if has_ended(found):
            _ENDED.validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(
            f"{printable(str(path))}: {printable(where)}: {printable(first['msg'])}",
            hint="it is damaged, or not of this version of mrc-testbed",
        ) from error
    return found
