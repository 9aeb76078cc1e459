"""Kinds of collectives: which ranks they connect, and what a bandwidth of theirs counts. Pure."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

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
