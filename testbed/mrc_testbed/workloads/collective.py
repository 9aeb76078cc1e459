"""Collectives: their kinds, and the plan of one with hosts bound: which ranks, how much, how often. Pure."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from mrc_testbed.errors import UsageError
from mrc_testbed.units import format_size_bytes

DType = Literal["uint8", "int32", "int64", "float32", "float64"]
DTYPES: Final[tuple[DType, ...]] = get_args(DType)
ELEMENT_BYTES: Final[dict[DType, int]] = {"uint8": 1, "int32": 4, "int64": 8, "float32": 4, "float64": 8}

ReduceOp = Literal["sum", "min", "max"]

PAGE_BYTES: Final = 4096

CollectiveKind = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"]
COLLECTIVE_KINDS: Final[tuple[CollectiveKind, ...]] = get_args(CollectiveKind)


@dataclass(frozen=True, slots=True)
class RankConnection:
    """Where transfers flow: ranks, and which of the parallel rings."""

    source: int
    target: int
    channel: int


def connections_of(
    kind: CollectiveKind, ranks: int, channels: int, root: int = 0
) -> tuple[RankConnection, ...]:
    """The connections of a collective: channels between neighbours of a ring, or between all pairs."""
    if kind == "all-to-all":
        return tuple(
            RankConnection(rank, (rank + distance) % ranks, channel)
            for rank in range(ranks)
            for distance in range(1, ranks)
            for channel in range(channels)
        )
    senders = [rank for rank in range(ranks) if kind != "broadcast" or (rank + 1) % ranks != root]
    return tuple(
        RankConnection(rank, (rank + 1) % ranks, channel) for rank in senders for channel in range(channels)
    )


def needs_receive_memory(kind: CollectiveKind) -> bool:
    """Return True if ranks receive beside their data, because they reduce it or still have to send it."""
    return kind in {"all-reduce", "reduce-scatter", "all-to-all"}


def bus_factor(kind: CollectiveKind, ranks: int) -> float:
    """Factor from the algorithm's bandwidth to that of the busiest link.

    Source: the performance page of nccl-tests; a broadcast crosses each link once.
    """
    if kind == "broadcast":
        return 1.0
    return (2 if kind == "all-reduce" else 1) * (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class Collective:
    """An operation that ranks carry out together, over and over."""

    kind: CollectiveKind  # which
    ranks: tuple[str, ...]  # hosts, in the order of the ring
    size_bytes: int  # data of each rank
    dtype: DType  # of its elements
    reduction: ReduceOp  # of all-reduce and reduce-scatter
    channels: int  # parallel connections between two ranks
    root: int = 0  # rank that a broadcast starts from
    # a training step's time before its collective; None: operations follow one another
    compute_ns: int | None = None

    @property
    def count(self) -> int:
        """Elements of a rank's data."""
        return self.size_bytes // ELEMENT_BYTES[self.dtype]

    @property
    def bus_factor(self) -> float:
        """Factor from bandwidth to that of the busiest link."""
        return bus_factor(self.kind, len(self.ranks))

    @property
    def is_training(self) -> bool:
        """Return True if it is the steps of a job."""
        return self.compute_ns is not None

    def memory_bytes(self) -> int:
        """Memory that each rank needs, whole pages."""
        length = self.size_bytes * (2 if needs_receive_memory(self.kind) else 1)
        return -(-length // PAGE_BYTES) * PAGE_BYTES

    def check(self) -> None:
        """Raises UsageError when the data cannot be shared out."""
        element_bytes = ELEMENT_BYTES[self.dtype]
        if self.size_bytes % element_bytes:
            raise UsageError(
                f"size: {self.size_bytes} bytes are no whole number of {self.dtype} elements "
                f"({element_bytes} bytes each)"
            )
        least = len(self.ranks) * self.channels
        if self.count < least:
            raise UsageError(
                f"size: {format_size_bytes(self.size_bytes)} are {self.count} elements, too few for "
                f"{len(self.ranks)} hosts x {self.channels} QPs; give at least "
                f"{format_size_bytes(least * element_bytes)}"
            )
