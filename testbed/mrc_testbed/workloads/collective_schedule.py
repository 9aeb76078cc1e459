"""Which bytes a collective carries from which rank to which, and in what order. Pure.

An operation is an array of transfers. One that waits for another (`after`) leaves its rank as soon as that
one has arrived there; so the ranks need no clock and no barrier inside an operation. Large chunks go in
slices, each with its own chain, so that the next step of one slice is posted while another is on the wire:

    rank 0 > 1   |chunk 0, slice 0|chunk 0, slice 1|chunk 3, slice 0|chunk 3, slice 1| ...
    rank 1 > 2   |chunk 1, slice 0|chunk 1, slice 1|chunk 0, slice 0|chunk 0, slice 1| ...
                                                    `-- may leave once rank 1 has added it up

Memory of a rank, in elements: `count` of data, then `count` more to receive into.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from mrc_agents.abi import Transfer
from mrc_testbed.workloads.collective import (
    CollectiveKind,
    RankConnection,
    connections_of,
    needs_receive_memory,
)
from mrc_testbed.workloads.element import Array

SLICES_MAX: Final = 4
"""Slices of a ring's chunk: with four, a rank has three quarters of a chunk's time to react."""

SLICE_BYTES_MIN: Final = 16 << 10
"""A slice is not made smaller than this: below, reacting to it costs more than waiting for it."""

BROADCAST_SLICES_MAX: Final = 32
"""A broadcast goes down a chain of ranks: many slices keep all of its links busy."""

TRANSFER: Final = np.dtype(Transfer)
"""One message: struct mrc_transfer."""


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
class Groups:
    """Numbers of transfers in groups: of group i members[first[i]] and on, up to members[first[i + 1]]."""

    first: Array  # (groups + 1,)
    members: Array  # in their order within each group; those of no group come before all

    @classmethod
    def by(cls, keys: Array, count: int) -> "Groups":
        """Groups 0 to count - 1 of what has those keys; -1: of no group."""
        members = np.argsort(keys, kind="stable")
        first = np.searchsorted(keys[members], np.arange(count + 1))
        return cls(first.astype(np.uint32), members.astype(np.uint32))

    def of(self, index: int) -> Array:
        """The members of a group."""
        return self.members[self.first[index] : self.first[index + 1]]


@dataclass(frozen=True, slots=True)
class CollectiveSchedule:
    """One operation."""

    ranks: int  # how many
    count: int  # elements of data of a rank
    connections: tuple[RankConnection, ...]  # between ranks
    transfers: Array  # of TRANSFER, in the order in which a connection carries them
    # (rank, first element, elements) that each operation begins with
    inputs: tuple[tuple[int, int, int], ...]
    results: tuple[Elements, ...]  # what must be found after it
    needs_receive_memory: bool  # whether ranks have memory beyond their data

    @property
    def memory_count(self) -> int:
        """Elements of memory that each rank needs."""
        return self.count * (2 if self.needs_receive_memory else 1)

    def carried(self) -> Groups:
        """The transfers of each connection, in order."""
        return Groups.by(self.transfers["connection"], len(self.connections))

    def followers(self) -> Groups:
        """For each transfer those that wait for it, in order; of no group are those that wait for none."""
        return Groups.by(self.transfers["after"], len(self.transfers))


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


def _part(start: Any, count: Any, parts: int, index: Any) -> tuple[Any, Any]:
    """First element and number of elements of one of several nearly equal parts; of numbers or arrays."""
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
        self._transfers: list[Array] = []
        self._added = 0
        self._inputs: list[tuple[int, int, int]] = []
        self._results: list[Elements] = []

    def schedule(self) -> CollectiveSchedule:
        return CollectiveSchedule(
            ranks=self._ranks,
            count=self._count,
            connections=self._connections,
            transfers=np.concatenate(self._transfers),
            inputs=tuple(self._inputs),
            results=tuple(self._results),
            needs_receive_memory=needs_receive_memory(self._kind),
        )

    def ring(self, channel: int, start: int, count: int, *, reduces: bool, gathers: bool, shift: int) -> None:
        """Ring over the share of a channel: each step, every rank passes one chunk on to the next."""
        ranks = self._ranks
        reduce_steps = ranks - 1 if reduces else 0
        steps = reduce_steps + (ranks - 1 if gathers else 0)
        slices = self._slices(count // ranks, SLICES_MAX)
        # With both phases, the first gathering step passes on the chunk that was reduced last.
        owned = 1 + shift if reduces else 0
        step, rank, piece = np.ogrid[:steps, :ranks, :slices]
        is_reducing = step < reduce_steps
        sent = np.where(is_reducing, shift - step, owned - (step - reduce_steps))
        first, number = _part(*_part(start, count, ranks, (rank + sent) % ranks), slices, piece)
        before = self._added + (((step - 1) * ranks + (rank - 1) % ranks) * slices + piece)
        self._add(
            np.asarray([self._index_of[each, (each + 1) % ranks, channel] for each in range(ranks)])[rank],
            first,
            np.where(is_reducing, self._count + first, first),
            number,
            reduce_start=np.where(is_reducing, first, -1),
            after=np.where(step > 0, before, -1),
        )
        for each in range(ranks):
            self._ring_memory(each, channel, start, count, reduces=reduces, gathers=gathers)

    def _ring_memory(
        self, rank: int, channel: int, start: int, count: int, *, reduces: bool, gathers: bool
    ) -> None:
        """The data that a rank begins with, and the data that it must have in the end."""
        source = self._index_of[(rank - 1) % self._ranks, rank, channel]
        own = _part(start, count, self._ranks, rank)
        self._inputs.append((rank, start, count) if reduces else (rank, *own))
        if not gathers:
            self._results.append(Elements(rank, *own, None, own[0], source))
        elif reduces:
            self._results.append(Elements(rank, start, count, None, start, source))
        else:
            for owner in range(self._ranks):
                if owner != rank:
                    first, number = _part(start, count, self._ranks, owner)
                    self._results.append(Elements(rank, first, number, owner, first, source))

    def chain(self, channel: int, start: int, count: int, root: int) -> None:
        """Broadcast over the share of a channel: slice after slice from rank to rank."""
        order = [(root + place) % self._ranks for place in range(self._ranks)]
        hops = [self._index_of[source, target, channel] for source, target in pairwise(order)]
        self._inputs.append((root, start, count))
        slices = self._slices(count, BROADCAST_SLICES_MAX)
        piece, hop = np.ogrid[:slices, : len(hops)]
        first, number = _part(start, count, slices, piece)
        before = self._added + piece * len(hops) + hop - 1
        self._add(np.asarray(hops)[hop], first, first, number, after=np.where(hop > 0, before, -1))
        for index, target in zip(hops, order[1:], strict=True):
            self._results.append(Elements(target, start, count, root, start, index))

    def exchange(self, channel: int) -> None:
        """All-to-all: every rank sends each other rank a chunk of its own."""
        ranks = self._ranks
        chunk = self._count // ranks
        start, number = _part(0, chunk, self._channels, channel)
        distance, rank = np.ogrid[1:ranks, :ranks]
        peer = (rank + distance) % ranks
        index = (rank * (ranks - 1) + distance - 1) * self._channels + channel  # see connections_of
        first = peer * chunk + start
        place = self._count + rank * chunk + start  # where the peer keeps what comes from `rank`
        self._add(index, first, place, number)
        columns = (each.ravel().tolist() for each in np.broadcast_arrays(rank, peer, first, place, index))
        for source, target, at, kept_at, connection in zip(*columns, strict=True):
            self._inputs.append((source, at, number))
            self._results.append(Elements(target, kept_at, number, source, at, connection))

    def _slices(self, count: int, limit: int) -> int:
        return max(1, min(limit, count * self._element_bytes // SLICE_BYTES_MIN))

    def _add(
        self,
        connection: Array,
        source_start: Array,
        target_start: Array,
        count: Array | int,
        *,
        reduce_start: Array | int = -1,
        after: Array | int = -1,
    ) -> None:
        """Add transfers, of columns that are broadcast to one shape, in the order of the last axis first."""
        columns = np.broadcast_arrays(connection, source_start, target_start, count, reduce_start, after)
        added = np.empty(columns[0].size, TRANSFER)
        for name, column in zip(TRANSFER.names or (), columns, strict=True):
            added[name] = column.ravel()
        self._transfers.append(added)
        self._added += len(added)
