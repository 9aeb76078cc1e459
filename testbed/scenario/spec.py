"""What a Scenario file may say: models and the rules between their fields. Pure.

Rules that need the fabric (does this host exist, does that selector match) are in `testbed.scenario.resolve`.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails

from testbed.errors import did_you_mean
from testbed.faults.spec import Fault
from testbed.scenario.abort import parse_abort
from testbed.scenario.expression import Quantity, parse_expectation
from testbed.topology.spec import TopologySpec
from testbed.units import format_duration_ns
from testbed.workloads.spec import Workload

SEED_MAX = 2**63 - 1

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)


class TransportSpec(BaseModel):
    """How messages cross the fabric."""

    model_config = _STRICT

    kind: Literal["mrc"] = Field(default="mrc", description="The transport protocol.")
    qps: int = Field(
        default=1, ge=1, le=256, description="QPs per pair of hosts, for workloads that name none."
    )
    evs: int | None = Field(
        default=None, ge=1, le=256, description="EVs of a QP over all planes; left out, as the topology says."
    )
    cc: Literal["fixed"] = Field(default="fixed", description="Congestion control: a fixed window.")
    window: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Packets a QP may have in flight; left out, as the topology says.",
    )


def _check_expectation(text: str) -> str:
    parse_expectation(text)
    return text


def _check_abort(text: str) -> str:
    parse_abort(text)
    return text


def _topology_form(value: object) -> str:
    return "path" if isinstance(value, str) else "inline"


TopologyOrPath = Annotated[
    Annotated[TopologySpec, Tag("inline")] | Annotated[str, Field(min_length=1), Tag("path")],
    Discriminator(_topology_form),
]


class ScenarioSpec(BaseModel):
    """A fabric, what is sent through it, what breaks when, and what must hold."""

    model_config = _STRICT

    seed: int = Field(
        default=1,
        ge=0,
        le=SEED_MAX,
        description="Decides every random choice; the same seed gives the same plan.",
    )
    topology: TopologyOrPath = Field(
        default=TopologySpec(),
        description="The fabric, or the path of a Topology file, relative to this file.",
    )
    transport: TransportSpec = Field(
        default=TransportSpec(), description="The transport protocol and its parameters."
    )
    workloads: Annotated[list[Workload], Field(min_length=1)] = Field(description="What is sent.")
    faults: list[Fault] = Field(default=[], description="What breaks, when, and for how long.")
    expect: list[Annotated[str, AfterValidator(_check_expectation)]] = Field(
        default=[], description="What must hold for the run to pass."
    )
    abort: list[Annotated[str, AfterValidator(_check_abort)]] = Field(
        default=[], description="Conditions that end the run at once, with everything reverted."
    )

    @property
    def end_ns(self) -> int | None:
        """When the last workload ends, from time 0; None when one ends by iterations, not by time."""
        durations = [workload.duration_ns for workload in self.workloads if workload.duration_ns is not None]
        return max(durations) if len(durations) == len(self.workloads) else None

    @model_validator(mode="after")
    def _check_across_fields(self) -> Self:
        problems = [
            *self._duplicates(),
            *self._faults_outside_the_run(),
            *self._unknown_names(),
            *self._empty_windows(),
        ]
        if problems:
            raise ValidationError.from_exception_data("scenario", problems)
        return self

    def _duplicates(self) -> Iterator[InitErrorDetails]:
        for key, names in (
            ("workloads", [workload.name for workload in self.workloads]),
            ("faults", [fault.id for fault in self.faults]),
        ):
            field = "name" if key == "workloads" else "id"
            for index, name in enumerate(names):
                if name in names[:index]:
                    first = names.index(name)
                    yield _problem(
                        (key, index, field), name, f"{name!r} is already the {field} of {key}[{first}]"
                    )

    def _faults_outside_the_run(self) -> Iterator[InitErrorDetails]:
        if self.end_ns is None:
            return
        over = f"the last workload is over at {format_duration_ns(self.end_ns)}"
        for index, fault in enumerate(self.faults):
            if fault.at_ns >= self.end_ns:
                yield _problem(("faults", index, "at"), fault.at_ns, f"nothing is left to disturb: {over}")
            elif fault.for_ns is not None and fault.at_ns + fault.for_ns > self.end_ns:
                end = format_duration_ns(fault.at_ns + fault.for_ns)
                yield _problem(
                    ("faults", index, "for"), fault.for_ns, f"it would last until {end}, but {over}"
                )

    def _unknown_names(self) -> Iterator[InitErrorDetails]:
        workloads = [workload.name for workload in self.workloads]
        faults = [fault.id for fault in self.faults]
        for index, quantity, text in self._quantities():
            for name, known, what in (
                (quantity.argument if quantity.kind.argument == "workload" else None, workloads, "workload"),
                (quantity.argument if quantity.kind.argument == "fault" else None, faults, "fault"),
                (quantity.fault_id, faults, "fault"),
            ):
                if name is not None and name not in known:
                    listed = ", ".join(dict.fromkeys(known)) or "none"
                    yield _problem(
                        ("expect", index),
                        text,
                        f"column {quantity.column}: there is no {what} {name!r}{did_you_mean(name, known)} "
                        f"(known: {listed})",
                    )

    def _empty_windows(self) -> Iterator[InitErrorDetails]:
        faults = {fault.id: fault for fault in self.faults}
        for index, quantity, text in self._quantities():
            fault = faults.get(quantity.fault_id or "")
            if fault is None:
                continue
            where = f"column {quantity.column}: "
            if quantity.window == "before" and fault.at_ns == 0:
                yield _problem(
                    ("expect", index),
                    text,
                    f"{where}nothing is measured before {fault.id}, which starts at 0s",
                )
            ends_with_run = fault.for_ns is None or fault.at_ns + fault.for_ns == self.end_ns
            if quantity.window == "after" and ends_with_run:
                yield _problem(
                    ("expect", index),
                    text,
                    f"{where}nothing is measured after {fault.id}, which lasts until the end",
                )

    def _quantities(self) -> Iterator[tuple[int, Quantity, str]]:
        for index, text in enumerate(self.expect):
            for quantity in parse_expectation(text).quantities():
                yield index, quantity, text


def _problem(location: tuple[str | int, ...], found: object, message: str) -> InitErrorDetails:
    """An error at its own key, so that it gets a line of the file."""
    return InitErrorDetails(type="value_error", loc=location, input=found, ctx={"error": ValueError(message)})
