"""A spec with everything the real ones have: quantities, unions with and without a tag, limits, own rules."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mrc_testbed.document.fields import Duration, Rate, Ratio
from mrc_testbed.errors import UsageError

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

    @field_validator("t0")
    @classmethod
    def _t0_is_even(cls, t0: int) -> int:
        if t0 % 2:
            raise PydanticCustomError("own_rule", "{t0} T0 switches cannot be halved", {"t0": t0})
        return t0

    planes: Annotated[int, Field(ge=1, le=16)]
    t0: int
    port_rate: Rate | None = None


class Spec(BaseModel):
    model_config = STRICT
    topology: Topology | str
    faults: tuple[Annotated[Flap | Loss, Field(discriminator="kind")], ...] = ()
    hosts: Annotated[tuple[str, ...], Field(min_length=1)] = ("h0",)
    labels: dict[str, int] = {}
    limit: Annotated[Ratio, Field(lt=0.5)] = 0.1
    timeout: Annotated[Duration, Field(ge=10**9)] = 10**9
    seed: int = 0
    loud: bool = False
