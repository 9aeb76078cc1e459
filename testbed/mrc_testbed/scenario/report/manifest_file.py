"""manifest.json as it is read back: by its shape, so that anybody's file is as good as ours, or refused."""

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError
from mrc_testbed.printable import printable
from mrc_testbed.scenario.measure.expectation import Answer
from mrc_testbed.scenario.measure.provenance import Provenance
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.scenario.spec.scenario_spec import ExpectationText, QuantityText, accepted_by
from mrc_testbed.workloads.nccl import Durations

_Dimension = Annotated[str, accepted_by(Dimension)]


class _Expectation(TypedDict):
    text: ExpectationText
    passed: bool
    outcome: NotRequired[Answer]
    reason: str
    dimension: _Dimension
    left: float | None
    right: float | None
    measured: dict[QuantityText, float]


class _Phase(TypedDict):
    longest_ns: int | None
    reason: str


class _Fault(TypedDict):
    id: str
    occurrences: int
    lost_packets: int
    left_evs: int
    detect: _Phase
    avoid: _Phase
    restore: _Phase


class _Collective(TypedDict):
    kind: str
    size_bytes: int
    algbw_bps: int
    busbw_bps: int
    operation: Durations | None
    step: Durations | None
    reaction_ns: int


class _Program(TypedDict):
    status: int | None
    run_ns: int
    error: str | None
    step: Durations | None
    loss: float | None


class _Workload(TypedDict):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
    goodput_bps: float | None
    wrong_bytes: int
    errors: list[str]
    kind: str
    fairness: NotRequired[float | None]
    collective: NotRequired[_Collective | None]
    program: NotRequired[_Program | None]


class _Measure(TypedDict):
    quantity: QuantityText
    dimension: _Dimension
    value: float | None
    reason: str


class _Finding(TypedDict):
    what: str
    measured: str
    limit: str
    trusted: bool


@with_config(ConfigDict(strict=True, allow_inf_nan=False))  # and all that it holds
class _Begun(TypedDict):
    """Manifest of `opening_manifest`."""

    schema_version: Literal[1]
    run: str
    scenario: str
    variant: NotRequired[str | None]
    seed: int
    started_utc: str
    provenance: Provenance
    status: str


class _Ended(_Begun):
    """Manifest of `build_manifest`, as far as anybody reads it."""

    reason: str
    exit_code: int
    trusted: bool
    late: NotRequired[bool]
    untrusted_reasons: list[str]
    fidelity: list[_Finding]
    ended_utc: str
    time_zero_utc: NotRequired[str | None]
    end_ns: int | None
    duration_ns: NotRequired[int]
    expectations: list[_Expectation]
    faults: list[_Fault]
    workloads: list[_Workload]
    measures: NotRequired[list[_Measure]]


_BEGUN: Final = TypeAdapter(_Begun)
_ENDED: Final = TypeAdapter(_Ended)


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
