"""A program with ranks whose collectives the virtual NICs carry: what it does at which time.

Time passes only while every rank waits, sleeps or has ended: so a rank cannot start an operation in the past,
and neither the machine's load nor the order in which ranks speak changes anything. One that waits in the
machine, as for a file, lets time pass while an operation can end without it, or another rank sleeps.
"""

import heapq
import re
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_void_p
from typing import Any, Final

from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.ranks import Rank
from mrc_testbed.virtual.rank_channel import Piece
from mrc_testbed.virtual.rank_network import RankNetwork
from mrc_testbed.virtual.rank_processes import Alarm, Post, RankProcesses

NOW_VARIABLE: Final = "MRC_TESTBED_VIRTUAL_NOW_NS"
"""Virtual time at which a rank's process is started."""


class ProgramRun:
    """Ranks between their start and their end.

    Args:
        network: carries their operations; it is open.
        processes: of the ranks.
        now_ns: virtual time.
    """

    def __init__(self, network: RankNetwork, processes: RankProcesses, now_ns: Callable[[], int]) -> None:
        self._network = network
        self._processes = processes
        self._now_ns = now_ns
        self._future: list[tuple[int, int, int, Post | Alarm]] = []
        self._count = 0
        self._has_to_settle = True
        self.error: str | None = None  # why the program failed; None: it did not
        self.is_over = False  # whether it has ended

    def start(self, ranks: Sequence[Rank]) -> None:
        self._processes.start(ranks)

    def deadline_ns(self) -> int | None:
        """When it goes on without an event."""
        if self.is_over or self._processes.is_interrupted:
            return None
        if self._has_to_settle:
            return self._now_ns()
        return self._future[0][0] if self._future else None

    def advance(self) -> None:
        """Do all that is to be done now; the machine's time passes where ranks compute."""
        while not self.is_over:
            self._has_to_settle = False
            if not self._processes.settle():
                if self._processes.error is None:
                    self._has_to_settle = True
                else:
                    self.fail(self._processes.error)
                return
            if self.is_over:  # a report was wrong
                return
            has_woken = self._take_posts()
            self._network.advance()
            if self._network.failure is not None:
                self.fail(self._network.failure)
            elif not (self._report_ended() or has_woken):
                break
        if self._processes.is_over:
            self.is_over = True
        elif not self.is_over and not self._future and not self._network.under_way:
            self.fail(f"all ranks wait for each other: {self._deadlock()}")

    def fail(self, why: str) -> None:
        """Let all operations fail; ranks get time to say so."""
        if self.is_over:
            return
        self.error = re.sub(r"\brank (\d+)\b(?! \()", lambda found: self._network.name(int(found[1])), why)
        self.is_over = True
        self._network.fail(why)
        self._report_ended()
        for post in [*(post for *_, post in self._future), *self._processes.take_posts()]:
            if isinstance(post, Alarm):
                self._processes.wake(post.rank, self._now_ns())
            else:
                self._processes.report_ended(post.rank, post.start.id, self._now_ns(), why)
        self._processes.let_end()

    def _take_posts(self) -> bool:
        """Start what is due, and wake who is, in the order of its time and of the ranks; False: none woke."""
        has_woken = False
        for post in self._processes.take_posts():
            self._count += 1
            heapq.heappush(self._future, (max(post.at_ns, self._now_ns()), post.rank, self._count, post))
        while self._future and self._future[0][0] <= self._now_ns():
            *_, post = heapq.heappop(self._future)
            if isinstance(post, Alarm):
                self._processes.wake(post.rank, self._now_ns())
                has_woken = True
                continue
            try:
                self._begin(post)
            except (TestbedError, ValueError) as error:
                self._network.fail(f"rank {post.rank}: {error}")
                self._processes.report_ended(post.rank, post.start.id, self._now_ns(), str(error))
        return has_woken

    def _begin(self, post: Post) -> None:
        start = post.start
        address = 0 if post.shared is None else post.shared.address
        arguments: tuple[Any, ...] = (address, *start.arguments)
        if start.operation == "exchange":
            arguments = (*_sides(address, start.out), *_sides(address, start.in_))
        self._network.start(
            post.rank,
            start.operation,
            start.ranks,
            start.group,
            start.number,
            *arguments,
            ended_as=start.id,
        )

    def _report_ended(self) -> bool:
        """Report to ranks what has ended; False: nothing has."""
        has_reported = False
        for rank, number, error in self._network.take_ended():
            has_reported = True
            self._processes.report_ended(rank, number, self._now_ns(), error)
        return has_reported

    def _deadlock(self) -> str:
        waiting = self._processes.waiting()
        texts = []
        for rank, starts in waiting.items():
            others = [
                self._network.name(other) + ("" if other in waiting else ", which has ended")
                for other in self._network.awaited(rank)
            ]
            names = ", ".join(dict.fromkeys(start.operation for start in starts))
            texts.append(f"{self._network.name(rank)} in {names} for {' and '.join(others)}")
        return "; ".join(texts)


def _sides(address: int, pieces: Sequence[Piece]) -> tuple[Any, Any]:
    """Addresses and lengths of an exchange, for C."""
    addresses = (c_void_p * len(pieces))(*(address + at if length else None for at, length in pieces))
    return addresses, (c_size_t * len(pieces))(*(length for _, length in pieces))
