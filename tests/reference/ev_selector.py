"""Which EV the next packet has: the executable reference of mrc_agents/nic/bpf/ev/round_robin.h and reps.h.

All EVs are active, and none of their paths is late or dead; an EV in SKIP loses its turn, one at a
time of those that name one path.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

ATTEMPTS: Final = 6
KEPT_MAX: Final = 32


@dataclass(slots=True)
class RoundRobin:
    """Planes take turns, and within a plane its EVs."""

    planes: list[list[int]]  # active EVs of each plane, in the order of their turns
    paths: list[int]  # by EV
    skipped: set[int] = field(default_factory=set)  # EVs in SKIP
    _plane: int = 0
    _turns: dict[int, int] = field(default_factory=dict)

    def select(self) -> int:
        """The EV of the next packet; the first in SKIP that is proposed is GOOD again."""
        is_restored = False
        ev = 0
        for _ in range(ATTEMPTS):
            ev = self._propose()
            if ev not in self.skipped:
                break
            if not is_restored:
                self.skipped.remove(ev)
                is_restored = True
        return ev

    def on_ack(self, ev: int, *, is_marked: bool) -> None:
        if is_marked and self.paths[ev] not in {self.paths[other] for other in self.skipped}:
            self.skipped.add(ev)

    def _propose(self) -> int:
        plane = self._plane
        self._plane = (plane + 1) % len(self.planes)
        turn = self._turns.get(plane, 0)
        self._turns[plane] = turn + 1
        return self.planes[plane][turn % len(self.planes[plane])]


@dataclass(slots=True)
class Reps(RoundRobin):
    """EVs whose SACK came back without a mark are used once more, the oldest first."""

    kept: deque[int] = field(default_factory=deque)  # those EVs

    def on_ack(self, ev: int, *, is_marked: bool) -> None:
        RoundRobin.on_ack(self, ev, is_marked=is_marked)
        if not is_marked and len(self.kept) < KEPT_MAX:
            self.kept.append(ev)

    def _propose(self) -> int:
        return self.kept.popleft() if self.kept else RoundRobin._propose(self)
