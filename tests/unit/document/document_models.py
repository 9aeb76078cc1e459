"""A spec with everything the real ones have: quantities, unions with and without a tag, limits, own rules."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.errors import UsageError
from testbed.units import Duration, Rate, Ratio

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)


class Direction(StrEnum):
    BOTH = "both"
    A_TO_B = "a-to-b"


class Flap(BaseModel):
    model_config = STRICT
    kind: Literal["link-flap"]
    every: Duration
    down: Duration
    for_: Annotated[Duration, Field(alias="for")]
    direction: Direction = Direction.BOTH

    @model_validator(mode="after")
    def _down_is_shorter(self) -> Self:
        if self.down >= self.every:
            raise UsageError("a link is down for as long as it flaps", hint="make down shorter than every")
        return self


class Loss(BaseModel):
    model_config = STRICT
    kind: Literal["loss"]
    ratio: Ratio
    loss: str = "a key spelt like the tag"


class Topology(BaseModel):
    model_config = STRICT
    planes: Annotated[int, Field(ge=1, le=16)]
    t0: int
    port_rate: Rate | None = None


class Spec(BaseModel):
    model_config = STRICT
    topology: Topology | str
    faults: tuple[Annotated[Flap | Loss, Field(discriminator="kind")], ...] = ()
    hosts: Annotated[tuple[str, ...], Field(min_length=1)] = ("h0",)
    labels: dict[str, int] = {}
    seed: int = 0
    loud: bool = False
