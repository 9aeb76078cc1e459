"""The NICs of the ranks of a program or trace: their QPs, and the collectives in flight between them."""

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from mrc_agents.collectives.rank_collectives import RankCollectives, load_library
from mrc_agents.nic.context import RECEIVES_MAX, Arrival, MemoryRegion, QpError, QueuePair
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.units import format_size_bytes
from mrc_testbed.workloads.transport import Event, HostLost, Transport

_SEED_BITS: Final = 31

Piece = tuple[int, int]
"""Offset in memory, and bytes; 0 bytes: nothing."""


def exchange_sides(address: int, out: Sequence[Piece], into: Sequence[Piece]) -> tuple[Any, ...]:
    """Arguments of an exchange for C: addresses and lengths of what is sent and received."""
    sides: list[Any] = []
    for pieces in (out, into):
        sides.append((c_void_p * len(pieces))(*(address + at if length else None for at, length in pieces)))
        sides.append((c_size_t * len(pieces))(*(length for _, length in pieces)))
    return tuple(sides)


@dataclass(slots=True)
class _RankLink:
    """From one rank to another: a QP, and the memory at both ends."""

    qp: QueuePair
    near: MemoryRegion
    far: MemoryRegion
    # sent so far
    messages: int = 0
    payload_bytes: int = 0


class RankNetwork:
    """Ranks, each with a QP and memory for each other.

    Args:
        hosts: of the ranks, in their order.
        pairs: of ranks that communicate; None: all.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        transport: Transport,
        seed: int,
        pairs: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        self._hosts = hosts
        self._transport = transport
        self._random = random.Random(seed)
        all_pairs = combinations(range(len(hosts)), 2)
        self._pairs = all_pairs if pairs is None else [each for each in pairs if each[0] < each[1]]
        self._ranks: list[RankCollectives] = []
        self._links: dict[tuple[int, int], _RankLink] = {}
        self._arrives: dict[QueuePair, tuple[int, int]] = {}
        self._held = ExitStack()
        self.under_way = 0  # messages that have not arrived
        self.failure: str | None = None  # why operations fail; None: they do not

    def open(self) -> None:
        """Register memory and connect the ranks."""
        library = load_library()
        for number in range(len(self._hosts)):
            self._ranks.append(RankCollectives(library, number))
            self._held.callback(self._ranks[-1].close)
        for one, other in self._pairs:
            try:
                self._connect(one, other)
            except UsageError as error:
                size = format_size_bytes(self._ranks[0].memory_bytes)
                raise UsageError(
                    f"the NIC of {self.name(one)} or {self.name(other)} has no room for "
                    f"{len(self._hosts) - 1} peers, each {size} and a QP: {error.message}",
                    hint="give the NICs more memory (topology: nic: memory), or use fewer ranks",
                ) from error

    def _connect(self, one: int, other: int) -> None:
        regions = {rank: self._register(rank) for rank in (one, other)}
        near, far = self._transport.connect(
            self._hosts[one], self._hosts[other], self._random.getrandbits(_SEED_BITS)
        )
        for qp, here, there in ((near, one, other), (far, other, one)):
            self._held.callback(qp.close)
            qp.post_receive(RECEIVES_MAX)
            self._arrives[qp] = here, there
            self._links[here, there] = _RankLink(qp, regions[here], regions[there])
            self._ranks[here].add_peer(there, regions[here].address)

    def qps(self) -> Iterable[QueuePair]:
        return self._arrives

    def sending_end(self, source: int, target: int) -> QueuePair:
        """The QP from one rank to another."""
        return self._links[source, target].qp

    def carried(self, source: int, target: int) -> tuple[int, int]:
        """Messages and bytes that one rank has sent to another."""
        link = self._links[source, target]
        return link.messages, link.payload_bytes

    def start(
        self,
        rank: int,
        operation: str,
        ranks: Sequence[int],
        group: int,
        number: int,
        *arguments: Any,
        ended_as: int,
    ) -> None:
        """Start a rank's part of an operation; see RankCollectives.

        Raises:
            ValueError: the library refuses it.
        """
        each = self._ranks[rank]
        each.start(operation, each.group(ranks, group), number, ended_as, *arguments)

    def take(self, event: Event) -> None:
        """Take an event of a QP."""
        match event:
            case Arrival(qp=qp, immediate=immediate):
                here, there = self._arrives[qp]
                self.under_way -= 1
                self._ranks[here].arrive(there, immediate)
            case QpError(qp=qp, reason=reason):
                here, there = self._arrives[qp]
                self.fail(f"{self.name(here)} does not reach {self.name(there)}: {reason}")
            case HostLost(host=host, reason=reason):
                self.lose(host, reason)

    def lose(self, host: str, reason: str) -> None:
        """Fail if one of the ranks is on that host."""
        if host in self._hosts:
            self.fail(f"the NIC of {self.name(self._hosts.index(host))} is lost: {reason}")

    def advance(self) -> None:
        """Send what can be sent now."""
        for number, rank in enumerate(self._ranks):
            rank.advance()
            for write in rank.take_writes():
                link = self._links[number, write.peer]
                self.under_way += 1
                link.messages += 1
                link.payload_bytes += write.bytes
                try:
                    link.qp.send_write(
                        link.near,
                        link.far.remote,
                        length=write.bytes,
                        local_at=write.local,
                        remote_at=write.remote,
                        immediate=write.immediate,
                    )
                except TestbedError as error:
                    self.fail(f"{self.name(number)} cannot send to {self.name(write.peer)}: {error.message}")
            if rank.error:
                self.fail(rank.error)

    def take_ended(self) -> Iterator[tuple[int, int, str | None]]:
        """Rank, `ended_as` and what went wrong, of each operation that has ended, in the order of ranks."""
        for number, rank in enumerate(self._ranks):
            for ended_as, error in rank.take_ended():
                yield number, ended_as, error

    def awaited(self, rank: int) -> list[int]:
        """Ranks that operations of a rank wait for now."""
        return self._ranks[rank].awaited(len(self._ranks) ** 2)

    def fail(self, why: str) -> None:
        """Let all operations of all ranks fail; the first reason stays."""
        if self.failure is None:
            self.failure = why
            for rank in self._ranks:
                rank.fail(why)

    def name(self, rank: int) -> str:
        return f"rank {rank} ({self._hosts[rank]})"

    def close(self) -> list[TestbedError]:
        """Free memory and connections, all that can be; returns the errors."""
        try:
            self._held.close()
        except TestbedError as error:
            return [error]
        return []

    def _register(self, rank: int) -> MemoryRegion:
        region = self._transport.register(self._hosts[rank], self._ranks[rank].memory_bytes)
        self._held.callback(region.close)
        return region
