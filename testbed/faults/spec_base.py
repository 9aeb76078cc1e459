"""What every kind of fault has, as a user writes it. Pure; nothing here touches a lab.

Times are relative to the end of warm-up (time 0 of a run). A fault without an end does not validate: it has
either `for` or `until: cleared`. What a selector means is decided by testbed.faults.targets, when each
occurrence of a repeating fault starts by testbed.scenario.resolve, both with the run's seed.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.faults.rule import FrameRule, Traffic, describe_rule
from testbed.topology.selector import LinkSelector, NodeSelector
from testbed.units import Duration

FAULT_ID_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"

Direction = Literal["both", "a-to-b", "b-to-a"]

TRAFFIC_HELP = "Which packets: all, those of data, or control: SACKs, NACKs, probes, what was trimmed."


class AnyFault(BaseModel):
    """An id, a start, an end."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    needs_queue: ClassVar[bool] = False
    """Whether it works in shaped fabrics only."""

    needs_flow_control: ClassVar[bool] = False
    """Whether it works in fabrics with PFC or credits only."""

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

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if (self.for_ns is None) == (self.until is None):
            msg = "a fault needs exactly one end: `for: <duration>` or `until: cleared`"
            raise ValueError(msg)
        return self

    def rule(self) -> FrameRule | None:
        """What is done to frames in its direction; None: nothing, or what its kind says."""
        return None

    @property
    def detail(self) -> str:
        """What tells it from others of its kind, in a few words; may be empty."""
        rule = self.rule()
        return "" if rule is None else describe_rule(rule)


class LinkFault(AnyFault):
    """A fault of links, one way or both."""

    select: LinkSelector = Field(description="The links it acts on.")
    direction: Direction = Field(
        default="both",
        description="Which way: a is the lower end of the link (host, then T0), b the upper (T0, then T1).",
    )


class BothWaysFault(LinkFault):
    """A fault of links that has no direction."""

    @model_validator(mode="after")
    def _check_direction(self) -> Self:
        if self.direction != "both":
            msg = "a carrier is lost both ways: leave `direction` out or set it to both"
            raise ValueError(msg)
        return self


class FrameFault(LinkFault):
    """A fault of some of the packets that cross a link."""

    traffic: Traffic = Field(default="all", description=TRAFFIC_HELP)


class NodeFault(AnyFault):
    """A fault of whole nodes."""

    select: NodeSelector = Field(description="The nodes it acts on.")
