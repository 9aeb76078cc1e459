"""Which bytes a collective carries from which rank to which, and in what order. Pure.

An operation is a list of transfers. One that waits for another (`after`) leaves its rank as soon as that one
has arrived there; so the ranks need no clock and no barrier inside an operation. Large chunks go in slices,
each with its own chain, so that the next step of one slice is posted while another is still on the wire:

    rank 0 > 1   |chunk 0, slice 0|chunk 0, slice 1|chunk 3, slice 0|chunk 3, slice 1| ...
    rank 1 > 2   |chunk 1, slice 0|chunk 1, slice 1|chunk 0, slice 0|chunk 0, slice 1| ...
                                                    `-- may leave once rank 1 has added it up

Memory of a rank, in elements: `count` of data, then `count` more to receive into.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, get_args

CollectiveKind = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"]
COLLECTIVE_KINDS: Final[tuple[CollectiveKind, ...]] = get_args(CollectiveKind)

SLICES_MAX: Final = 4
"""Slices of a ring's chunk: with four, a rank has three quarters of a chunk's time to react."""

SLICE_BYTES_MIN: Final = 16 << 10
"""A slice is not made smaller than this: below, reacting to it costs more than waiting for it."""

BROADCAST_SLICES_MAX: Final = 32
"""A broadcast goes down a chain of ranks: many slices keep all of its links busy."""


@dataclass(frozen=True, slots=True)
class RankConnection:
    """Where transfers flow: ranks, and which of the parallel rings."""

    source: int
    target: int
    channel: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message."""

    connection: int  # index of its connection
    source_start: int  # first element, in the source's memory
    target_start: int  # where it goes, in the target's memory
    count: int  # elements; at least 1
    reduce_start: int | None  # where in the target's data it is added up; None: it is where it belongs
    # index of the transfer that must have arrived at the source before; None: leaves at once
    after: int | None


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a rank's memory."""

    rank: int  # whose memory
    # start, count: which elements
    start: int
    count: int
    origin: int | None  # rank whose input must be found there; None: that of all ranks, reduced
    origin_start: int  # which element of that input comes first
    connection: int  # index of the connection that brought it


@dataclass(frozen=True, slots=True)
class CollectiveSchedule:
    """One operation."""

    ranks: int  # how many
    count: int  # elements of data of a rank
    connections: tuple[RankConnection, ...]  # between ranks
    transfers: tuple[Transfer, ...]  # in the order in which a connection carries them
    # (rank, first element, elements) that each operation begins with
    inputs: tuple[tuple[int, int, int], ...]
    results: tuple[Elements, ...]  # what must be found after it
    needs_receive_memory: bool  # whether ranks have memory beyond their data

    @property
    def memory_count(self) -> int:
        """Elements of memory that each rank needs."""
        return self.count * (2 if self.needs_receive_memory else 1)


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


def build_schedule(
    kind: CollectiveKind, *, ranks: int, count: int, element_bytes: int, channels: int, root: int = 0
) -> CollectiveSchedule:
    """The transfers of one operation.

    Args:
        ranks: at least 2.
        count: elements of data of each rank; at least ranks x channels.
        channels: parallel connections between two ranks, each for its share of the data.
        root: rank that a broadcast starts from.
    """
    builder = _Builder(kind, ranks, count, element_bytes, channels, root)
    for channel in range(channels):
        share = _part(0, count, channels, channel)
        match kind:
            case "all-to-all":
                builder.exchange(channel)
            case "broadcast":
                builder.chain(channel, *share, root)
            case "all-gather":
                builder.ring(channel, *share, reduces=False, gathers=True, shift=0)
            case "reduce-scatter":
                builder.ring(channel, *share, reduces=True, gathers=False, shift=-1)
            case "all-reduce":
                builder.ring(channel, *share, reduces=True, gathers=True, shift=0)
    return builder.schedule()


def _part(start: int, count: int, parts: int, index: int) -> tuple[int, int]:
    """First element and number of elements of one of several nearly equal parts."""
    begin, end = count * index // parts, count * (index + 1) // parts
    return start + begin, end - begin


