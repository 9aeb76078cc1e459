"""Faults as a user writes them: kinds, times, selectors. Pure; nothing here touches a lab.

Times are relative to the end of warm-up (time 0 of a run). A fault without an end does not validate:
it has either ``for`` or ``until: cleared``. Which links a selector means, and when each occurrence
of a repeating fault starts, is decided by ``testbed.scenario.resolve`` with the run's seed.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.topology.selector import LinkSelector
from testbed.units import Duration, Ratio

FAULT_ID_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"

Direction = Literal["both", "a-to-b", "b-to-a"]


class _Fault(BaseModel):
    """What every kind of fault has: an id, a start, an end, a selector, a direction."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str = Field(
        pattern=FAULT_ID_PATTERN,
        description="Name of the fault in events, expectations, metrics and reports; unique in a scenario.",
    )
    at_ns: Duration = Field(alias="at", description="Start, from the end of warm-up.")
    for_ns: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, alias="for", description="How long the fault lasts."
    )
    until: Literal["cleared"] | None = Field(
        default=None, description="In place of `for`: lasts until it is cleared by hand or the run ends."
    )
    select: LinkSelector = Field(description="The links it acts on.")
    direction: Direction = Field(
        default="both",
        description="Which way: a is the lower end of the link (host, then T0), b the upper (T0, then T1).",
    )

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if (self.for_ns is None) == (self.until is None):
            msg = "a fault needs exactly one end: `for: <duration>` or `until: cleared`"
            raise ValueError(msg)
        return self


class LinkDown(_Fault):
    """A fabric or host link forwards nothing in the chosen direction; carrier stays up at both ends."""

    kind: Literal["link-down"]


class LinkFlap(_Fault):
    """A link goes down and comes back, again and again."""

    kind: Literal["link-flap"]
    every_ns: Duration = Field(alias="every", gt=0, description="Time from one down to the next.")
    down_ns: Duration = Field(alias="down", gt=0, description="How long the link is down each time.")
    jitter_ratio: Ratio = Field(
        default=0.0,
        alias="jitter",
        json_schema_extra={"default": "0%"},
        description="Each down is moved later by up to this share of `every`, drawn from the seed.",
    )

    @model_validator(mode="after")
    def _check_occurrences_stay_apart(self) -> Self:
        if self.down_ns + round(self.jitter_ratio * self.every_ns) > self.every_ns:
            msg = "`down` plus `jitter` of `every` must fit into `every`, or one down runs into the next"
            raise ValueError(msg)
        return self


class NicPortDown(_Fault):
    """A NIC port loses its carrier, which its NIC notices; selects host links only, both ways."""

    kind: Literal["nic-port-down"]

    @model_validator(mode="after")
    def _check_direction(self) -> Self:
        if self.direction != "both":
            msg = "a carrier is lost both ways: leave `direction` out or set it to both"
            raise ValueError(msg)
        return self


class Loss(_Fault):
    """Packets are lost at random on a link, each with the same probability."""

    kind: Literal["loss"]
    ratio: Ratio = Field(gt=0, description="Probability that a packet is lost.")


Fault = Annotated[LinkDown | LinkFlap | NicPortDown | Loss, Field(discriminator="kind")]
