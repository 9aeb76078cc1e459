"""Faults as a user writes them: kinds, times, selectors. Pure; nothing here touches a lab.

Times are relative to the end of warm-up (time 0 of a run). A fault without an end does not validate:
it has either ``for`` or ``until: cleared``. Which links a selector means, and when each occurrence
of a repeating fault starts, is decided by ``testbed.scenario.resolve`` with the run's seed.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from testbed.units import Duration, Ratio

FAULT_ID_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"

Direction = Literal["both", "a-to-b", "b-to-a"]
Tier = Literal["host", "t0", "t1"]
Pick = Literal["all", "first", "random"]


PlaneIndex = Annotated[int, Field(ge=0)]
LinkName = Annotated[str, Field(min_length=1)]


def _form(value: object) -> str:
    """Which form of a field was written, so that errors speak of that form only."""
    if isinstance(value, str | int):
        return "one"
    return "several" if isinstance(value, list) else "filter"


Planes = Annotated[
    Annotated[PlaneIndex, Tag("one")] | Annotated[list[PlaneIndex], Field(min_length=1), Tag("several")],
    Discriminator(_form),
]


class LinkFilter(BaseModel):
    """Links by property; all given properties must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    plane: Planes | None = Field(default=None, description="Plane index, or a list of them.")
    between: Annotated[list[Tier], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="The two tiers a link joins: [t0, t1] or [host, t0]."
    )
    node: str | None = Field(
        default=None,
        description="Name of a node at either end, or a glob of names: `p0-t1-3`, `p*-t1-0`, `h3`.",
    )

    @model_validator(mode="after")
    def _check_something_is_selected(self) -> Self:
        if self.plane is None and self.between is None and self.node is None:
            msg = "an empty filter selects nothing; give plane, between or node"
            raise ValueError(msg)
        if self.between is not None and sorted(self.between) not in (["t0", "t1"], ["host", "t0"]):
            msg = f"no link joins {self.between[0]} and {self.between[1]}; expected [t0, t1] or [host, t0]"
            raise ValueError(msg)
        return self


Links = Annotated[
    Annotated[LinkName, Tag("one")]
    | Annotated[list[LinkName], Field(min_length=1), Tag("several")]
    | Annotated[LinkFilter, Tag("filter")],
    Discriminator(_form),
]


class Selector(BaseModel):
    """Which links a fault acts on, apart from what it does to them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    links: Links = Field(
        description="A link name or glob (`p0-t0-*~p0-t1-1:*`), a list of them, or a filter."
    )
    pick: Pick = Field(
        default="all",
        description="Take all links that match, the first `count`, or `count` at random by the seed.",
    )
    count: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="How many to take; with pick first or random only, 1 when left out."
    )

    @model_validator(mode="after")
    def _check_count_has_a_meaning(self) -> Self:
        if self.count is not None and self.pick == "all":
            msg = f"count: {self.count} needs pick: first or pick: random"
            raise ValueError(msg)
        return self


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
    select: Selector = Field(description="The links it acts on.")
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
