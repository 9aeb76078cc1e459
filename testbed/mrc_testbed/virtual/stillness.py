"""Processes that do nothing: no thread of theirs computes, and none waits for a disk."""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mrc_agents.clock import machine_ns

_PROC: Final = Path("/proc")
_STATE, _PARENT, _SESSION, _USER, _CHILDREN_SYSTEM = 0, 1, 3, 11, 14
"""Fields of proc_pid_stat(5), counted from behind the command."""

_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_IDLE_SHARE: Final = 0.01
"""Share of a core: a thread that looks around now and then does nothing."""


@dataclass(slots=True)
class _Activity:
    """Work of the processes of one leader, as of a look."""

    used_ns: int = 0  # CPU time, with that of children that have ended
    turns: list[str] = field(default_factory=list)  # of each thread: for how long it ran, and how often
    is_busy: bool = False  # a thread is running, or waits for a disk


class Stillness:
    """Watches processes, and their children; it knows what they did until the last look.

    Args:
        leaders: pids of the processes, each the leader of a session.
    """

    def __init__(self, leaders: Collection[int]) -> None:
        self._leaders = leaders
        self._since: dict[int, tuple[int, int]] = {}  # when they did something last, and CPU time until then
        self._last: dict[int, _Activity] = {}
        self._resting: set[int] = set()
        self._looked_ns = 0

    def look(self) -> None:
        """Note what they have done since the last look."""
        before, self._last = self._last, self._activities()
        self._looked_ns = machine_ns()
        self._resting.clear()
        for leader, now in self._last.items():
            since_ns, used_ns = self._since.get(leader, (self._looked_ns, 0))
            idle_ns = _IDLE_SHARE * (self._looked_ns - since_ns) + _TICK_NS
            if leader not in before or now.is_busy or now.used_ns - used_ns > idle_ns:
                self._since[leader] = self._looked_ns, now.used_ns
            elif now == before[leader]:
                self._resting.add(leader)

    def still_ns(self, leader: int) -> int:
        """Time for which processes had done nothing at the last look; 0: they have ended."""
        return self._looked_ns - self._since[leader][0] if leader in self._last else 0

    def is_resting(self, leader: int) -> bool:
        """Return True if no thread ran between the last two looks."""
        return leader in self._resting

    def _activities(self) -> dict[int, _Activity]:
        processes = {int(fields[-1]): fields for fields in _stats(_PROC)}
        found: dict[int, _Activity] = {}
        for pid, fields in processes.items():
            leader = self._leader(fields, processes)
            if leader is None:
                continue
            activity = found.setdefault(leader, _Activity())
            activity.used_ns += sum(map(int, fields[_USER : _CHILDREN_SYSTEM + 1])) * _TICK_NS
            for thread in _stats(_PROC / str(pid) / "task"):
                activity.is_busy |= thread[_STATE] in {"R", "D"}
                activity.turns.append(_text(_PROC / thread[-1] / "schedstat") or "")
        return found

    def _leader(self, fields: list[str], processes: dict[int, list[str]]) -> int | None:
        """The leader of a process: of its session, or of the process that started it."""
        if (session := int(fields[_SESSION])) in self._leaders:
            return session
        parent = processes.get(int(fields[_PARENT]))
        return None if parent is None else self._leader(parent, processes)


def _stats(folder: Path) -> Iterator[list[str]]:
    """Fields of all processes or threads in a folder of proc(5), with the number behind them."""
    try:
        numbers = [path.name for path in folder.iterdir() if path.name.isdecimal()]
    except OSError:  # it has ended
        return
    for number in numbers:
        if text := _text(folder / number / "stat"):
            yield [*text.rpartition(") ")[2].split(), number]


def _text(path: Path) -> str | None:
    """None: whose file it is has ended."""
    try:
        return path.read_text()
    except OSError:
        return None