class _Builder:
    def __init__(
        self, kind: CollectiveKind, ranks: int, count: int, element_bytes: int, channels: int, root: int
    ) -> None:
        self._kind = kind
        self._ranks = ranks
        self._count = count
        self._element_bytes = element_bytes
        self._channels = channels
        self._connections = connections_of(kind, ranks, channels, root)
        self._index_of = {
            (each.source, each.target, each.channel): index for index, each in enumerate(self._connections)
        }
        self._transfers: list[Transfer] = []
        self._inputs: list[tuple[int, int, int]] = []
        self._results: list[Elements] = []

    def schedule(self) -> CollectiveSchedule:
        return CollectiveSchedule(
            ranks=self._ranks,
            count=self._count,
            connections=self._connections,
            transfers=tuple(self._transfers),
            inputs=tuple(self._inputs),
            results=tuple(self._results),
            needs_receive_memory=needs_receive_memory(self._kind),
        )

    def ring(self, channel: int, start: int, count: int, *, reduces: bool, gathers: bool, shift: int) -> None:
        """Ring over the share of a channel: each step, every rank passes one chunk on to the next."""
        ranks = self._ranks

        def chunk(index: int) -> tuple[int, int]:
            return _part(start, count, ranks, index % ranks)

        reduce_steps = ranks - 1 if reduces else 0
        steps = reduce_steps + (ranks - 1 if gathers else 0)
        slices = self._slices(count // ranks, SLICES_MAX)
        # With both phases, the first gathering step passes on the chunk that was reduced last.
        owned = 1 + shift if reduces else 0
        latest: dict[tuple[int, int], int] = {}  # (rank, slice) -> what arrived there last
        for step in range(steps):
            is_reducing = step < reduce_steps
            sent = shift - step if is_reducing else owned - (step - reduce_steps)
            arrived: dict[tuple[int, int], int] = {}
            for rank in range(ranks):
                for piece in range(slices):
                    first, number = _part(*chunk(rank + sent), slices, piece)
                    arrived[(rank + 1) % ranks, piece] = self._add(
                        (rank, (rank + 1) % ranks, channel),
                        first,
                        self._count + first if is_reducing else first,
                        number,
                        reduce_start=first if is_reducing else None,
                        after=latest.get((rank, piece)),
                    )
            latest = arrived
        for rank in range(ranks):
            self._ring_memory(rank, channel, chunk, reduces=reduces, gathers=gathers)

    def _ring_memory(
        self,
        rank: int,
        channel: int,
        chunk: Callable[[int], tuple[int, int]],
        *,
        reduces: bool,
        gathers: bool,
    ) -> None:
        """The data that a rank begins with, and the data that it must have in the end."""
        source = self._index_of[(rank - 1) % self._ranks, rank, channel]
        every = [chunk(index) for index in range(self._ranks)]
        if reduces:
            self._inputs += [(rank, *each) for each in every]
        else:
            self._inputs.append((rank, *every[rank]))
        if not gathers:
            first, number = every[rank]
            self._results.append(Elements(rank, first, number, None, first, source))
            return
        for owner, (first, number) in enumerate(every):
            if reduces or owner != rank:
                self._results.append(Elements(rank, first, number, None if reduces else owner, first, source))

    def chain(self, channel: int, start: int, count: int, root: int) -> None:
        """Broadcast over the share of a channel: slice after slice from rank to rank."""
        order = [(root + place) % self._ranks for place in range(self._ranks)]
        self._inputs.append((root, start, count))
        slices = self._slices(count, BROADCAST_SLICES_MAX)
        for piece in range(slices):
            first, number = _part(start, count, slices, piece)
            before: int | None = None
            for source, target in pairwise(order):
                before = self._add(
                    (source, target, channel), first, first, number, reduce_start=None, after=before
                )
        for source, target in pairwise(order):
            index = self._index_of[source, target, channel]
            self._results.append(Elements(target, start, count, root, start, index))

    def exchange(self, channel: int) -> None:
        """All-to-all: every rank sends each other rank a chunk of its own."""
        chunk = self._count // self._ranks
        start, number = _part(0, chunk, self._channels, channel)
        for distance in range(1, self._ranks):
            for rank in range(self._ranks):
                peer = (rank + distance) % self._ranks
                first = peer * chunk + start
                place = self._count + rank * chunk + start  # where the peer keeps what comes from `rank`
                self._add((rank, peer, channel), first, place, number, reduce_start=None, after=None)
                self._inputs.append((rank, first, number))
                index = self._index_of[rank, peer, channel]
                self._results.append(Elements(peer, place, number, rank, first, index))

    def _slices(self, count: int, limit: int) -> int:
        return max(1, min(limit, count * self._element_bytes // SLICE_BYTES_MIN))

    def _add(
        self,
        between: tuple[int, int, int],
        source_start: int,
        target_start: int,
        count: int,
        *,
        reduce_start: int | None,
        after: int | None,
    ) -> int:
        index = self._index_of[between]
        self._transfers.append(Transfer(index, source_start, target_start, count, reduce_start, after))
        return len(self._transfers) - 1


def arrivals_by_connection(schedule: CollectiveSchedule) -> tuple[tuple[int, ...], ...]:
    """Indices of the transfers that each connection carries, in order."""
    carried: list[list[int]] = [[] for _ in schedule.connections]
    for index, transfer in enumerate(schedule.transfers):
        carried[transfer.connection].append(index)
    return tuple(tuple(indices) for indices in carried)


def followers(schedule: CollectiveSchedule) -> tuple[tuple[int, ...], ...]:
    """For each transfer, indices of those that wait for it, in order."""
    waiting: list[list[int]] = [[] for _ in schedule.transfers]
    for index, transfer in enumerate(schedule.transfers):
        if transfer.after is not None:
            waiting[transfer.after].append(index)
    return tuple(tuple(indices) for indices in waiting)


def first_transfers(schedule: CollectiveSchedule) -> Iterator[int]:
    """Indices of the transfers that wait for nothing."""
    return (index for index, transfer in enumerate(schedule.transfers) if transfer.after is None)
