"""Flow control of links, hop by hop: what a user writes about it.

flow_control: pfc                        or credits, or none
pfc: {xoff: 60KiB, xon: 40KiB, headroom: 60KiB}
credits: {buffer: 60KiB}
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mrc_testbed.document.fields import Size, StrictModel
from mrc_testbed.topology.limit import LimitProblems

FlowControlKind = Literal["none", "pfc", "credits"]

_SomeBytes = Annotated[Size, Field(gt=0)]


class PfcSpec(StrictModel):
    """Priority flow control: a switch pauses the port at the other end of a link when too much data of this
    link waits.
    """

    xoff: _SomeBytes | None = Field(
        default=None,
        description="Waiting data at which the switch sends a pause. Left out: xon plus 4 full frames.",
    )
    xon: Size | None = Field(
        default=None,
        description="Waiting data at which the switch lifts the pause. Left out: the bytes that a link "
        "carries in two of its delays, plus 4 full frames; at most xoff less a byte.",
    )
    headroom: Size | None = Field(
        default=None,
        description="Buffer beyond xoff for data that still arrives; if it is too small, packets are lost. "
        "Left out: the bytes that a link carries in two of its delays, plus 18 full frames.",
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        problems = LimitProblems()
        if self.xoff is not None and self.xon is not None and self.xon >= self.xoff:
            problems.add("xon", self.xon, "xon must be less than xoff")
        problems.raise_if_any("pfc")
        return self


class CreditSpec(StrictModel):
    """Credits, as in InfiniBand: a port sends only as much as the switch at the other end can buffer."""

    buffer: _SomeBytes | None = Field(
        default=None,
        description="Buffer for waiting data of a link; at least a full frame. Left out: the bytes that a "
        "link carries in two of its delays, plus 8 full frames.",
    )
