"""A job as a trace: for each rank a graph of computing, collectives and messages. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

GroupCallKind = Literal[
    "all-reduce",
    "reduce",
    "all-gather",
    "gather",
    "scatter",
    "broadcast",
    "all-to-all",
    "reduce-scatter",
    "barrier",
]
"""Kinds of collectives; those with data in the order of Chakra's numbers."""

NODES_MAX: Final = 500_000
"""Nodes of a trace, all ranks together."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Computing; that of one stream of a rank goes one after the other."""

    stream: str = ""


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A rank's part in a collective: the nth of a group at one rank is the nth at all others."""

    kind: GroupCallKind
    group: str  # name; "": all ranks
    size_bytes: int  # input of this rank; of a broadcast, the data of its root
    root: int | None = None  # rank; None: the first of the group


@dataclass(frozen=True, slots=True)
class Message:
    """A send or receive: the nth between two ranks with a tag at the one is the nth at the other."""

    peer: int  # rank
    tag: int
    size_bytes: int
    is_sent: bool


@dataclass(frozen=True, slots=True)
class StepMark:
    """The begin of a step of the job, which lasts until the next mark."""

    step: int


Work: TypeAlias = Compute | GroupCall | Message | StepMark


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A node of a rank's graph."""

    id: int  # in its file
    name: str
    work: Work | None  # None: nothing that takes time
    after: tuple[int, ...] = ()  # nodes that have to end before
    after_start: tuple[int, ...] = ()  # nodes that have to start before
    start_ns: int = 0  # when it started where it was recorded
    duration_ns: int = 0  # time that it takes to compute; of others, that it took


@dataclass(frozen=True, slots=True)
class RankTrace:
    """The graph of one rank."""

    nodes: tuple[TraceNode, ...]  # in the order of the file
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # name -> ranks, as far as it says
