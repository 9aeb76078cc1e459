"""Flow control of links, hop by hop: what a user writes about it.

flow_control: pfc                        or credits, or none
pfc: {xoff: 60KiB, xon: 40KiB, headroom: 60KiB}
credits: {buffer: 60KiB}
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from testbed.document.fields import Size, StrictModel
from testbed.topology.limit import LimitProblems

FlowControlKind = Literal["none", "pfc", "credits"]

_SomeBytes = Annotated[Size, Field(gt=0)]


class PfcSpec(StrictModel):
    """Priority flow control: a switch pauses the port at the other end of a link when too much of what came
    by it waits.
    """

    xoff: _SomeBytes | None = Field(
        default=None,
        description="Waiting data with which a pause is sent. Left out: xon and 4 full frames more.",
    )
    xon: Size | None = Field(
        default=None,
        description="Waiting data with which the pause is lifted. Left out: what a link carries in two of "
        "its delays, and 4 full frames; at most xoff less a byte.",
    )
    headroom: Size | None = Field(
        default=None,
        description="Room beyond xoff for what still comes; too little of it loses packets. Left out: what a "
        "link carries in two of its delays, and 18 full frames.",
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        problems = LimitProblems()
        if self.xoff is not None and self.xon is not None and self.xon >= self.xoff:
            problems.add("xon", self.xon, "xon must be less than xoff")
        problems.raise_if_any("pfc")
        return self


class CreditSpec(StrictModel):
    """Credits, as InfiniBand has them: a port sends only what the switch at the other end has room for."""

    buffer: _SomeBytes | None = Field(
        default=None,
        description="Room for data that came by a link and waits; at least a full frame. Left out: what a "
        "link carries in two of its delays, and 8 full frames.",
    )
