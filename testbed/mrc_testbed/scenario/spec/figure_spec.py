"""The content of `figure:` of a scenario: the curves that figure.svg draws. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from mrc_testbed.document.fields import Duration, Ratio, StrictModel

FigureKind = Literal[
    "goodput-over-time", "plane-share", "loss-rate", "step-time", "job-throughput", "per-flow", "by-size"
]
Grouping = Literal["total", "workload", "host", "flow"]

DRAWN: Final[Mapping[FigureKind, Literal["operations", "flows"]]] = {
    "step-time": "operations",
    "job-throughput": "operations",
    "goodput-over-time": "flows",
    "per-flow": "flows",
    "by-size": "flows",
}
"""Kinds that draw something of workloads: operations have only collectives, training and programs, flows all
but programs."""

PUBLISHED_KINDS: Final[tuple[FigureKind, ...]] = ("goodput-over-time", "job-throughput")
"""Kinds beside which a published curve can be drawn."""

READINGS_PER_VALUE: Final = 2
"""From one value of a curve over time to the next: usually 200 ms, as in the paper's plots of bandwidth."""


class PublishedChange(StrictModel):
    """A change of the published curve."""

    at_ns: Annotated[Duration, Field(ge=0)] = Field(alias="at", description="Time in the run.")
    share: Ratio = Field(description="Value from then on, as a share of that before the first change.")


class FigureSpec(StrictModel):
    """A drawing of the run for figure.svg and the top of report.html, shaped like the published figure.

    Over time: `goodput-over-time`, `plane-share` (of the bytes that hosts send), `loss-rate` (packets lost
    and sent again per second), `step-time` (a dot per step or collective), `job-throughput` (steps per
    second). Over the whole run: `per-flow` (a bar of goodput each), `by-size` (bus bandwidth of collectives,
    goodput of others, over the message sizes of the workloads).
    """

    kind: FigureKind = Field(description="The quantity drawn; see above.")
    title: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Heading. Left out: the kind's usual heading."
    )
    workloads: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None, description="Names of the drawn workloads. Left out: all that have such values."
    )
    by: Grouping | None = Field(
        default=None,
        description="The subject of a curve of goodput-over-time: the total, a workload, a sending host or "
        "a flow. Left out: `workload`.",
    )
    every_ns: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        alias="every",
        description="Time between two values of a curve. Left out: two readings. Readings are 100ms apart; "
        "in a run of less than a second, a hundredth of the run.",
    )
    published: list[PublishedChange] = Field(
        default=[],
        description="The published curve beside goodput-over-time or job-throughput: "
        "`{at: TIME, share: 50%}` for each change, in order. A share is of the run's own mean before "
        "the first change.",
    )


@dataclass(frozen=True, slots=True)
class PlannedFigure:
    """A drawing with nothing left open."""

    kind: FigureKind  # what is drawn
    title: str  # heading; empty for the usual one of the kind
    workloads: tuple[str, ...]  # names of those drawn, in the order of the plan
    by: Grouping  # what a curve is of
    every_ns: int  # distance of two values of a curve over time
    # (time, share of what was before the first of them) of each change of the published curve
    published: tuple[tuple[int, float], ...] = ()
